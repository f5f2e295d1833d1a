//! Identifiers and sequence numbers, each its own type.

use std::fmt;

/// Finds the session of a datagram at its receiver (or at a relay); chosen by that receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Label(pub u32);

/// A path of a session. Even ids are opened by the site with the smaller public key, odd ones by the other;
/// an id is never used again while the session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PathId(pub u16);

impl fmt::Display for PathId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A byte stream of a session. Even ids are opened by the site with the smaller public key, odd ones by the other; they
/// ascend, and are not used again while the session lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(pub u32);

/// Chosen anew, at random and never zero, whenever a site starts a session from nothing.
///
/// Two sites go on with their numbers and windows over a new control connection only if each still is in
/// the incarnation that the other one knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Incarnation(pub u64);

impl Incarnation {
    /// Stands for that of a peer of which nothing has been heard.
    pub const NONE: Self = Self(0);
}

/// A site or a relay, as others know it: the bytes of its Ed25519 public key (RFC 8032 §5.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyBytes(pub [u8; 32]);

/// Numbers the datagrams of one path and direction, or of one direction of a hop to a relay, from zero.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct PacketNumber(pub u64);

impl PacketNumber {
    /// The low 32 bits, which are all that a datagram carries.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "truncation is its purpose")]
    pub fn truncated(self) -> u32 {
        self.0 as u32
    }

    /// The number nearest to `expected` whose low 32 bits are `truncated` (RFC 9000 appendix A.3).
    #[must_use]
    pub fn expand(truncated: u32, expected: Self) -> Self {
        const SPAN: u64 = 1 << 32;
        let candidate = (expected.0 & !(SPAN - 1)) | u64::from(truncated);
        if candidate + SPAN / 2 <= expected.0 && candidate < u64::MAX - SPAN {
            Self(candidate + SPAN)
        } else if candidate > expected.0 + SPAN / 2 && candidate >= SPAN {
            Self(candidate - SPAN)
        } else {
            Self(candidate)
        }
    }

    /// The number after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0 + 1)
    }
}

/// How many flow buckets a session has in each direction.
///
/// Few enough that the table of sequence numbers (16 KiB) stays in the cache, enough that among a thousand
/// busy flows three in four share their bucket with nobody.
pub const BUCKETS: u16 = 4096;

/// A set of inner flows that share one sequence: a hash of the 5-tuple, below [`BUCKETS`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bucket(u16);

impl Bucket {
    /// The bucket with that number, if there is one.
    #[must_use]
    pub fn new(number: u16) -> Option<Self> {
        (number < BUCKETS).then_some(Self(number))
    }

    /// The bucket of a flow whose 5-tuple hashes to `hash`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "the low bits of a hash are as good as all of them")]
    pub fn of_hash(hash: u64) -> Self {
        Self(hash as u16 % BUCKETS)
    }

    /// The number of the bucket.
    #[must_use]
    pub fn number(self) -> u16 {
        self.0
    }

    /// The number of the bucket, to index a table with.
    #[must_use]
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// Numbers the inner packets of one bucket, from zero, in serial number arithmetic (RFC 1982).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct FlowSeq(pub u32);

impl FlowSeq {
    /// How far `self` lies behind `other` (negative: before it), the shorter way round.
    #[must_use]
    pub fn distance_from(self, other: Self) -> i32 {
        self.0.wrapping_sub(other.0).cast_signed()
    }

    /// The sequence number `n` packets later.
    #[must_use]
    pub fn plus(self, n: u32) -> Self {
        Self(self.0.wrapping_add(n))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_packet_number_survives_truncation(expected in 0u64..1 << 60, offset in -(1i64 << 31) + 1..1i64 << 31) {
            let pn = PacketNumber(expected.saturating_add_signed(offset));
            prop_assert_eq!(PacketNumber::expand(pn.truncated(), PacketNumber(expected)), pn);
        }

        #[test]
        fn expanding_never_panics(truncated: u32, expected: u64) {
            let expected = PacketNumber(expected >> 1);
            prop_assert_eq!(PacketNumber::expand(truncated, expected).truncated(), truncated);
        }

        #[test]
        fn flow_sequences_wrap(start: u32, n in 0u32..1 << 31) {
            let (a, b) = (FlowSeq(start), FlowSeq(start).plus(n));
            prop_assert_eq!(i64::from(b.distance_from(a)), i64::from(n));
        }
    }

    #[test]
    fn every_hash_has_a_bucket() {
        for hash in [0, 1, 4095, 4096, u64::MAX] {
            assert!(Bucket::new(Bucket::of_hash(hash).number()).is_some());
        }
        assert!(Bucket::new(BUCKETS).is_none());
    }
}
