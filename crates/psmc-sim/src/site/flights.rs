//! What goes over a control connection: a handshake of the size that TLS has, then messages.
//!
//! There is no TLS in it: the dialer says who it is, whom it wants, and what both ends make their keys of.
//!
//! Keys that fit the protocol and protect nothing.
//!
//! Nobody attacks a simulated network, and a link that damages a packet leaves a mark on it. So a tag need not cover
//! the payload: it costs a tenth of a hash, and packets have their true lengths all the same. It does cover the key,
//! the nonce and the header, so that an engine that used the wrong ones would be found out.

use psmc_wire::control::{LENGTH_LEN, Message, message_length};
use psmc_wire::crypto::{
    Aead, AuthError, BadPublicKey, EXCHANGE_KEY_LEN, KeyExchange, KeySource, NONCE_LEN, PacketKey, Role,
    TAG_LEN,
};

use super::Identity;

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

/// The keys of a control connection. Both ends have the same secret.
pub(super) struct SimKeys {
    pub(super) secret: u64,
}

/// A key of one direction and one epoch.
struct SimKey(u64);

impl KeySource for SimKeys {
    fn packet_key(&self, aead: Aead, sealer: Role, epoch: u8) -> Box<dyn PacketKey> {
        let aead = u64::from(aead == Aead::Aes256Gcm);
        let sealer = u64::from(sealer == Role::Dialer);
        Box::new(SimKey(mix(self.secret, u64::from(epoch) << 2 | aead << 1 | sealer)))
    }

    fn exchange(&self) -> Box<dyn KeyExchange> {
        Box::new(SimExchange { before: self.secret })
    }
}

/// An exchange as long as a real one, of nothing that is secret: in the simulator nobody listens.
struct SimExchange {
    before: u64,
}

impl KeyExchange for SimExchange {
    fn public_key(&self) -> [u8; EXCHANGE_KEY_LEN] {
        [0; EXCHANGE_KEY_LEN]
    }

    fn keys(&self, _: Role, _: &[u8; EXCHANGE_KEY_LEN]) -> Result<Box<dyn KeySource>, BadPublicKey> {
        Ok(Box::new(SimKeys { secret: mix(self.before, 1) }))
    }
}

impl SimKey {
    fn tag(&self, nonce: [u8; NONCE_LEN], aad: &[u8], len: usize) -> [u8; TAG_LEN] {
        let words = nonce.chunks(8).chain(aad.chunks(8)).map(word);
        let tag = words.fold(mix(self.0, len as u64), mix).to_be_bytes();
        std::array::from_fn(|index| tag[index % tag.len()])
    }
}

impl PacketKey for SimKey {
    fn seal(&self, nonce: [u8; NONCE_LEN], aad: &[u8], payload: &mut [u8]) -> [u8; TAG_LEN] {
        self.tag(nonce, aad, payload.len())
    }

    fn open(&self, nonce: [u8; NONCE_LEN], aad: &[u8], sealed: &mut [u8]) -> Result<(), AuthError> {
        let (payload, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(AuthError)?;
        if self.tag(nonce, aad, payload.len()) == *tag { Ok(()) } else { Err(AuthError) }
    }
}

fn word(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// A step of a hash: the finaliser of SplitMix64 (Steele, Lea and Flood, 2014).
fn mix(state: u64, word: u64) -> u64 {
    let mut mixed = (state ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
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

    #[test]
    fn only_the_same_key_nonce_and_header_open() {
        let key = |secret, epoch| SimKeys { secret }.packet_key(Aead::Aes256Gcm, Role::Dialer, epoch);
        let mut sealed = b"payload".to_vec();
        let tag = key(1, 0).seal([1; NONCE_LEN], b"header", &mut sealed);
        sealed.extend(tag);
        let opens = |secret, epoch, nonce, aad: &[u8]| {
            key(secret, epoch).open([nonce; NONCE_LEN], aad, &mut sealed.clone()).is_ok()
        };
        assert!(opens(1, 0, 1, b"header"));
        for (secret, epoch, nonce, aad) in
            [(2, 0, 1, "header"), (1, 1, 1, "header"), (1, 0, 2, "header"), (1, 0, 1, "reader")]
        {
            assert!(!opens(secret, epoch, nonce, aad.as_bytes()));
        }
        assert!(key(1, 0).open([1; NONCE_LEN], b"header", &mut [0; 3]).is_err());
    }
}
