//! The header that a datagram has on its way to a relay, and the keyed tag by which the relay knows it.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+-------------------------------+
//! | kind  | form  |     marks     |   hops left   |     flags     |
//! +-------+-------+---------------+-------------------------------+
//! |                             label                             |
//! +---------------------------------------------------------------+
//! |                  hop number, its low 32 bits                  |
//! +---------------------------------------------------------------+
//! |                        hop tag, 64 bits                       |
//! |                                                               |
//! +===============================================================+
//! |  the datagram of the session, see [`crate::datagram`] ...     |
//! ```

mod challenge;

use std::fmt;

use siphasher::sip::SipHasher24;

use crate::datagram::{DATAGRAM_OVERHEAD, Header, KIND_SESSION, Marks};
use crate::fields::{Malformed, Reader};
use crate::ids::{Label, PacketNumber};

pub use challenge::{HOP_CHALLENGE_LEN, HopChallenge, HopResponse};

/// Length in bytes of the header in front of the session's datagram.
pub const HOP_HEADER_LEN: usize = 20;

/// Length in bytes of the key of one direction of a hop.
pub const HOP_KEY_LEN: usize = 16;

/// The shortest datagram that a relay takes, in bytes.
pub const HOP_DATAGRAM_MIN: usize = HOP_HEADER_LEN + DATAGRAM_OVERHEAD;

/// Where a datagram stands in the hop's datagram, which is what a relay hands on.
pub const INNER: std::ops::RangeFrom<usize> = HOP_HEADER_LEN..;

/// How many relays a datagram may pass at most: longer chains help nobody, and sessions that lead in a circle end.
pub const MAX_HOPS: u8 = 8;

/// The flag of a sender that answers challenges.
const ANSWERS: u8 = 1;

/// The kind and the form of a hop header: its first byte.
const FIRST_BYTE: u8 = 0x60;

/// How many bytes of the session's datagram the tag covers: all of its header and what is sealed in the shortest one.
///
/// The rest is sealed end to end. Who alters it turns one datagram that a relay hands on into another that its
/// receiver drops, and gains no more than by dropping it.
const COVERED: usize = DATAGRAM_OVERHEAD;

/// The header up to the tag, the rest of the number, the length, and what is covered of the datagram.
const MESSAGE_LEN: usize = HOP_HEADER_LEN - TAG_LEN + 4 + 2 + COVERED;

const TAG_LEN: usize = 8;

/// The secret that a relay shares with those who may send to one of its labels.
#[derive(Clone, PartialEq, Eq)]
pub struct HopKey(pub [u8; HOP_KEY_LEN]);

impl fmt::Debug for HopKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("HopKey(..)")
    }
}

/// What a sender needs to reach a label of a relay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// The label, chosen by the relay.
    pub label: Label,
    /// The key of the tags.
    pub key: HopKey,
}

/// A hop header that is well-formed, and no more: whoever sent it may be anybody until [`is_authentic`](Self::is_authentic).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopHeader {
    /// What relays set.
    pub marks: Marks,
    /// How many relays may still come, after the one that reads this.
    pub hops_left: u8,
    /// Whether its sender answers a [`HopChallenge`]: a site, unless it is an old one.
    pub answers: bool,
    /// Finds the session at the relay.
    pub label: Label,
    /// The low 32 bits of the hop number.
    pub number: u32,
    tag: u64,
}

impl HopHeader {
    /// Reads the header of `datagram`, and makes sure that a datagram of a session can follow it.
    ///
    /// # Errors
    /// [`Malformed`] if it is too short, too long for UDP, or if it or what follows is of another kind.
    pub fn parse(datagram: &[u8]) -> Result<Self, Malformed> {
        if datagram.len() < HOP_DATAGRAM_MIN {
            return Err(Malformed::Truncated);
        }
        if datagram.len() > usize::from(u16::MAX) {
            return Err(Malformed::Illegal("length"));
        }
        let mut reader = Reader::new(datagram);
        let first = reader.u8()?;
        let inner_first = datagram[HOP_HEADER_LEN];
        if first != FIRST_BYTE || inner_first >> 4 != KIND_SESSION {
            return Err(Malformed::UnknownType(if first == FIRST_BYTE { inner_first } else { first }));
        }
        let marks = Marks::from_byte(reader.u8()?);
        let [hops_left, flags] = reader.array()?;
        let (answers, label, number) = (flags & ANSWERS != 0, Label(reader.u32()?), reader.u32()?);
        Ok(Self { marks, hops_left, answers, label, number, tag: reader.u64()? })
    }

    /// The low 32 bits of the packet number of the session's datagram, by which that is known all along its path. Of whoever has
    /// sent it, as long as nothing shows that it is authentic.
    #[must_use]
    pub fn packet_number(datagram: &[u8]) -> Option<u32> {
        Header::parse(datagram.get(INNER)?).ok().map(|header| header.packet_number)
    }

    /// Whether the owner of `key` has sent `datagram`, of which this is the header, as its number `number`.
    ///
    /// That is the expanded number; the tag covers all of it, so that none comes back when 32 bits have wrapped.
    #[must_use]
    pub fn is_authentic(&self, datagram: &[u8], number: PacketNumber, key: &HopKey) -> bool {
        tag(datagram, number, key) == Some(self.tag)
    }
}

/// Writes the hop header of a site in front of the datagram that stands in `datagram` behind room for it ([`INNER`]).
///
/// A sender never uses a number twice with a key.
///
/// # Panics
/// If `datagram` is shorter than [`HOP_DATAGRAM_MIN`], as no sealed datagram is.
pub fn write_hop_header(datagram: &mut [u8], to: &Hop, number: PacketNumber, marks: Marks) {
    write(datagram, to, number, [marks.to_byte(), MAX_HOPS - 1, ANSWERS]);
}

/// The marks of a datagram that has a hop header.
///
/// # Panics
/// If `datagram` is shorter than [`HOP_DATAGRAM_MIN`]: whoever has parsed its header knows that it is not.
#[must_use]
pub fn hop_marks(datagram: &[u8]) -> Marks {
    Marks::from_byte(datagram[1])
}

/// Replaces the hop header of a datagram by one for the next relay: marks go on, and one hop fewer is left.
///
/// # Panics
/// If `datagram` is shorter than [`HOP_DATAGRAM_MIN`]: whoever has parsed its header knows that it is not.
pub fn replace_hop_header(datagram: &mut [u8], to: &Hop, number: PacketNumber) {
    let [marks, hops_left] = [datagram[1], datagram[2]];
    write(datagram, to, number, [marks, hops_left.saturating_sub(1), 0]);
}

/// The datagram for a site, without its hop header, whose marks it takes over.
///
/// # Panics
/// If `datagram` is shorter than [`HOP_DATAGRAM_MIN`]: whoever has parsed its header knows that it is not.
pub fn strip_hop_header(datagram: &mut [u8]) -> &mut [u8] {
    datagram[HOP_HEADER_LEN + 1] = datagram[1];
    &mut datagram[INNER]
}

fn write(datagram: &mut [u8], to: &Hop, number: PacketNumber, [marks, hops_left, flags]: [u8; 3]) {
    datagram[..4].copy_from_slice(&[FIRST_BYTE, marks, hops_left, flags]);
    datagram[4..8].copy_from_slice(&to.label.0.to_be_bytes());
    datagram[8..12].copy_from_slice(&number.truncated().to_be_bytes());
    let tag = tag(datagram, number, &to.key).expect("a sealed datagram follows the header");
    datagram[12..HOP_HEADER_LEN].copy_from_slice(&tag.to_be_bytes());
}

/// SipHash-2-4 of what the tag covers; `None` if there is less.
fn tag(datagram: &[u8], number: PacketNumber, key: &HopKey) -> Option<u64> {
    let length = u16::try_from(datagram.len()).ok()?;
    let inner = datagram.get(HOP_HEADER_LEN..HOP_HEADER_LEN + COVERED)?;
    let mut message = [0; MESSAGE_LEN];
    message[..12].copy_from_slice(&datagram[..12]);
    message[12..16].copy_from_slice(&number.0.to_be_bytes()[..4]);
    message[16..18].copy_from_slice(&length.to_be_bytes());
    message[18..].copy_from_slice(inner);
    Some(SipHasher24::new_with_key(&key.0).hash(&message))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn datagram(len: usize, to: &Hop, number: PacketNumber) -> Vec<u8> {
        let mut datagram: Vec<u8> = (0..len).map(|byte| u8::try_from(byte % 251).unwrap_or(0)).collect();
        datagram[HOP_HEADER_LEN] = KIND_SESSION << 4;
        write_hop_header(&mut datagram, to, number, Marks { drop_precedence: 2, ..Marks::default() });
        datagram
    }

    fn hop() -> Hop {
        Hop { label: Label(0xfeed_0001), key: HopKey([7; HOP_KEY_LEN]) }
    }

    proptest! {
        #[test]
        fn a_hop_header_survives_the_wire(len in HOP_DATAGRAM_MIN..1500, number in 0u64..1 << 40) {
            let datagram = datagram(len, &hop(), PacketNumber(number));
            let header = HopHeader::parse(&datagram).unwrap();
            prop_assert_eq!(header.label, hop().label);
            prop_assert_eq!(header.marks, Marks { drop_precedence: 2, ..Marks::default() });
            prop_assert_eq!(header.number, PacketNumber(number).truncated());
            prop_assert!(header.answers);
            prop_assert!(header.is_authentic(&datagram, PacketNumber(number), &hop().key));
        }

        #[test]
        fn every_bit_that_the_tag_covers_counts(bit in 0..(HOP_HEADER_LEN + COVERED) * 8, len in HOP_DATAGRAM_MIN..200) {
            let number = PacketNumber(41);
            let mut datagram = datagram(len, &hop(), number);
            datagram[bit / 8] ^= 1 << (bit % 8);
            let believed = HopHeader::parse(&datagram)
                .is_ok_and(|header| header.is_authentic(&datagram, number, &hop().key));
            // The low nibble of the inner first byte is the epoch, which the tag covers as well.
            prop_assert!(!believed);
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..120)) {
            if let Ok(header) = HopHeader::parse(&bytes) {
                let _ = header.is_authentic(&bytes, PacketNumber(u64::from(header.number)), &hop().key);
            }
        }
    }

    #[test]
    fn length_key_and_the_upper_half_of_the_number_count() {
        let number = PacketNumber(5);
        let sent = datagram(100, &hop(), number);
        let header = HopHeader::parse(&sent).unwrap();
        assert!(header.is_authentic(&sent, number, &hop().key));
        assert!(!header.is_authentic(&sent[..99], number, &hop().key));
        assert!(!header.is_authentic(&sent, PacketNumber(5 + (1 << 32)), &hop().key));
        assert!(!header.is_authentic(&sent, number, &HopKey([8; HOP_KEY_LEN])));
    }

    #[test]
    fn what_is_no_hop_is_refused() {
        let sent = datagram(HOP_DATAGRAM_MIN, &hop(), PacketNumber(0));
        assert_eq!(HopHeader::parse(&sent[..HOP_DATAGRAM_MIN - 1]), Err(Malformed::Truncated));
        assert_eq!(HopHeader::parse(&vec![0; 65_536]), Err(Malformed::Illegal("length")));
        for (at, byte) in [(0, 0x50), (0, 0x61), (HOP_HEADER_LEN, 0x60)] {
            let mut other = sent.clone();
            other[at] = byte;
            assert_eq!(HopHeader::parse(&other), Err(Malformed::UnknownType(byte)));
        }
    }

    #[test]
    fn the_next_relay_gets_another_header_and_a_site_none() {
        let mut sent = datagram(100, &hop(), PacketNumber(5));
        let inner = sent[INNER].to_vec();
        let next = Hop { label: Label(9), key: HopKey([9; HOP_KEY_LEN]) };
        replace_hop_header(&mut sent, &next, PacketNumber(77));
        let header = HopHeader::parse(&sent).unwrap();
        assert!(header.is_authentic(&sent, PacketNumber(77), &next.key));
        assert_eq!(
            (header.label, header.marks.drop_precedence, header.hops_left, header.answers),
            (Label(9), 2, MAX_HOPS - 2, false)
        );
        assert_eq!(sent[INNER], inner);
        let bare = strip_hop_header(&mut sent);
        assert_eq!(bare[1], Marks { drop_precedence: 2, ..Marks::default() }.to_byte());
        assert_eq!((bare[0], &bare[2..]), (inner[0], &inner[2..]));
    }

    #[test]
    fn a_key_is_not_shown() {
        assert_eq!(format!("{:?}", HopKey([7; HOP_KEY_LEN])), "HopKey(..)");
    }
}
