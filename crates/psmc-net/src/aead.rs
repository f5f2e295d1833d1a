//! The AEADs of the data plane, keyed from the TLS exporter.
//!
//! # Derivation
//! Both ends of a control connection export the same 32 bytes from it (RFC 8446 §7.5). They are the
//! pseudo-random key of HKDF-Expand with SHA-256 (RFC 5869 §2.3), which yields for every AEAD, sealing side and epoch
//! ```text
//! key (32 bytes) = HKDF-Expand(secret, "psmc key" || aead || role || epoch, 32)
//! IV  (12 bytes) = HKDF-Expand(secret, "psmc iv"  || aead || role || epoch, 12)
//! ```
//! The labels are ASCII, without length or terminator. The rest is one byte each:
//! - `aead`: 1 = AES-256-GCM, 2 = ChaCha20-Poly1305;
//! - `role`, of the side that seals: 0 = dialer (the TLS client), 1 = acceptor (the TLS server);
//! - `epoch`: its number.
//!
//! # Key exchange within a session
//! Keys that follow from other ones and an exchange by X25519 (RFC 7748) have a secret of their own, which comes out of that
//! of the generation before and of what the exchange yields:
//! ```text
//! salt   = HKDF-Expand(secret before, "psmc rekey" || public key of who began || public key of who answered, 32)
//! secret = HKDF-Extract(salt, X25519(own private key, peer's public key))
//! ```
//! as each step of TLS 1.3's key schedule joins what was secret before to a new secret (RFC 8446 §7.1).
//!
//! The nonce of a datagram is the IV, xor the 12 bytes of path number and packet number (RFC 8446 §5.3).

use std::fmt;

use aws_lc_rs::aead::{AES_256_GCM, Aad, Algorithm, CHACHA20_POLY1305, LessSafeKey, Nonce, UnboundKey};
use aws_lc_rs::agreement::{PrivateKey, UnparsedPublicKey, X25519, agree};
use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk, Salt};
use psmc_wire::crypto::{
    Aead, AuthError, BadPublicKey, EXCHANGE_KEY_LEN, KeyExchange, KeySource, NONCE_LEN, PacketKey, Role,
    TAG_LEN,
};
use zeroize::Zeroizing;

/// Length in bytes of the secret that a TLS exporter yields for the data plane.
pub const SECRET_LEN: usize = 32;

/// The AEAD that this CPU does faster: AES-256-GCM where it has instructions for both AES and carry-less
/// multiplication, ChaCha20-Poly1305 elsewhere.
#[must_use]
pub fn preferred() -> Aead {
    if has_aes() { Aead::Aes256Gcm } else { Aead::ChaCha20Poly1305 }
}

/// All data keys of one control connection. The module's text defines how they come out of its secret.
///
/// The secret is wiped from memory when this is dropped; keys taken from it live on.
pub struct ExportedKeys {
    secret: Prk,
}

impl ExportedKeys {
    /// The keys that follow from what a TLS exporter yielded.
    #[must_use]
    pub fn new(secret: &[u8; SECRET_LEN]) -> Self {
        Self { secret: Prk::new_less_safe(HKDF_SHA256, secret) }
    }

    fn derive<const LEN: usize>(&self, label: &[u8], selector: [u8; 3]) -> Zeroizing<[u8; LEN]> {
        expand(&self.secret, &[label, &selector])
    }
}

fn expand<const LEN: usize>(secret: &Prk, info: &[&[u8]]) -> Zeroizing<[u8; LEN]> {
    let mut out = Zeroizing::new([0; LEN]);
    secret
        .expand(info, OutputLen(LEN))
        .and_then(|okm| okm.fill(&mut *out))
        // RFC 5869 §2.3 allows up to 255 digests of output; ours are of 32 and 12 bytes.
        .expect("a key is shorter than HKDF's limit");
    out
}

impl KeySource for ExportedKeys {
    fn packet_key(&self, aead: Aead, sealer: Role, epoch: u8) -> Box<dyn PacketKey> {
        let selector = [aead_id(aead), role_id(sealer), epoch];
        let key = self.derive::<KEY_LEN>(b"psmc key", selector);
        let iv = self.derive::<NONCE_LEN>(b"psmc iv", selector);
        Box::new(ExportedKey::new(algorithm(aead), &key, *iv))
    }

    fn exchange(&self) -> Box<dyn KeyExchange> {
        let private = PrivateKey::generate(&X25519)
            // The library ends the process when the system yields no random numbers.
            .expect("a random number is a private key");
        let public = private.compute_public_key().expect("every private key has a public one");
        let public = public.as_ref().try_into().expect("public keys of X25519 have 32 bytes");
        Box::new(X25519Exchange { before: self.secret.clone(), private, public })
    }
}

/// One side of an exchange; its private key is wiped from memory when this is dropped.
struct X25519Exchange {
    /// The secret of the generation before.
    before: Prk,
    private: PrivateKey,
    public: [u8; EXCHANGE_KEY_LEN],
}

impl KeyExchange for X25519Exchange {
    fn public_key(&self) -> [u8; EXCHANGE_KEY_LEN] {
        self.public
    }

    fn keys(&self, role: Role, peer: &[u8; EXCHANGE_KEY_LEN]) -> Result<Box<dyn KeySource>, BadPublicKey> {
        let (dialer, acceptor) = match role {
            Role::Dialer => (&self.public, peer),
            Role::Acceptor => (peer, &self.public),
        };
        let salt: Zeroizing<[u8; SECRET_LEN]> = expand(&self.before, &[b"psmc rekey", dialer, acceptor]);
        // The library refuses what yields zeros (RFC 7748 §6.1).
        agree(&self.private, UnparsedPublicKey::new(&X25519, peer), BadPublicKey, |shared| {
            let secret = Salt::new(HKDF_SHA256, &*salt).extract(shared);
            let keys: Box<dyn KeySource> = Box::new(ExportedKeys { secret });
            Ok(keys)
        })
    }
}

impl fmt::Debug for ExportedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ExportedKeys(..)")
    }
}

struct ExportedKey {
    key: LessSafeKey,
    iv: [u8; NONCE_LEN],
}

impl ExportedKey {
    fn new(algorithm: &'static Algorithm, key: &[u8; KEY_LEN], iv: [u8; NONCE_LEN]) -> Self {
        let key = UnboundKey::new(algorithm, key).expect("both algorithms have keys of 32 bytes");
        Self { key: LessSafeKey::new(key), iv }
    }

    fn nonce(&self, mut nonce: [u8; NONCE_LEN]) -> Nonce {
        for (byte, iv) in nonce.iter_mut().zip(self.iv) {
            *byte ^= iv;
        }
        Nonce::assume_unique_for_key(nonce)
    }
}

impl PacketKey for ExportedKey {
    fn seal(&self, nonce: [u8; NONCE_LEN], aad: &[u8], payload: &mut [u8]) -> [u8; TAG_LEN] {
        let tag = self
            .key
            .seal_in_place_separate_tag(self.nonce(nonce), Aad::from(aad), payload)
            // Sealing fails only beyond the longest message of the cipher, which is 64 GiB or more.
            .expect("a datagram is shorter than 64 GiB");
        tag.as_ref().try_into().expect("both algorithms have tags of 16 bytes")
    }

    fn open(&self, nonce: [u8; NONCE_LEN], aad: &[u8], sealed: &mut [u8]) -> Result<(), AuthError> {
        let len = sealed.len().checked_sub(TAG_LEN).ok_or(AuthError)?;
        let (ciphertext, tag) = sealed.split_at_mut(len);
        match self.key.open_in_place_separate_tag(self.nonce(nonce), Aad::from(aad), tag, ciphertext) {
            Ok(_) => Ok(()),
            Err(_) => Err(AuthError),
        }
    }
}

/// How many bytes HKDF is asked for.
struct OutputLen(usize);

impl KeyType for OutputLen {
    fn len(&self) -> usize {
        self.0
    }
}

fn algorithm(aead: Aead) -> &'static Algorithm {
    match aead {
        Aead::Aes256Gcm => &AES_256_GCM,
        Aead::ChaCha20Poly1305 => &CHACHA20_POLY1305,
    }
}

fn aead_id(aead: Aead) -> u8 {
    match aead {
        Aead::Aes256Gcm => 1,
        Aead::ChaCha20Poly1305 => 2,
    }
}

fn role_id(role: Role) -> u8 {
    match role {
        Role::Dialer => 0,
        Role::Acceptor => 1,
    }
}

#[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
fn has_aes() -> bool {
    std::is_x86_feature_detected!("aes") && std::is_x86_feature_detected!("pclmulqdq")
}

#[cfg(target_arch = "aarch64")]
fn has_aes() -> bool {
    std::arch::is_aarch64_feature_detected!("aes") && std::arch::is_aarch64_feature_detected!("pmull")
}

#[cfg(not(any(target_arch = "x86", target_arch = "x86_64", target_arch = "aarch64")))]
fn has_aes() -> bool {
    false
}

/// Length in bytes of the keys of both AEADs.
const KEY_LEN: usize = 32;

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: [u8; SECRET_LEN] = {
        let mut secret = [0; SECRET_LEN];
        let mut at = 0u8;
        while (at as usize) < SECRET_LEN {
            secret[at as usize] = at;
            at += 1;
        }
        secret
    };

    /// Path 3, packet 9.
    const NONCE: [u8; NONCE_LEN] = [0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 9];
    const BOTH: [Aead; 2] = [Aead::Aes256Gcm, Aead::ChaCha20Poly1305];

    fn key(aead: Aead, sealer: Role, epoch: u8) -> Box<dyn PacketKey> {
        ExportedKeys::new(&SECRET).packet_key(aead, sealer, epoch)
    }

    fn seal(key: &dyn PacketKey, aad: &[u8], payload: &[u8]) -> Vec<u8> {
        let mut sealed = payload.to_vec();
        let tag = key.seal(NONCE, aad, &mut sealed);
        sealed.extend_from_slice(&tag);
        sealed
    }

    /// What Python's `cryptography` makes of "hello" with the additional data "label", acceptor, epoch 7.
    #[test]
    fn agrees_with_another_implementation() {
        let expected: [[u8; 21]; 2] = [
            [
                0xf1, 0xc5, 0x0b, 0x39, 0x48, 0x45, 0x5d, 0xba, 0xcf, 0xd9, 0x9f, 0x9c, 0x1b, 0x47, 0xea,
                0x3a, 0x49, 0x50, 0xff, 0x5e, 0x19,
            ],
            [
                0x5c, 0x08, 0x21, 0x50, 0xb3, 0xff, 0x4b, 0xbd, 0x11, 0x01, 0xa4, 0xc9, 0xa7, 0xa6, 0xf0,
                0x1e, 0x92, 0xc1, 0xba, 0x7a, 0x48,
            ],
        ];
        for (aead, expected) in BOTH.into_iter().zip(expected) {
            assert_eq!(seal(&*key(aead, Role::Acceptor, 7), b"label", b"hello"), expected, "{aead:?}");
        }
    }

    #[test]
    fn one_end_opens_what_the_other_seals() {
        for aead in BOTH {
            for payload in [&b""[..], b"x", &[7; 1400]] {
                let mut sealed = seal(&*key(aead, Role::Dialer, 0), b"aad", payload);
                key(aead, Role::Dialer, 0).open(NONCE, b"aad", &mut sealed).unwrap();
                assert_eq!(&sealed[..payload.len()], payload);
            }
        }
    }

    #[test]
    fn every_altered_bit_is_noticed() {
        for aead in BOTH {
            let key = key(aead, Role::Dialer, 0);
            let sealed = seal(&*key, b"aad", b"payload");
            for bit in 0..sealed.len() * 8 {
                let mut altered = sealed.clone();
                altered[bit / 8] ^= 1 << (bit % 8);
                assert_eq!(key.open(NONCE, b"aad", &mut altered), Err(AuthError), "bit {bit}");
            }
        }
    }

    #[test]
    fn aad_nonce_and_length_are_authenticated() {
        let key = key(Aead::Aes256Gcm, Role::Dialer, 0);
        let sealed = seal(&*key, b"aad", b"payload");
        let mut other_nonce = NONCE;
        other_nonce[11] += 1;
        assert_eq!(key.open(NONCE, b"aae", &mut sealed.clone()), Err(AuthError));
        assert_eq!(key.open(other_nonce, b"aad", &mut sealed.clone()), Err(AuthError));
        for len in 0..sealed.len() {
            assert_eq!(key.open(NONCE, b"aad", &mut sealed[..len].to_vec()), Err(AuthError), "length {len}");
        }
    }

    #[test]
    fn keys_differ_by_aead_sealer_epoch_and_connection() {
        let sealed = seal(&*key(Aead::Aes256Gcm, Role::Dialer, 0), b"", b"payload");
        let other_connection = ExportedKeys::new(&[1; SECRET_LEN]);
        for wrong in [
            key(Aead::ChaCha20Poly1305, Role::Dialer, 0),
            key(Aead::Aes256Gcm, Role::Acceptor, 0),
            key(Aead::Aes256Gcm, Role::Dialer, 1),
            other_connection.packet_key(Aead::Aes256Gcm, Role::Dialer, 0),
        ] {
            assert_eq!(wrong.open(NONCE, b"", &mut sealed.clone()), Err(AuthError));
        }
    }

    /// The keys of both sides of an exchange that was begun with `SECRET`, or with another secret at the second of them.
    fn exchanged(second: &[u8; SECRET_LEN]) -> [Box<dyn KeySource>; 2] {
        let (dialer, acceptor) =
            (ExportedKeys::new(&SECRET).exchange(), ExportedKeys::new(second).exchange());
        let ours = dialer.keys(Role::Dialer, &acceptor.public_key()).unwrap();
        [ours, acceptor.keys(Role::Acceptor, &dialer.public_key()).unwrap()]
    }

    #[test]
    fn both_sides_of_an_exchange_have_the_same_keys_and_nobody_else_has() {
        let [ours, theirs] = exchanged(&SECRET);
        let sealed = seal(&*ours.packet_key(Aead::Aes256Gcm, Role::Dialer, 3), b"", b"payload");
        let open = |keys: &dyn KeySource| {
            keys.packet_key(Aead::Aes256Gcm, Role::Dialer, 3).open(NONCE, b"", &mut sealed.clone())
        };
        assert_eq!(open(&*theirs), Ok(()));
        assert_eq!(open(&ExportedKeys::new(&SECRET)), Err(AuthError), "the generation before");
        assert_eq!(open(&*exchanged(&SECRET)[0]), Err(AuthError), "another exchange of the same generation");
        let [_, without_the_secret] = exchanged(&[1; SECRET_LEN]);
        assert_eq!(open(&*without_the_secret), Err(AuthError), "whoever was in the middle");
    }

    /// RFC 7748's example of an exchange (§6.1), and what Python's `cryptography` makes of it, of `SECRET` before it, and of
    /// "hello" with the additional data "label", acceptor, epoch 7.
    #[test]
    fn an_exchange_agrees_with_another_implementation() {
        let bytes = |hex: &str| -> Vec<u8> {
            (0..hex.len() / 2).map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).unwrap()).collect()
        };
        let private = bytes("77076d0a7318a57d3c16c17251b26645df4c2f87ebc0992ab177fba51db92c2a");
        let public = bytes("8520f0098930a754748b7ddcb43ef75a0dbf3a0d26381af4eba4a98eaa9b4e6a");
        let peer = bytes("de9edb7d7b7dc1b4d35b61c2ece435373f8343c85b78674dadfc7e146f882b4f");
        let alice = X25519Exchange {
            before: ExportedKeys::new(&SECRET).secret,
            private: PrivateKey::from_private_key(&X25519, &private).unwrap(),
            public: public.try_into().unwrap(),
        };
        let keys = alice.keys(Role::Dialer, &peer.try_into().unwrap()).unwrap();
        let sealed = seal(&*keys.packet_key(Aead::Aes256Gcm, Role::Acceptor, 7), b"label", b"hello");
        assert_eq!(sealed, bytes("9d5c60bda84ccf147995d43369e131038309d4b574"));
    }

    #[test]
    fn a_public_key_that_yields_no_secret_is_refused() {
        let exchange = ExportedKeys::new(&SECRET).exchange();
        for point in [[0; EXCHANGE_KEY_LEN], std::array::from_fn(|at| u8::from(at == 0))] {
            assert_eq!(exchange.keys(Role::Acceptor, &point).err(), Some(BadPublicKey), "{point:?}");
        }
    }

    #[test]
    fn debug_prints_nothing_secret() {
        assert_eq!(format!("{:?}", ExportedKeys::new(&SECRET)), "ExportedKeys(..)");
    }
}
