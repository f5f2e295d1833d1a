//! What headers take of packets, in bytes, over IPv4.

/// A full-size packet of an ordinary link, from the IP header on.
pub const PACKET: u32 = 1500;

/// What the tunnel puts before and behind a full-size inner packet: headers of IP and UDP and its own, timestamp, frame and tag
/// (`docs/PROTOCOL.md`, 5.6).
pub const TUNNEL: u32 = 67;

/// Headers of IP, and of TCP with timestamps (RFC 7323).
pub const TCP: u32 = 20 + 32;

/// Headers of IP and UDP.
pub const UDP: u32 = 20 + 8;
