//! Keys that authenticate, but hide nothing: what the engine needs of cryptography, at a tenth of its price.

use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, HashSet};
use std::hash::Hasher;

use psmc_wire::crypto::{
    Aead, AuthError, BadPublicKey, EXCHANGE_KEY_LEN, KeyExchange, KeySource, NONCE_LEN, PacketKey, Role,
    TAG_LEN,
};
use siphasher::sip128::{Hasher128, SipHasher13};

pub struct TestKeys {
    pub connection: u64,
}

struct TestKey {
    secret: u64,
    epoch: u64,
}

impl KeySource for TestKeys {
    fn packet_key(&self, aead: Aead, sealer: Role, epoch: u8) -> Box<dyn PacketKey> {
        let aead = u64::from(aead == Aead::Aes256Gcm);
        let sealer = u64::from(sealer == Role::Dialer);
        Box::new(TestKey { secret: self.connection << 2 | aead << 1 | sealer, epoch: u64::from(epoch) })
    }

    fn exchange(&self) -> Box<dyn KeyExchange> {
        let private = PRIVATE_KEYS.replace(PRIVATE_KEYS.get() + 1);
        Box::new(TestExchange { before: self.connection, private })
    }
}

/// A key, its epoch, and a nonce.
type Sealed = (u64, u64, [u8; NONCE_LEN]);

thread_local! {
    /// How many private keys there were.
    static PRIVATE_KEYS: Cell<u64> = const { Cell::new(1000) };
    /// The generations with which an acceptor and a dialer have sealed last.
    static LAST: Cell<[u64; 2]> = const { Cell::new([0; 2]) };
    /// With which keys and nonces something was sealed, while somebody wants to know.
    static SEALED: RefCell<Option<HashSet<Sealed>>> = const { RefCell::new(None) };
}

/// From here on, a test in which a nonce is used twice with a key fails.
pub fn forbid_nonces_twice() {
    SEALED.set(Some(HashSet::new()));
}

/// How many datagrams were sealed since then with the key that has sealed most.
pub fn most_sealed_with_a_key() -> usize {
    SEALED.with_borrow(|sealed| {
        let mut counts = BTreeMap::new();
        for (secret, epoch, _) in sealed.iter().flatten() {
            *counts.entry((secret, epoch)).or_insert(0) += 1;
        }
        counts.into_values().max().unwrap_or_default()
    })
}

/// The generations with which an acceptor and a dialer of one have sealed last.
pub fn last_generations() -> [u64; 2] {
    LAST.get()
}

/// The field of a Diffie-Hellman exchange that hides nothing: numbers modulo the Mersenne prime 2^61 - 1.
const PRIME: u64 = (1 << 61) - 1;

struct TestExchange {
    before: u64,
    private: u64,
}

fn power(base: u64, exponent: u64) -> u64 {
    let times = |a: u64, b: u64| (u128::from(a) * u128::from(b) % u128::from(PRIME)) as u64;
    (0..64).rev().fold(1, |power, bit| {
        let square = times(power, power);
        if exponent >> bit & 1 == 1 { times(square, base) } else { square }
    })
}

impl KeyExchange for TestExchange {
    fn public_key(&self) -> [u8; EXCHANGE_KEY_LEN] {
        let mut public = [0; EXCHANGE_KEY_LEN];
        public[..8].copy_from_slice(&power(3, self.private).to_be_bytes());
        public
    }

    fn keys(&self, role: Role, peer: &[u8; EXCHANGE_KEY_LEN]) -> Result<Box<dyn KeySource>, BadPublicKey> {
        let public = u64::from_be_bytes(peer[..8].try_into().expect("eight bytes"));
        if !(2..PRIME).contains(&public) {
            return Err(BadPublicKey);
        }
        let own = self.public_key();
        let (dialer, acceptor) = if role == Role::Dialer { (&own, peer) } else { (peer, &own) };
        let mut hasher = SipHasher13::new_with_keys(self.before, power(public, self.private));
        hasher.write(dialer);
        hasher.write(acceptor);
        // Two bits less, because a key's side and algorithm are put behind it.
        Ok(Box::new(TestKeys { connection: hasher.finish128().h1 >> 2 }))
    }
}

impl TestKey {
    /// A function of its own, so that whoever counts the engine's instructions can leave it out.
    #[inline(never)]
    fn tag(&self, nonce: [u8; NONCE_LEN], aad: &[u8], payload: &[u8]) -> [u8; TAG_LEN] {
        let mut hasher = SipHasher13::new_with_keys(self.secret, self.epoch);
        hasher.write(&nonce);
        hasher.write(aad);
        hasher.write(payload);
        hasher.finish128().as_bytes()
    }
}

impl PacketKey for TestKey {
    fn seal(&self, nonce: [u8; NONCE_LEN], aad: &[u8], payload: &mut [u8]) -> [u8; TAG_LEN] {
        SEALED.with_borrow_mut(|sealed| {
            let Some(sealed) = sealed else { return };
            let is_first = sealed.insert((self.secret, self.epoch, nonce));
            assert!(is_first, "a nonce twice: {nonce:?}");
            let mut last = LAST.get();
            last[usize::from(self.secret & 1 == 1)] = self.secret >> 2;
            LAST.set(last);
        });
        self.tag(nonce, aad, payload)
    }

    fn open(&self, nonce: [u8; NONCE_LEN], aad: &[u8], sealed: &mut [u8]) -> Result<(), AuthError> {
        let (payload, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(AuthError)?;
        if self.tag(nonce, aad, payload) == *tag { Ok(()) } else { Err(AuthError) }
    }
}
