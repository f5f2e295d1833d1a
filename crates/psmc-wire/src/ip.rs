//! IPv4 packets, IPv4 in IPv4 (RFC 2003), UDP datagrams within them, and checksums.
//!
//! | function | RFC |
//! |---|---|
//! | [`Ipv4::parse`] | 791 |
//! | [`encapsulate`], [`decapsulate`] | 2003, and 6040 for congestion marks |
//! | [`forward`] | 2003 section 3.1: what the forwarding of the inner packet changes |
//! | [`Fragments`] | 791 section 2.3: cutting a packet that is longer than the next link takes |
//! | [`IcmpError`], [`icmp_error`] | 792, 1191 and 1812 section 4.3.2 |
//! | [`Undelivered`] | 792 and 4443 section 3.1: who says that a UDP datagram did not arrive |
//! | [`TunnelledUdp`] | 768, within the above |

pub mod checksum;
mod fragment;
mod icmp;
mod ipv4;
pub mod transport;
mod tunnel;
mod udp;
mod undelivered;

pub use fragment::Fragments;
pub use icmp::{IcmpError, Problem, icmp_error, is_too_big_v4, is_too_big_v6, may_be_reported};
pub use ipv4::{IPV4_HEADER_LEN, Ipv4, PROTOCOL_ICMP, PROTOCOL_IPIP, PROTOCOL_UDP, TtlExpired, forward};
pub use tunnel::{Decapsulated, TTL, TunnelError, decapsulate, encapsulate};
pub use udp::{TUNNELLED_UDP_HEADERS, TunnelledUdp};
pub use undelivered::Undelivered;

/// The two bits of explicit congestion notification in an IP header (RFC 3168, section 5).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0,
    /// ECN-capable, codepoint ECT(1).
    Ect1 = 1,
    /// ECN-capable, codepoint ECT(0).
    Ect0 = 2,
    /// Congestion was experienced.
    Ce = 3,
}

impl Ecn {
    /// The mark in a byte of type of service, or traffic class.
    #[must_use]
    pub fn of(traffic_class: u8) -> Self {
        match traffic_class & ECN_BITS {
            0 => Self::NotEct,
            1 => Self::Ect1,
            2 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// Where the mark is in the byte.
const ECN_BITS: u8 = 3;
