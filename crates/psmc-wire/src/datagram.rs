//! The header of a datagram, and what of it is authenticated.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+-------------------------------+
//! | kind  | epoch |     marks     |            path id            |
//! +-------+-------+---------------+-------------------------------+
//! |                             label                             |
//! +---------------------------------------------------------------+
//! |                 packet number, its low 32 bits                |
//! +---------------------------------------------------------------+
//! |   sealed: timestamp (32 bits), frames;  then the tag (128)    |
//! ```

use crate::crypto::{NONCE_LEN, TAG_LEN};
use crate::fields::{Malformed, Reader};
use crate::ids::{Label, PacketNumber, PathId};

/// Length in bytes of the header in front of the sealed part.
pub const HEADER_LEN: usize = 12;

/// Length in bytes of the timestamp with which the sealed part begins.
pub const TIMESTAMP_LEN: usize = 4;

/// Bytes of a datagram that hold no frame: header, timestamp and tag.
pub const DATAGRAM_OVERHEAD: usize = HEADER_LEN + TIMESTAMP_LEN + TAG_LEN;

/// The kind of an end-to-end datagram, in the high nibble of its first byte.
///
/// Never 0, with which STUN begins, nor 1 to 3 (ZRTP, DTLS), so that a port can be shared (RFC 7983).
pub(crate) const KIND_SESSION: u8 = 0x5;

/// How many epochs can be told apart by the four bits that a datagram carries.
pub const EPOCHS_ON_WIRE: u8 = 16;

/// Where the marks are in a datagram.
const MARKS_AT: usize = 1;

/// What a relay on the way may set; the receiver believes none of it beyond its own queueing decisions. And what relays look at,
/// which the sender sets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marks {
    /// A relay's queue was congested.
    pub congestion_experienced: bool,
    /// Drop precedence (0 keeps longest), 0 to 3.
    pub drop_precedence: u8,
    /// The colour by which it is counted: whether its sender's block was an odd one.
    pub colour: bool,
    /// Whoever is on the way notes when it passes.
    pub delay: bool,
}

impl Marks {
    pub(crate) fn to_byte(self) -> u8 {
        u8::from(self.congestion_experienced)
            | (self.drop_precedence & 3) << 1
            | u8::from(self.colour) << 3
            | u8::from(self.delay) << 4
    }

    pub(crate) fn from_byte(byte: u8) -> Self {
        Self {
            congestion_experienced: byte & 1 != 0,
            drop_precedence: byte >> 1 & 3,
            colour: byte & 1 << 3 != 0,
            delay: byte & 1 << 4 != 0,
        }
    }
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// The low four bits of the epoch of the key.
    pub epoch: u8,
    /// What relays may set.
    pub marks: Marks,
    /// The path it travels on.
    pub path: PathId,
    /// Finds the session at the receiver.
    pub label: Label,
    /// The low 32 bits of its number.
    pub packet_number: u32,
}

impl Header {
    /// Reads the header of `datagram`, and makes sure there is room for a sealed part behind it.
    ///
    /// # Errors
    /// [`Malformed`] if it is too short to be one, or of another kind.
    pub fn parse(datagram: &[u8]) -> Result<Self, Malformed> {
        if datagram.len() < DATAGRAM_OVERHEAD {
            return Err(Malformed::Truncated);
        }
        let mut reader = Reader::new(datagram);
        let first = reader.u8()?;
        if first >> 4 != KIND_SESSION {
            return Err(Malformed::UnknownType(first));
        }
        Ok(Self {
            epoch: first & 0x0f,
            marks: Marks::from_byte(reader.u8()?),
            path: PathId(reader.u16()?),
            label: Label(reader.u32()?),
            packet_number: reader.u32()?,
        })
    }

    /// The bytes of the header.
    #[must_use]
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        bytes[0] = KIND_SESSION << 4 | self.epoch & 0x0f;
        bytes[1] = self.marks.to_byte();
        bytes[2..4].copy_from_slice(&self.path.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.label.0.to_be_bytes());
        bytes[8..12].copy_from_slice(&self.packet_number.to_be_bytes());
        bytes
    }

    /// The additional data of the AEAD: the header with all that a relay may change set to zero.
    #[must_use]
    pub fn associated_data(&self) -> [u8; HEADER_LEN] {
        Self { marks: Marks::default(), label: Label(0), ..*self }.encode()
    }
}

/// Sets the marks of a sealed datagram, which are not authenticated.
///
/// # Panics
/// If `datagram` is shorter than a header, as no sealed one is.
pub fn set_marks(datagram: &mut [u8], marks: Marks) {
    datagram[MARKS_AT] = marks.to_byte();
}

/// The nonce of a datagram: its path and its full packet number.
#[must_use]
pub fn nonce(path: PathId, packet_number: PacketNumber) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[2..4].copy_from_slice(&path.0.to_be_bytes());
    nonce[4..].copy_from_slice(&packet_number.0.to_be_bytes());
    nonce
}

/// Splits the opened part of a datagram into the sender's timestamp (microseconds, wrapping) and its frames.
///
/// # Errors
/// [`Malformed::Truncated`] if it is shorter than a timestamp.
pub fn split_timestamp(opened: &[u8]) -> Result<(u32, &[u8]), Malformed> {
    let mut reader = Reader::new(opened);
    Ok((reader.u32()?, reader.rest()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_header_survives_the_wire(
            epoch in 0u8..16,
            marks in (any::<bool>(), 0u8..4, any::<bool>(), any::<bool>()),
            path: u16,
            label: u32,
            pn: u32,
        ) {
            let (congestion_experienced, drop_precedence, colour, delay) = marks;
            let marks = Marks { congestion_experienced, drop_precedence, colour, delay };
            let header = Header {
                epoch,
                marks: Marks::default(),
                path: PathId(path),
                label: Label(label),
                packet_number: pn,
            };
            let mut datagram = header.encode().to_vec();
            datagram.resize(DATAGRAM_OVERHEAD, 0);
            set_marks(&mut datagram, marks);
            let header = Header { marks, ..header };
            prop_assert_eq!(Header::parse(&datagram), Ok(header));
            prop_assert_eq!(&datagram[..HEADER_LEN], header.encode());
        }

        #[test]
        fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = Header::parse(&bytes);
            let _ = split_timestamp(&bytes);
        }

        #[test]
        fn marks_and_label_are_not_authenticated_and_all_else_is(
            bit in 0usize..HEADER_LEN * 8,
            bytes in proptest::array::uniform12(any::<u8>()),
        ) {
            let mut datagram = [0u8; DATAGRAM_OVERHEAD];
            datagram[..HEADER_LEN].copy_from_slice(&bytes);
            datagram[0] = KIND_SESSION << 4 | bytes[0] & 0x0f;
            let before = Header::parse(&datagram).map(|header| header.associated_data());
            datagram[bit / 8] ^= 1 << (bit % 8);
            let after = Header::parse(&datagram).map(|header| header.associated_data());
            let changeable = bit / 8 == 1 || (4..8).contains(&(bit / 8));
            prop_assert_eq!(before == after, changeable);
        }
    }

    #[test]
    fn nonces_differ_by_path_and_by_number() {
        assert_ne!(nonce(PathId(1), PacketNumber(0)), nonce(PathId(0), PacketNumber(1)));
        assert_eq!(nonce(PathId(0x0102), PacketNumber(3)), [0, 0, 1, 2, 0, 0, 0, 0, 0, 0, 0, 3]);
    }
}
