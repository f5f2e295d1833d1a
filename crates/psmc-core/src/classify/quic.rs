//! Which flows of UDP are QUIC, at whatever port.

use std::time::{Duration, Instant};

use psmc_wire::Bucket;
use psmc_wire::ids::BUCKETS;

/// A flow that has been silent for one to two such times is forgotten. Implementations close connections that are idle
/// for longer than half a minute.
const GENERATION: Duration = Duration::from_secs(60);

/// QUIC version 1 (RFC 9000 §15) and version 2 (RFC 9369 §3.1).
const VERSIONS: [u32; 2] = [1, 0x6b33_43cf];

/// Bytes of a UDP header.
const UDP_HEADER: usize = 8;

/// What the beginning of a datagram says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum QuicHint {
    /// It is not QUIC.
    No,
    /// It may be a packet with a short header (RFC 9000 §17.3) if the beginning of its connection was seen. All that
    /// it shows is one bit: the other fixed one may be greased (RFC 9287).
    Short,
    /// It is a packet with a long header of a known version (RFC 9000 §17.2), as each side sends first.
    Long,
}

impl QuicHint {
    /// Of a UDP datagram, from its header on.
    pub(super) fn of_udp(datagram: &[u8]) -> Self {
        match datagram.get(UDP_HEADER..) {
            Some(&[first, v0, v1, v2, v3, ..]) if first & 0xC0 == 0xC0 => {
                let known = VERSIONS.contains(&u32::from_be_bytes([v0, v1, v2, v3]));
                if known { Self::Long } else { Self::No }
            }
            Some(&[first, ..]) if first & 0x80 == 0 => Self::Short,
            Some(_) | None => Self::No,
        }
    }
}

/// The buckets in which a QUIC connection was seen to begin.
#[derive(Debug)]
pub(crate) struct QuicFlows {
    current: BucketSet,
    previous: BucketSet,
    began: Instant,
}

impl QuicFlows {
    /// Without any.
    pub(crate) fn new(now: Instant) -> Self {
        Self { current: BucketSet::default(), previous: BucketSet::default(), began: now }
    }

    /// Whether a packet of `bucket` with this hint belongs to a QUIC connection.
    pub(crate) fn contain(&mut self, bucket: Bucket, hint: QuicHint, now: Instant) -> bool {
        if hint == QuicHint::No {
            return false;
        }
        if now >= self.began + GENERATION {
            self.previous = std::mem::take(&mut self.current);
            self.began = now;
        }
        let is_quic =
            hint == QuicHint::Long || self.current.contains(bucket) || self.previous.contains(bucket);
        if is_quic {
            self.current.insert(bucket);
        }
        is_quic
    }
}

/// One bit for each bucket.
#[derive(Debug)]
struct BucketSet {
    words: [u64; BUCKETS as usize / 64],
}

impl Default for BucketSet {
    fn default() -> Self {
        Self { words: [0; BUCKETS as usize / 64] }
    }
}

impl BucketSet {
    fn contains(&self, bucket: Bucket) -> bool {
        self.words[bucket.index() / 64] & 1 << (bucket.index() % 64) != 0
    }

    fn insert(&mut self, bucket: Bucket) {
        self.words[bucket.index() / 64] |= 1 << (bucket.index() % 64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(payload: &[u8]) -> QuicHint {
        QuicHint::of_udp(&[&[0; UDP_HEADER], payload].concat())
    }

    #[test]
    fn only_known_versions_begin_a_connection() {
        assert_eq!(hint(&[0xC3, 0, 0, 0, 1, 8]), QuicHint::Long);
        assert_eq!(hint(&[0xD1, 0x6b, 0x33, 0x43, 0xcf, 8]), QuicHint::Long);
        assert_eq!(hint(&[0xC3, 0, 0, 0, 0, 8]), QuicHint::No, "version negotiation");
        assert_eq!(hint(&[0xC3, 1, 2, 3, 4, 8]), QuicHint::No);
        assert_eq!(hint(&[0x4A, 1]), QuicHint::Short);
        assert_eq!(hint(&[0x0A, 1]), QuicHint::Short, "greased");
        assert_eq!(hint(&[0x80, 0x60, 0, 1]), QuicHint::No, "RTP");
        assert_eq!(hint(&[]), QuicHint::No);
        assert_eq!(QuicHint::of_udp(&[1, 2]), QuicHint::No);
    }

    #[test]
    fn a_connection_is_known_from_its_beginning_until_it_is_silent() {
        let start = Instant::now();
        let mut flows = QuicFlows::new(start);
        let bucket = |number| Bucket::new(number).expect("a bucket");
        assert!(!flows.contain(bucket(7), QuicHint::Short, start), "its beginning was not seen");
        assert!(flows.contain(bucket(7), QuicHint::Long, start));
        assert!(!flows.contain(bucket(8), QuicHint::Short, start));
        let mut now = start;
        for _ in 0..10 {
            now += GENERATION * 9 / 10;
            assert!(flows.contain(bucket(7), QuicHint::Short, now));
        }
        assert!(!flows.contain(bucket(7), QuicHint::No, now));
        for _ in 0..2 {
            now += GENERATION;
            flows.contain(bucket(9), QuicHint::Long, now);
        }
        assert!(!flows.contain(bucket(7), QuicHint::Short, now));
    }
}
