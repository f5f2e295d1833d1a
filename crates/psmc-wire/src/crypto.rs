//! What the protocol asks of cryptography, as traits.
//!
//! The state machines seal and open datagrams without knowing the library that does it: a daemon hands
//! them keys exported from TLS, a simulator hands them cheap ones.

use thiserror::Error;

/// Length in bytes of the authentication tag at the end of every sealed datagram.
pub const TAG_LEN: usize = 16;

/// Length in bytes of an AEAD nonce: a 32-bit path number, then a 64-bit packet number, both big-endian.
pub const NONCE_LEN: usize = 12;

/// Length in bytes of the public key of a key exchange (X25519, RFC 7748 §5).
pub const EXCHANGE_KEY_LEN: usize = 32;

/// Who seals with a key: the side that dialled the control connection, or the side that accepted it. Of keys that come out
/// of a key exchange within the session, the dialer is the side that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// The side that opened the control connection (the TLS client), or began the key exchange.
    Dialer,
    /// The side that accepted the control connection (the TLS server), or answered.
    Acceptor,
}

impl Role {
    /// The other side of the same connection.
    #[must_use]
    pub fn peer(self) -> Self {
        match self {
            Self::Dialer => Self::Acceptor,
            Self::Acceptor => Self::Dialer,
        }
    }
}

/// The AEADs of the data plane, both with 256-bit keys, 96-bit nonces and 128-bit tags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Aead {
    /// AES-256 in Galois/Counter Mode: the faster one wherever the CPU has AES instructions.
    Aes256Gcm,
    /// ChaCha20-Poly1305 (RFC 8439): the faster one everywhere else.
    ChaCha20Poly1305,
}

/// A datagram that was not sealed with this key, or was altered on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("authentication failed")]
pub struct AuthError;

/// One AEAD key, for one direction and one epoch.
///
/// The key mixes its own secret IV into the nonces it is given (RFC 8446 §5.3), so that a nonce as small
/// as a counter is safe.
pub trait PacketKey: Send + Sync {
    /// Encrypts `payload` in place and returns its tag, which also covers `aad`.
    ///
    /// The caller never passes the same nonce twice for the same key.
    fn seal(&self, nonce: [u8; NONCE_LEN], aad: &[u8], payload: &mut [u8]) -> [u8; TAG_LEN];

    /// Decrypts `sealed` (ciphertext, then tag) in place; the plaintext is all but its last [`TAG_LEN`] bytes.
    ///
    /// # Errors
    /// [`AuthError`] if `sealed` is shorter than a tag, or was not made by [`seal`](Self::seal) with the same
    /// key, nonce and `aad`. The contents of `sealed` are unspecified then.
    fn open(&self, nonce: [u8; NONCE_LEN], aad: &[u8], sealed: &mut [u8]) -> Result<(), AuthError>;
}

/// A public key with which no secret can be agreed on, such as a point of small order (RFC 7748 §6.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("unusable public key")]
pub struct BadPublicKey;

/// The keys of one generation: whatever the TLS exporter of its control connection yields, or what follows from those of
/// another generation and a key exchange.
pub trait KeySource: Send {
    /// The key with which `sealer` seals its datagrams in `epoch`.
    ///
    /// Both ends of a connection get the same key for the same arguments.
    fn packet_key(&self, aead: Aead, sealer: Role, epoch: u8) -> Box<dyn PacketKey>;

    /// One side of a new key exchange, whose outcome depends on these keys, too: with a key pair that was never used.
    fn exchange(&self) -> Box<dyn KeyExchange>;
}

/// One side of a Diffie–Hellman exchange between two sites that have a generation of keys in common.
///
/// What is secret in it is gone when it is dropped.
pub trait KeyExchange: Send {
    /// What the other side has to be told.
    fn public_key(&self) -> [u8; EXCHANGE_KEY_LEN];

    /// The keys that follow from the exchange and from the generation that it was begun with. `role` is this side's.
    ///
    /// Both sides get the same keys, and nobody else does, not even who knows all of that generation.
    ///
    /// # Errors
    /// [`BadPublicKey`] if `peer` can't be the public key of an honest side.
    fn keys(&self, role: Role, peer: &[u8; EXCHANGE_KEY_LEN]) -> Result<Box<dyn KeySource>, BadPublicKey>;
}
