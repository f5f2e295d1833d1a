//! What a link knows of a packet, and what it does to one.

use std::time::Instant;

/// What a link must know of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketInfo {
    /// Its bytes, from the IP header on.
    pub len: usize,
    /// Whether it says that it can be marked instead of dropped (ECN, RFC 3168).
    pub ecn_capable: bool,
}

/// A packet at the far end of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival<P> {
    /// The packet.
    pub packet: P,
    /// When it arrives, in logical time; never later than the `now` it was polled with.
    pub at: Instant,
    /// How often the far end sees it: 2 for a duplicated one.
    pub copies: u8,
    /// The bit to be flipped in it, if it gets corrupted: counted from the IP header on, below eight times its length.
    pub corrupt_bit: Option<u64>,
    /// Whether the queue has marked it, which only happens to a packet that is ECN-capable.
    pub congestion_experienced: bool,
}

impl PacketInfo {
    /// A packet of this length that can't be marked.
    #[must_use]
    pub fn new(len: usize) -> Self {
        Self { len, ecn_capable: false }
    }
}
