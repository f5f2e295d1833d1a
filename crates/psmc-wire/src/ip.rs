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
//! | [`tcp`] | 9293: segments, and how a connection is asked for and refused |

pub mod checksum;
mod icmp;
mod ipv4;
pub mod tcp;
pub mod transport;
mod tunnel;
mod udp;

pub use icmp::{IcmpError, Problem, icmp_error, is_too_big_v4, is_too_big_v6, may_be_reported};
use ipv4::set_fragment;
pub use ipv4::{IPV4_HEADER_LEN, Ipv4, PROTOCOL_ICMP, PROTOCOL_IPIP, PROTOCOL_UDP, TtlExpired, forward};
pub use tunnel::{Decapsulated, TTL, TunnelError, decapsulate, encapsulate};
pub use udp::{TUNNELLED_UDP_HEADERS, TunnelledUdp, Undelivered};

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

// Cutting a packet that is longer than the next link takes (RFC 791, section 2.3).

/// Pieces begin at multiples of this, in bytes.
const UNIT: usize = 8;

/// In the type of an option: later pieces have it, too (RFC 791, section 3.1).
const COPIED: u8 = 0x80;

const END_OF_OPTIONS: u8 = 0;
const NO_OPERATION: u8 = 1;

/// The pieces of a packet, in order.
#[derive(Debug)]
pub struct Fragments<'a> {
    packet: Ipv4<'a>,
    /// What of its payload has not been given yet.
    rest: &'a [u8],
    /// How much of it goes into each piece but the last.
    step: usize,
}

impl<'a> Fragments<'a> {
    /// Cuts a packet into pieces of at most `max_len` bytes, headers included. `None` if no router may cut it, or it has
    /// too long a header for that.
    #[must_use]
    pub fn of(packet: Ipv4<'a>, max_len: usize) -> Option<Self> {
        let step = max_len.checked_sub(packet.header_len())? / UNIT * UNIT;
        let can_be_cut = step > 0 && !packet.dont_fragment();
        can_be_cut.then_some(Self { packet, rest: packet.payload(), step })
    }

    /// Writes the next piece into `buffer`, whose former contents are gone; false if there are no more.
    pub fn write_next(&mut self, buffer: &mut Vec<u8>) -> bool {
        if self.rest.is_empty() {
            return false;
        }
        let (payload, rest) = self.rest.split_at(self.step.min(self.rest.len()));
        let before = self.packet.payload().len() - self.rest.len();
        buffer.clear();
        buffer.extend_from_slice(&self.packet.bytes()[..IPV4_HEADER_LEN]);
        if before == 0 {
            buffer.extend_from_slice(self.packet.options());
        } else {
            push_copied_options(self.packet.options(), buffer);
        }
        let header_len = buffer.len();
        buffer.extend_from_slice(payload);
        // Both are less than the length of a packet, which 16 bits hold.
        let [offset, length] = [before / UNIT, buffer.len()].map(|n| u16::try_from(n).unwrap_or(u16::MAX));
        let more = self.packet.has_more_fragments() || !rest.is_empty();
        let offset = self.packet.fragment_offset() + offset;
        set_fragment(&mut buffer[..header_len], offset, more, length);
        self.rest = rest;
        true
    }
}

/// Appends those options that each piece has, filled up to whole words.
fn push_copied_options(options: &[u8], header: &mut Vec<u8>) {
    let mut rest = options;
    while let Some((&kind, behind)) = rest.split_first() {
        let length = match kind {
            END_OF_OPTIONS => break,
            NO_OPERATION => 1,
            _ => usize::from(behind.first().copied().unwrap_or_default()),
        };
        // An option that says that it is shorter than its own head, or longer than what is there, ends the list.
        let Some((option, after)) = rest.split_at_checked(length.max(1)).filter(|_| length > 0) else {
            break;
        };
        if kind & COPIED != 0 {
            header.extend_from_slice(option);
        }
        rest = after;
    }
    header.resize(header.len().next_multiple_of(4), END_OF_OPTIONS);
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::ip::checksum;

    /// A packet that may be cut, with an option that each piece has (stream identifier) and one that only the first has
    /// (record route).
    fn packet(payload: &[u8], offset: u16, more: bool) -> Vec<u8> {
        let mut packet = vec![0x48, 0x2e, 0, 0, 0xab, 0xcd, 0, 0, 9, 17, 0, 0, 10, 1, 0, 1, 10, 2, 0, 1];
        packet.extend([0x88, 4, 0x12, 0x34, 1, 7, 3, 4, 0, 0, 0, 0]);
        let total = u16::try_from(packet.len() + payload.len()).unwrap();
        packet.extend(payload);
        set_fragment(&mut packet[..32], offset, more, total);
        packet
    }

    proptest! {
        /// Put together by a naive receiver they are what was cut.
        #[test]
        fn the_pieces_are_the_packet(
            payload in proptest::collection::vec(any::<u8>(), 1..4000),
            max_len in 40usize..1500,
            offset in 0u16..100,
            more: bool,
        ) {
            let whole = packet(&payload, offset, more);
            let whole = Ipv4::parse(&whole).unwrap();
            let mut fragments = Fragments::of(whole, max_len).unwrap();
            let (mut buffer, mut put_together, mut count) = (Vec::new(), Vec::<u8>::new(), 0);
            while fragments.write_next(&mut buffer) {
                let piece = Ipv4::parse(&buffer).unwrap();
                prop_assert!(buffer.len() <= max_len);
                prop_assert_eq!(usize::from(piece.fragment_offset() - offset) * 8, put_together.len());
                prop_assert_eq!(&buffer[4..6], &[0xab, 0xcd]);
                prop_assert_eq!((piece.tos(), piece.ttl()), (0x2e, 9));
                let options: &[u8] = if count == 0 { whole.options() } else { &[0x88, 4, 0x12, 0x34] };
                prop_assert_eq!(piece.options(), options);
                put_together.extend(piece.payload());
                prop_assert_eq!(piece.has_more_fragments(), more || put_together.len() < payload.len());
                count += 1;
            }
            prop_assert_eq!(put_together, payload);
        }

        #[test]
        fn no_options_break_it(options in proptest::collection::vec(any::<u8>(), 40), max_len in 0usize..200) {
            let mut bytes = packet(&[7; 300], 0, false);
            bytes.splice(20..32, options);
            set_fragment(&mut bytes[..60], 0, false, 360);
            if let Some(mut fragments) = Fragments::of(Ipv4::parse(&bytes).unwrap(), max_len) {
                let mut buffer = Vec::new();
                while fragments.write_next(&mut buffer) {
                    prop_assert!(Ipv4::parse(&buffer).is_ok());
                }
            }
        }
    }

    #[test]
    fn what_no_router_may_cut_stays_whole() {
        let mut bytes = packet(&[7; 300], 0, false);
        bytes[6] |= 0x40;
        bytes[10..12].copy_from_slice(&[0, 0]);
        let sum = checksum::of(&[&bytes[..32]]);
        bytes[10..12].copy_from_slice(&sum.to_be_bytes());
        assert!(Fragments::of(Ipv4::parse(&bytes).unwrap(), 100).is_none());
    }
}
