//! The long-term keys by which sites and relays know each other: Ed25519 (RFC 8032), written as base64.
//!
//! Both kinds are 32 bytes, so 44 characters of standard base64 with padding, as WireGuard writes its keys.
//! Nothing in its form tells a private key from a public one. But of 32 random bytes only one in sixteen are a public key, and
//! those are never made a private key here: [`PublicKey::has_private_key`] tells the two apart.

mod file;
mod secret;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use aws_lc_rs::rand;
use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use curve25519_dalek::edwards::CompressedEdwardsY;
use thiserror::Error;
use zeroize::Zeroizing;

use secret::Secret;

pub use file::{KeyFileError, read_private_key};

/// Length in bytes of a private key (its seed, RFC 8032 §5.1.5) and of a public key.
pub const KEY_LEN: usize = 32;

/// Length in bytes of a signature (RFC 8032 §5.1.6).
pub const SIGNATURE_LEN: usize = 64;

/// Text that is no key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// The text has another length than a key.
    #[error(
        "a key is {TEXT_LEN} characters of base64, this is {found} long: `psmc genkey` and `psmc pubkey` print keys"
    )]
    Length {
        /// Its length in bytes.
        found: usize,
    },
    /// The text has the right length, but does not decode to 32 bytes.
    #[error("not base64 of {KEY_LEN} bytes: copy the whole key, including the final =")]
    NotBase64,
}

/// The secret half of a site's identity. Clones share one place in memory, which is locked where the system lets this process do
/// that, is in no core dump, and is wiped when the last of them is dropped.
#[derive(Clone)]
pub struct PrivateKey(Arc<Secret>);

impl PrivateKey {
    /// A new key from the system's randomness, which nobody can mistake for a public one.
    ///
    /// # Panics
    /// If the system has no randomness to give: no key is safe on such a machine.
    #[must_use]
    pub fn generate() -> Self {
        loop {
            let fill = |seed: &mut [u8; KEY_LEN]| rand::fill(seed).expect("the system gives randomness");
            let key = Self(Arc::new(Secret::filled(fill)));
            if !key.may_be_public() {
                return key;
            }
        }
    }

    /// The key of a seed: as secret as the seed is. For keys that must come out the same each time.
    #[must_use]
    pub fn from_seed(seed: [u8; KEY_LEN]) -> Self {
        let seed = Zeroizing::new(seed);
        Self(Arc::new(Secret::filled(|bytes| *bytes = *seed)))
    }

    /// Reads a key as [`to_base64`](Self::to_base64) writes it; white space around it is ignored.
    ///
    /// # Errors
    /// [`KeyError`] if `text` is anything else.
    pub fn from_base64(text: &str) -> Result<Self, KeyError> {
        let mut decoded = Ok(());
        let secret = Secret::filled(|bytes| decoded = decode(text, bytes));
        decoded.map(|()| Self(Arc::new(secret)))
    }

    /// The key as a file holds it, without a line end; wiped from memory when dropped.
    #[must_use]
    pub fn to_base64(&self) -> Zeroizing<String> {
        Zeroizing::new(STANDARD.encode(self.seed()))
    }

    /// The public half.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        // Every string of 32 bytes is a seed (RFC 8032 §5.1.5), and has a public key of 32 bytes.
        let pair = Ed25519KeyPair::from_seed_unchecked(self.seed()).expect("32 bytes are a seed");
        PublicKey(pair.public_key().as_ref().try_into().expect("an Ed25519 public key has 32 bytes"))
    }

    /// Whether these bytes could be a public key as well, put in the place of a private one by mistake. One in sixteen keys that
    /// were not made by [`generate`](Self::generate) could.
    #[must_use]
    pub fn may_be_public(&self) -> bool {
        PublicKey(*self.seed()).has_private_key()
    }

    /// Whether these bytes are that public key.
    #[must_use]
    pub fn is_bytes_of(&self, key: &PublicKey) -> bool {
        *self.seed() == key.0
    }

    /// The signature of `message`.
    #[must_use]
    pub fn sign(&self, message: &[u8]) -> [u8; SIGNATURE_LEN] {
        let pair = Ed25519KeyPair::from_seed_unchecked(self.seed()).expect("32 bytes are a seed");
        pair.sign(message).as_ref().try_into().expect("an Ed25519 signature has 64 bytes")
    }

    /// The seed itself, as secret as the key is.
    #[must_use]
    pub fn seed(&self) -> &[u8; KEY_LEN] {
        self.0.bytes()
    }
}

impl FromStr for PrivateKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        Self::from_base64(text)
    }
}

impl fmt::Debug for PrivateKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PrivateKey(..)")
    }
}

/// What others know a site by. Keys order as byte strings.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; KEY_LEN]);

impl PublicKey {
    /// The key with this encoding (RFC 8032 §5.1.2).
    ///
    /// Bytes that encode no point of the curve are taken too: nobody can prove to own such a key.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; KEY_LEN]) -> Self {
        Self(bytes)
    }

    /// Whether a private key can belong to it: it encodes, in the one way that there is, a point of the group that the base point
    /// generates (RFC 8032 §5.1.2, §5.1.3, §5.1.5).
    #[must_use]
    pub fn has_private_key(&self) -> bool {
        let Some(point) = CompressedEdwardsY(self.0).decompress() else { return false };
        point.compress().0 == self.0 && !point.is_small_order() && point.is_torsion_free()
    }

    /// Whether the owner of this key has signed `message`.
    #[must_use]
    pub fn has_signed(&self, message: &[u8], signature: &[u8; SIGNATURE_LEN]) -> bool {
        UnparsedPublicKey::new(&ED25519, self.0).verify(message, signature).is_ok()
    }

    /// Its encoding.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; KEY_LEN] {
        &self.0
    }
}

impl FromStr for PublicKey {
    type Err = KeyError;

    fn from_str(text: &str) -> Result<Self, KeyError> {
        let mut bytes = [0; KEY_LEN];
        decode(text, &mut bytes).map(|()| Self(bytes))
    }
}

impl fmt::Display for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&STANDARD.encode(self.0))
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.to_string();
        // Base64 is ASCII, and always longer than this.
        write!(f, "PublicKey({}…)", &text[..DEBUG_LEN])
    }
}

fn decode(text: &str, key: &mut [u8; KEY_LEN]) -> Result<(), KeyError> {
    let text = text.trim();
    if text.len() != TEXT_LEN {
        return Err(KeyError::Length { found: text.len() });
    }
    // One more than a key: 44 characters can encode 33 bytes, and the decoder wants room for them.
    let mut decoded = Zeroizing::new([0; KEY_LEN + 1]);
    match STANDARD.decode_slice(text, &mut *decoded) {
        Ok(KEY_LEN) => {}
        Ok(_) | Err(_) => return Err(KeyError::NotBase64),
    }
    key.copy_from_slice(&decoded[..KEY_LEN]);
    Ok(())
}

/// Length of a key in base64: 4 characters for every 3 bytes begun.
const TEXT_LEN: usize = KEY_LEN.div_ceil(3) * 4;

/// How many characters of a key a debug print shows: enough to tell the keys of one configuration apart.
const DEBUG_LEN: usize = 8;

/// 32 unpredictable bytes from the system.
///
/// # Panics
/// If the system has no randomness to give: nothing is safe on such a machine.
#[must_use]
pub fn random_seed() -> [u8; 32] {
    let mut seed = [0; 32];
    rand::fill(&mut seed).expect("the system gives randomness");
    seed
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seed 00..1f and its public key, computed with OpenSSL.
    const SEED: &str = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=";
    const PUBLIC: &str = "A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=";

    #[test]
    fn derives_the_public_key() {
        let key = PrivateKey::from_base64(SEED).unwrap();
        assert_eq!(key.public().to_string(), PUBLIC);
        assert_eq!(key.public(), PUBLIC.parse().unwrap());
    }

    #[test]
    fn generated_keys_differ_and_round_trip() {
        let (a, b) = (PrivateKey::generate(), PrivateKey::generate());
        assert_ne!(a.public(), b.public());
        assert_eq!(PrivateKey::from_base64(&a.to_base64()).unwrap().public(), a.public());
    }

    #[test]
    fn private_keys_are_told_from_public_ones() {
        for _ in 0..100 {
            let key = PrivateKey::generate();
            assert!(key.public().has_private_key() && !key.may_be_public());
        }
        let key = PrivateKey::from_base64(PUBLIC).unwrap();
        assert!(key.may_be_public() && key.is_bytes_of(&PUBLIC.parse().unwrap()));
        // The identity; the same with a sign that it cannot have; the order of the field, which is another way to write 0.
        let mut one = [0; KEY_LEN];
        one[0] = 1;
        let (mut signed, mut order) = (one, [0xff; KEY_LEN]);
        signed[31] = 0x80;
        (order[0], order[31]) = (0xed, 0x7f);
        for bytes in [one, signed, order] {
            assert!(!PublicKey::from_bytes(bytes).has_private_key(), "{bytes:?}");
        }
    }

    #[test]
    fn a_signature_is_of_one_message_by_one_key() {
        let (key, other) = (PrivateKey::generate(), PrivateKey::generate());
        let signature = key.sign(b"message");
        assert!(key.public().has_signed(b"message", &signature));
        assert!(!key.public().has_signed(b"massage", &signature));
        assert!(!other.public().has_signed(b"message", &signature));
    }

    #[test]
    fn white_space_around_a_key_is_ignored() {
        assert_eq!(format!(" {PUBLIC}\r\n").parse::<PublicKey>(), PUBLIC.parse());
    }

    #[test]
    fn what_is_no_key_is_refused() {
        assert_eq!("".parse::<PublicKey>(), Err(KeyError::Length { found: 0 }));
        assert_eq!(PUBLIC[..43].parse::<PublicKey>(), Err(KeyError::Length { found: 43 }));
        assert_eq!(PUBLIC.replace('=', "A").parse::<PublicKey>(), Err(KeyError::NotBase64));
        assert_eq!(PUBLIC.replace('/', "_").parse::<PublicKey>(), Err(KeyError::NotBase64));
        // 31 bytes, and the same 32 bytes with stray bits in the last character.
        assert_eq!(PUBLIC.replace("bg=", "b==").parse::<PublicKey>(), Err(KeyError::NotBase64));
        assert_eq!(PUBLIC.replace("bg=", "bh=").parse::<PublicKey>(), Err(KeyError::NotBase64));
    }

    #[test]
    fn debug_prints_nothing_secret_and_little_of_the_rest() {
        let key = PrivateKey::from_base64(SEED).unwrap();
        assert_eq!(format!("{key:?}"), "PrivateKey(..)");
        assert_eq!(format!("{:?}", key.public()), "PublicKey(A6EHv/PO…)");
    }
}
