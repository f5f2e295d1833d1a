//! Keys that fit the protocol and protect nothing.
//!
//! Nobody attacks a simulated network, and a link that damages a packet leaves a mark on it. So a tag need not cover
//! the payload: it costs a tenth of a hash, and packets have their true lengths all the same. It does cover the key,
//! the nonce and the header, so that an engine that used the wrong ones would be found out.

use psmc_wire::crypto::{Aead, AuthError, KeySource, NONCE_LEN, PacketKey, Role, TAG_LEN};

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
    use super::*;

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
