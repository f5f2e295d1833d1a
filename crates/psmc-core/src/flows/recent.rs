//! A flow that is just carrying packets: each is known by a few bytes of its headers, and what they carry together is counted for the
//! flow only when that is asked for, so that a packet costs some thirty instructions.

use std::time::Instant;

use super::seen::{TCP, TCP_FLAGS, V6_HEADER, V6_NEXT_HEADER};
use super::table::{Flow, Key, Place};
use crate::classify::ClassId;
use crate::ids::PeerId;

/// Bytes of an IPv4 header without options, and of an IPv6 header, with the two ports behind them.
const V4: usize = 24;
const V6: usize = 44;

/// Bytes of an IPv4 header without options.
const V4_HEADER: usize = 20;

/// Where no packet has anything.
const NOWHERE: usize = usize::MAX;

/// What all packets of a flow have alike of the first sixteen bytes of an IPv4 header (RFC 791 §3.1): version and length of the header,
/// that it is no fragment, the protocol, the source.
const V4_ALIKE: [u64; 2] = [
    u64::from_ne_bytes([0xFF, 0, 0, 0, 0, 0, 0x3F, 0xFF]),
    u64::from_ne_bytes([0, 0xFF, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF]),
];

/// The same of the first eight bytes of an IPv6 header (RFC 8200 §3): the version and the next header.
const V6_ALIKE: u64 = u64::from_ne_bytes([0xF0, 0, 0, 0, 0, 0, 0xFF, 0]);

/// By which a packet of the flow is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mark {
    /// What is sent was classified: the hash of its addresses, protocol and ports by a secret key, which only packets of one flow have in
    /// common (but for one pair in 2^64).
    Sent(u64),
    /// What was received is known by its headers.
    V4([u64; V4 / 8]),
    V6([u64; V6 / 8], u32),
}

impl Mark {
    /// That of a received packet without options or extension headers; `None` of others.
    fn of(packet: &[u8]) -> Option<Self> {
        match packet.first()? {
            0x45 => packet.first_chunk().map(|head| Self::V4(v4(head))),
            0x60..=0x6F => packet.first_chunk().map(v6).map(|(words, ports)| Self::V6(words, ports)),
            _ => None,
        }
    }

    #[inline]
    fn is_of(&self, packet: &[u8]) -> bool {
        match self {
            Self::Sent(_) => false,
            Self::V4(words) => packet.first_chunk().is_some_and(|head| is_same(v4(head), words)),
            Self::V6(words, ports) => packet
                .first_chunk()
                .map(v6)
                .is_some_and(|(head, seen)| is_same(head, words) && seen == *ports),
        }
    }
}

/// With one branch: what differs does so late in the headers.
#[inline]
fn is_same<const N: usize>(words: [u64; N], others: &[u64; N]) -> bool {
    words.iter().zip(others).fold(0, |differ, (word, other)| differ | (word ^ other)) == 0
}

#[inline]
fn v4(head: &[u8; V4]) -> [u64; V4 / 8] {
    let [first, second] = V4_ALIKE;
    [word(head, 0) & first, word(head, 8) & second, word(head, 16)]
}

#[inline]
fn v6(head: &[u8; V6]) -> ([u64; V6 / 8], u32) {
    let [a, b, c, d] = [8, 16, 24, 32].map(|at| word(head, at));
    let ports = head.last_chunk().copied().map_or(0, u32::from_ne_bytes);
    ([word(head, 0) & V6_ALIKE, a, b, c, d], ports)
}

/// Eight bytes as they are.
#[inline]
fn word(head: &[u8], at: usize) -> u64 {
    head.get(at..).and_then(<[u8]>::first_chunk).copied().map_or(0, u64::from_ne_bytes)
}

/// A flow that is just carrying packets, and what it has carried since it was last counted.
#[derive(Debug)]
pub(super) struct Recent {
    mark: Mark,
    peer: PeerId,
    class: ClassId,
    place: Place,
    /// A byte of headers without options or extension headers, and where it is.
    plain: (usize, u8),
    /// Where its packets have TCP's flags.
    tcp_flags_at: usize,
    packets: u64,
    bytes: u64,
    tcp_flags: u8,
    last: Instant,
}

impl Recent {
    /// The flow of this packet, which has just been counted, and of which `flow` is the hash if it is sent; `None` unless it is TCP or UDP
    /// without options or extension headers.
    pub(super) fn new(
        packet: &[u8],
        flow: Option<u64>,
        key: &Key,
        place: Place,
        now: Instant,
    ) -> Option<Self> {
        let of_headers = Mark::of(packet)?;
        let (header, plain) = match of_headers {
            Mark::V6(..) => (V6_HEADER, (V6_NEXT_HEADER, key.ends.protocol)),
            Mark::V4(_) | Mark::Sent(_) => (V4_HEADER, (0, 0x45)),
        };
        let tcp_flags_at = if key.ends.protocol == TCP { header + TCP_FLAGS } else { NOWHERE };
        let (peer, class, mark) = (key.peer, key.class, flow.map_or(of_headers, Mark::Sent));
        let (packets, bytes, tcp_flags) = (0, 0, 0);
        Some(Self { mark, peer, class, place, plain, tcp_flags_at, packets, bytes, tcp_flags, last: now })
    }

    /// Whether a packet that is sent is one of it, by its hash.
    #[inline]
    pub(super) fn sends(&self, peer: PeerId, class: ClassId, flow: u64, packet: &[u8]) -> bool {
        let (at, byte) = self.plain;
        self.mark == Mark::Sent(flow)
            && (self.peer, self.class) == (peer, class)
            && packet.get(at) == Some(&byte)
    }

    /// Whether a packet that has come is one of it.
    #[inline]
    pub(super) fn receives(&self, peer: PeerId, packet: &[u8]) -> bool {
        self.peer == peer && self.mark.is_of(packet)
    }

    /// A packet of it has passed.
    #[inline]
    pub(super) fn note(&mut self, packet: &[u8], now: Instant) {
        self.packets += 1;
        self.bytes += packet.len() as u64;
        self.tcp_flags |= packet.get(self.tcp_flags_at).copied().unwrap_or_default();
        self.last = now;
    }

    /// Its class.
    #[inline]
    pub(super) fn class(&self) -> ClassId {
        self.class
    }

    /// Its place in the table.
    #[inline]
    pub(super) fn place(&self) -> Place {
        self.place
    }

    /// Counts for the flow what has passed.
    pub(super) fn settle(self, flow: &mut Flow) {
        flow.counts.packets += self.packets;
        flow.counts.bytes += self.bytes;
        flow.tcp_flags |= self.tcp_flags;
        flow.last = flow.last.max(self.last);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::seen::Seen;
    use super::*;

    /// The headers of a plain packet.
    fn packet(is_v6: bool, protocol: u8, [source, destination]: [u8; 2], ports: [u8; 2]) -> Vec<u8> {
        let mut packet = vec![0; 80];
        if is_v6 {
            packet[0] = 0x60;
            packet[6] = protocol;
            (packet[23], packet[39], packet[41], packet[43]) = (source, destination, ports[0], ports[1]);
        } else {
            packet[0] = 0x45;
            packet[9] = protocol;
            (packet[15], packet[19], packet[21], packet[23]) = (source, destination, ports[0], ports[1]);
        }
        packet
    }

    proptest! {
        /// Whatever else its headers say: what has the same mark is of the same flow, and what is of the same flow has it.
        #[test]
        fn a_mark_is_that_of_one_flow(
            first in (any::<bool>(), prop_oneof![Just(6_u8), Just(17)], [0..2_u8, 0..2], [0..2_u8, 0..2]),
            second in (any::<bool>(), prop_oneof![Just(6_u8), Just(17)], [0..2_u8, 0..2], [0..2_u8, 0..2]),
            at in 0..60_usize,
            byte: u8,
        ) {
            let [first, mut second] = [first, second]
                .map(|(is_v6, protocol, ends, ports)| packet(is_v6, protocol, ends, ports));
            second[at] ^= byte;
            if let (Some(mark), Some(seen)) = (Mark::of(&first), Seen::of_plain(&first)) {
                let is_same = Seen::of_plain(&second).is_some_and(|other| other.ends == seen.ends);
                let has_options = second[0] >> 4 == 4 && second[0] != 0x45;
                prop_assert_eq!(mark.is_of(&second), is_same && !has_options);
            }
        }

        /// Bytes of any kind harm nobody.
        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            if let Some(mark) = Mark::of(&bytes) {
                prop_assert!(mark.is_of(&bytes));
            }
        }
    }
}
