//! What is too long for one message travels in parts.
//!
//! The parts of a list follow each other on a connection, and the last one says so.

use thiserror::Error;

use crate::message::{Message, Mitigation};

/// Relays of a mitigation at most: a gateway holds a connection and a socket for each.
pub const MAX_RELAYS: usize = 1024;

/// Relays in one message: each with a name of 64 characters, an IPv6 address and a grant, they fit into a frame.
const OFFERS_AT_ONCE: usize = 32;

/// Public keys in one message: 47 bytes each, they fit into a frame.
const KEYS_AT_ONCE: usize = 256;

/// A list has more relays than there may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("{0} relays are more than the {MAX_RELAYS} that a mitigation may have")]
pub struct TooMany(pub usize);

/// Joins lists that come in parts.
#[derive(Debug)]
pub struct Parts<T> {
    begun: Option<(u64, Vec<T>)>,
}

impl<T> Default for Parts<T> {
    fn default() -> Self {
        Self { begun: None }
    }
}

impl<T> Parts<T> {
    /// Takes a part of the list with this number, and returns the list if that was the last one. A part of another list begins
    /// that one, and the rest of the one before will not come.
    ///
    /// # Errors
    /// [`TooMany`]; the list then begins anew.
    pub fn join(&mut self, number: u64, part: Vec<T>, is_last: bool) -> Result<Option<Vec<T>>, TooMany> {
        let (_, mut list) = self.begun.take().filter(|(begun, _)| *begun == number).unwrap_or_default();
        let count = list.len() + part.len();
        if count > MAX_RELAYS {
            return Err(TooMany(count));
        }
        list.extend(part);
        if is_last {
            return Ok(Some(list));
        }
        self.begun = Some((number, list));
        Ok(None)
    }

    /// The rest of what has begun will not come: the connection is another one.
    pub fn forget(&mut self) {
        self.begun = None;
    }
}

impl Message {
    /// A mitigation, in as many messages as it takes.
    #[must_use]
    pub fn mitigation(whole: &Mitigation) -> Vec<Self> {
        let with = |(relays, is_last): (&[_], bool)| {
            let Mitigation { id, stage, expires, .. } = *whole;
            let service = whole.service.clone();
            Self::Mitigation(Mitigation { id, service, stage, relays: relays.to_vec(), expires, is_last })
        };
        parts(&whole.relays, OFFERS_AT_ONCE).map(with).collect()
    }

    /// At which relays a gateway is registered for a mitigation, in as many messages as it takes.
    #[must_use]
    pub fn ready(id: u64, relays: &[String]) -> Vec<Self> {
        let with =
            |(relays, is_last): (&[String], bool)| Self::Ready { id, relays: relays.to_vec(), is_last };
        parts(relays, KEYS_AT_ONCE).map(with).collect()
    }
}

/// So many at a time, and whether they are the last. Of an empty list one part, which is empty.
fn parts<T>(list: &[T], at_once: usize) -> impl Iterator<Item = (&[T], bool)> {
    let count = list.len().div_ceil(at_once).max(1);
    (1..=count).map(move |number| {
        let end = (number * at_once).min(list.len());
        (&list[(number - 1) * at_once..end], number == count)
    })
}

#[cfg(test)]
mod tests {
    use psmc_net::framing::Framed;
    use psmc_wire::control::{LENGTH_LEN, MAX_MESSAGE};

    use super::*;
    use crate::message::{RelayOffer, Stage};

    /// One as long as they come.
    fn offer(number: usize) -> RelayOffer {
        RelayOffer {
            name: format!("{number:064}"),
            address: "[2001:db8:1111:2222:3333:4444:5555:6666]:65535".parse().unwrap(),
            public_key: format!("{number:044}"),
            grant: Some("A".repeat(200)),
        }
    }

    fn mitigation(relays: usize) -> Mitigation {
        Mitigation {
            id: u64::MAX,
            service: "x".repeat(253),
            stage: Stage::Ineffective,
            relays: (0..relays).map(offer).collect(),
            expires: u64::MAX,
            is_last: true,
        }
    }

    /// What the far end makes of messages.
    fn arrived(messages: Vec<Message>) -> impl Iterator<Item = Message> {
        messages.into_iter().map(|message| {
            let mut bytes = Vec::new();
            message.encode(&mut bytes);
            assert!(bytes.len() - LENGTH_LEN <= MAX_MESSAGE, "{} bytes", bytes.len());
            Message::decode(&bytes[LENGTH_LEN..]).unwrap()
        })
    }

    #[test]
    fn a_thousand_relays_arrive_in_messages_that_may_be_sent() {
        for count in [0, 1, 32, 33, 45, 1000] {
            let whole = mitigation(count);
            let (mut parts, mut joined) = (Parts::default(), Vec::new());
            for message in arrived(Message::mitigation(&whole)) {
                let Message::Mitigation(part) = message else { panic!("{message:?}") };
                assert_eq!((part.id, &part.service, part.stage), (whole.id, &whole.service, whole.stage));
                joined.extend(parts.join(part.id, part.relays, part.is_last).unwrap());
            }
            assert_eq!(joined, [whole.relays]);
        }
    }

    #[test]
    fn so_do_the_keys_of_those_that_are_ready() {
        let keys: Vec<String> = (0..1000).map(|number| format!("{number:044}")).collect();
        let (mut parts, mut joined) = (Parts::default(), Vec::new());
        for message in arrived(Message::ready(7, &keys)) {
            let Message::Ready { id, relays, is_last } = message else { panic!("{message:?}") };
            joined.extend(parts.join(id, relays, is_last).unwrap());
        }
        assert_eq!(joined, [keys]);
    }

    #[test]
    fn lists_are_not_mixed_and_not_endless() {
        let mut parts = Parts::default();
        assert_eq!(parts.join(1, vec![1, 2], false), Ok(None));
        assert_eq!(parts.join(2, vec![3], true), Ok(Some(vec![3])));
        assert_eq!(parts.join(1, vec![4], true), Ok(Some(vec![4])), "the first one was given up");
        assert_eq!(parts.join(1, vec![5], false), Ok(None));
        parts.forget();
        assert_eq!(parts.join(1, vec![6], true), Ok(Some(vec![6])));
        assert_eq!(parts.join(3, vec![0; MAX_RELAYS], false), Ok(None));
        assert_eq!(parts.join(3, vec![0], true), Err(TooMany(MAX_RELAYS + 1)));
    }

    #[test]
    fn what_says_nothing_of_parts_is_whole() {
        let bytes = br#"{"type":"ready","id":7,"relays":[]}"#;
        let ready = Message::Ready { id: 7, relays: Vec::new(), is_last: true };
        assert_eq!(Message::decode(bytes), Ok(ready));
    }
}
