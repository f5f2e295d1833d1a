//! What goes over a control connection: a handshake of the size that TLS has, then messages.
//!
//! There is no TLS in it: the dialer says who it is, whom it wants, and what both ends make their keys of.

use psmc_wire::control::{LENGTH_LEN, Message, message_length};

use super::setup::Identity;

/// Bytes of a TLS client's first flight with the hybrid key exchange X25519MLKEM768.
const CLIENT_FLIGHT: usize = 1500;

/// Bytes of the answer, certificate and all.
const SERVER_FLIGHT: usize = 1500;

/// Bytes of the client's second flight, with its own certificate.
const FINISHED_FLIGHT: usize = 300;

/// What TLS 1.3 adds to each message: header, type and tag (RFC 8446 §5.2).
const RECORD_OVERHEAD: usize = 22;

/// What the dialer says first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Greeting {
    pub(super) from: Identity,
    pub(super) to: Identity,
    pub(super) secret: u64,
}

impl Greeting {
    pub(super) fn encode(&self) -> Vec<u8> {
        let words = [self.from.0, self.to.0, self.secret];
        let mut bytes: Vec<u8> = words.into_iter().flat_map(u64::to_be_bytes).collect();
        bytes.resize(CLIENT_FLIGHT, 0);
        bytes
    }

    /// Takes it off the front of what has arrived, if it is complete.
    pub(super) fn take(inbox: &mut Vec<u8>) -> Option<Self> {
        let bytes = take(inbox, CLIENT_FLIGHT)?;
        let word = |at: usize| u64::from_be_bytes(std::array::from_fn(|index| bytes[8 * at + index]));
        Some(Self { from: Identity(word(0)), to: Identity(word(1)), secret: word(2) })
    }
}

/// The acceptor's answer.
pub(super) fn answer() -> Vec<u8> {
    vec![0; SERVER_FLIGHT]
}

/// Takes the answer off the front of what has arrived; says whether it was complete.
pub(super) fn take_answer(inbox: &mut Vec<u8>) -> bool {
    take(inbox, SERVER_FLIGHT).is_some()
}

/// The dialer's last word.
pub(super) fn finished() -> Vec<u8> {
    vec![0; FINISHED_FLIGHT]
}

/// Takes the dialer's last word off the front of what has arrived; says whether it was complete.
pub(super) fn take_finished(inbox: &mut Vec<u8>) -> bool {
    take(inbox, FINISHED_FLIGHT).is_some()
}

/// A message with what TLS adds to it.
pub(super) fn record(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes.extend([0; RECORD_OVERHEAD]);
    bytes
}

/// Takes a message off the front of what has arrived, if it is complete.
pub(super) fn take_message(inbox: &mut Vec<u8>) -> Option<Message> {
    let length = inbox.first_chunk::<LENGTH_LEN>().and_then(|length| message_length(*length).ok())?;
    let record = take(inbox, LENGTH_LEN + length + RECORD_OVERHEAD)?;
    Message::decode(&record[LENGTH_LEN..LENGTH_LEN + length]).ok()
}

fn take(inbox: &mut Vec<u8>, len: usize) -> Option<Vec<u8>> {
    (inbox.len() >= len).then(|| inbox.drain(..len).collect())
}

#[cfg(test)]
mod tests {
    use psmc_wire::control::CloseReason;

    use super::*;

    #[test]
    fn flights_and_messages_arrive_in_any_pieces() {
        let greeting = Greeting { from: Identity(1), to: Identity(2), secret: 3 };
        let messages = [Message::Close(CloseReason::Shutdown), Message::Close(CloseReason::Protocol)];
        let mut stream = greeting.encode();
        stream.extend(messages.iter().flat_map(record));
        let (mut inbox, mut greetings, mut heard) = (Vec::new(), Vec::new(), Vec::new());
        for piece in stream.chunks(7) {
            inbox.extend_from_slice(piece);
            if greetings.is_empty() {
                greetings.extend(Greeting::take(&mut inbox));
            }
            if !greetings.is_empty() {
                heard.extend(take_message(&mut inbox));
            }
        }
        assert_eq!((greetings, heard), (vec![greeting], messages.to_vec()));
        assert!(inbox.is_empty());
    }
}
