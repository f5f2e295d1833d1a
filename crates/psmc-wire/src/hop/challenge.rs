//! What a relay asks, and is answered, before it believes that an end of a session has moved.
//!
//! ```text
//!  0                   1                   2                   3
//!  0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1 2 3 4 5 6 7 8 9 0 1
//! +-------+-------+---------------+-------------------------------+
//! | kind  | type  |   reserved    |      path id, or reserved     |
//! +-------+-------+---------------+-------------------------------+
//! |                             label                             |
//! +---------------------------------------------------------------+
//! |                        token, 64 bits                         |
//! |                                                               |
//! +---------------------------------------------------------------+
//! |                         tag, 64 bits                          |
//! |                                                               |
//! +---------------------------------------------------------------+
//! ```

use siphasher::sip::SipHasher24;

use super::{Hop, HopKey};
use crate::fields::{Malformed, Reader};
use crate::ids::{Label, PathId};

/// Length in bytes of a challenge, and of a response: less than half of the datagram that makes a relay ask.
pub const HOP_CHALLENGE_LEN: usize = TAGGED + 8;

/// Of which the tag stands behind so many.
const TAGGED: usize = 16;

/// Kind and type, the first byte; a peer's questions about a NAT are of other types ([`crate::probe`]).
const CHALLENGE: u8 = 0x72;
const RESPONSE: u8 = 0x73;

/// Asks an end of a session whether it is where its newest datagram has come from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopChallenge {
    /// The path of the datagrams that go to this end.
    pub path: PathId,
    /// Finds their session at the end, as theirs does.
    pub label: Label,
    /// What it has to send back; unpredictable for everybody else.
    pub token: [u8; 8],
}

impl HopChallenge {
    /// Reads a challenge. Whoever sent it may be anybody until [`is_authentic`](Self::is_authentic).
    ///
    /// # Errors
    /// [`Malformed`] if it has another length, or is of another kind or type.
    pub fn parse(datagram: &[u8]) -> Result<Self, Malformed> {
        let mut reader = begin(datagram, CHALLENGE)?;
        let _reserved = reader.u8()?;
        Ok(Self { path: PathId(reader.u16()?), label: Label(reader.u32()?), token: reader.array()? })
    }

    /// The datagram, for the end that sends with `hop`.
    #[must_use]
    pub fn encode(&self, hop: &Hop) -> [u8; HOP_CHALLENGE_LEN] {
        let mut bytes = [0; HOP_CHALLENGE_LEN];
        bytes[0] = CHALLENGE;
        bytes[2..4].copy_from_slice(&self.path.0.to_be_bytes());
        bytes[4..8].copy_from_slice(&self.label.0.to_be_bytes());
        bytes[8..TAGGED].copy_from_slice(&self.token);
        let tag = challenge_tag(&bytes, hop);
        bytes[TAGGED..].copy_from_slice(&tag);
        bytes
    }

    /// Whether the relay that takes datagrams with `hop` has sent `datagram`, which this was read from.
    #[must_use]
    pub fn is_authentic(datagram: &[u8], hop: &Hop) -> bool {
        datagram.len() == HOP_CHALLENGE_LEN && datagram[TAGGED..] == challenge_tag(datagram, hop)
    }
}

/// The answer to a [`HopChallenge`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HopResponse {
    /// Finds the session at the relay, as the label of the end's datagrams does.
    pub label: Label,
    /// That of the challenge.
    pub token: [u8; 8],
}

impl HopResponse {
    /// Whether `datagram` is meant to be one.
    #[must_use]
    pub fn is_one(datagram: &[u8]) -> bool {
        datagram.first() == Some(&RESPONSE)
    }

    /// Reads a response. Whoever sent it may be anybody until [`is_authentic`](Self::is_authentic).
    ///
    /// # Errors
    /// [`Malformed`] if it has another length, or is of another kind or type.
    pub fn parse(datagram: &[u8]) -> Result<Self, Malformed> {
        let mut reader = begin(datagram, RESPONSE)?;
        let _reserved: [u8; 3] = reader.array()?;
        Ok(Self { label: Label(reader.u32()?), token: reader.array()? })
    }

    /// The datagram of an end that sends with `hop`.
    #[must_use]
    pub fn encode(token: [u8; 8], hop: &Hop) -> [u8; HOP_CHALLENGE_LEN] {
        let mut bytes = [0; HOP_CHALLENGE_LEN];
        bytes[0] = RESPONSE;
        bytes[4..8].copy_from_slice(&hop.label.0.to_be_bytes());
        bytes[8..TAGGED].copy_from_slice(&token);
        let tag = tag(&bytes[..TAGGED], &hop.key);
        bytes[TAGGED..].copy_from_slice(&tag);
        bytes
    }

    /// Whether the owner of `key` has sent `datagram`, which this was read from.
    #[must_use]
    pub fn is_authentic(datagram: &[u8], key: &HopKey) -> bool {
        datagram.len() == HOP_CHALLENGE_LEN && datagram[TAGGED..] == tag(&datagram[..TAGGED], key)
    }
}

/// A reader behind the first byte of a datagram that has to be this.
fn begin(datagram: &[u8], first: u8) -> Result<Reader<'_>, Malformed> {
    if datagram.len() < HOP_CHALLENGE_LEN {
        return Err(Malformed::Truncated);
    }
    if datagram.len() > HOP_CHALLENGE_LEN {
        return Err(Malformed::Illegal("length"));
    }
    let mut reader = Reader::new(datagram);
    match reader.u8()? {
        read if read == first => Ok(reader),
        other => Err(Malformed::UnknownType(other)),
    }
}

/// The label of the hop counts as well: it stands in no challenge.
fn challenge_tag(datagram: &[u8], hop: &Hop) -> [u8; 8] {
    let mut message = [0; TAGGED + 4];
    message[..TAGGED].copy_from_slice(&datagram[..TAGGED]);
    message[TAGGED..].copy_from_slice(&hop.label.0.to_be_bytes());
    tag(&message, &hop.key)
}

/// `SipHash-2-4`. What is hashed of challenges, responses and datagrams differs in length, which is hashed, too: none can be taken for
/// another.
fn tag(message: &[u8], key: &HopKey) -> [u8; 8] {
    SipHasher24::new_with_key(&key.0).hash(message).to_be_bytes()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::hop::HOP_KEY_LEN;

    fn hop() -> Hop {
        Hop { label: Label(0xfeed_0001), key: HopKey([7; HOP_KEY_LEN]) }
    }

    fn challenge() -> HopChallenge {
        HopChallenge { path: PathId(3), label: Label(0xc0ff_ee02), token: *b"12345678" }
    }

    #[test]
    fn both_survive_the_wire() {
        let sent = challenge().encode(&hop());
        assert_eq!(HopChallenge::parse(&sent), Ok(challenge()));
        assert!(HopChallenge::is_authentic(&sent, &hop()));
        let sent = HopResponse::encode(challenge().token, &hop());
        let response = HopResponse { label: hop().label, token: challenge().token };
        assert_eq!(HopResponse::parse(&sent), Ok(response));
        assert!(HopResponse::is_one(&sent) && HopResponse::is_authentic(&sent, &hop().key));
    }

    #[test]
    fn key_and_label_of_the_hop_count() {
        let (sent, answered) = (challenge().encode(&hop()), HopResponse::encode(*b"12345678", &hop()));
        let others =
            [Hop { key: HopKey([8; HOP_KEY_LEN]), ..hop() }, Hop { label: Label(0xfeed_0002), ..hop() }];
        assert!(others.iter().all(|other| !HopChallenge::is_authentic(&sent, other)));
        assert!(!HopResponse::is_authentic(&answered, &others[0].key));
    }

    proptest! {
        #[test]
        fn every_bit_counts(bit in 0..HOP_CHALLENGE_LEN * 8) {
            let mut sent = challenge().encode(&hop());
            sent[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(HopChallenge::parse(&sent).is_err() || !HopChallenge::is_authentic(&sent, &hop()));
            let mut sent = HopResponse::encode(challenge().token, &hop());
            sent[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(HopResponse::parse(&sent).is_err() || !HopResponse::is_authentic(&sent, &hop().key));
        }

        #[test]
        fn no_bytes_make_the_parsers_panic(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let _ = (HopChallenge::parse(&bytes), HopResponse::parse(&bytes));
            let _ = (HopChallenge::is_authentic(&bytes, &hop()), HopResponse::is_authentic(&bytes, &hop().key));
        }
    }
}
