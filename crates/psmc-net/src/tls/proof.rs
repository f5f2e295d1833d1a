//! The proof that a dialer knows whom it calls, which costs an acceptor one hash to check.
//!
//! It stands in the first message of TLS, as one more name of the ALPN extension (RFC 7301), which whoever doesn't know it passes
//! over:
//! ```text
//! name = "psmc-proof/1 " || time (8 bytes) || nonce (8 bytes) || MAC (16 bytes)
//! MAC  = the first 16 bytes of HMAC-SHA-256(the acceptor's public key, "psmc-proof/1 " || time || nonce || protocol)
//! ```
//! as the field `mac1` of WireGuard's first message, which is keyed with the responder's public key, too. The time is that of the
//! dialer's clock, in seconds since 1970.

use std::collections::{HashSet, VecDeque};

use aws_lc_rs::{hmac, rand};

use crate::keys::PublicKey;

/// How much later or earlier a dialer's clock may be than an acceptor's that goes by it: that of a machine that asks for the time
/// once a day is not off by more.
pub(super) const CLOCKS_DIFFER: u64 = 300;

/// Proofs that are remembered. Only who knows the key can make another one, and for each there was a handshake.
const MAX_REMEMBERED: usize = 1 << 16;

const PREFIX: &[u8; 13] = b"psmc-proof/1 ";
const NONCE_LEN: usize = 8;
const MAC_LEN: usize = 16;
const HEAD_LEN: usize = PREFIX.len() + size_of::<u64>() + NONCE_LEN;

/// A proof that holds: whoever made it knows the acceptor's public key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Proof {
    /// When it was made, by the dialer's clock, in seconds since 1970.
    pub(super) at: u64,
    mac: [u8; MAC_LEN],
}

/// A name for the ALPN extension by which who calls `key` for `protocol` proves to know it.
///
/// # Panics
/// If the system has no randomness to give, as in [`PrivateKey::generate`](crate::keys::PrivateKey::generate).
pub(super) fn name(key: &PublicKey, protocol: &[u8], unix_time: u64) -> Vec<u8> {
    let mut nonce = [0; NONCE_LEN];
    rand::fill(&mut nonce).expect("the system has randomness");
    let mut name = [&PREFIX[..], &unix_time.to_be_bytes(), &nonce].concat();
    let mac = mac(key, &name, protocol);
    name.extend_from_slice(&mac.as_ref()[..MAC_LEN]);
    name
}

/// The proof among `names` for `protocol`, to who has `key`; `None` if none holds.
pub(super) fn find<'a>(
    key: &PublicKey,
    protocol: &[u8],
    names: impl IntoIterator<Item = &'a [u8]>,
) -> Option<Proof> {
    // One is looked at, so that a message costs one hash whatever is in it.
    let name = names.into_iter().find(|name| name.starts_with(PREFIX))?;
    let (head, shown) = name.split_at_checked(HEAD_LEN)?;
    let shown: [u8; MAC_LEN] = shown.try_into().ok()?;
    // Nobody learns a right MAC from how long this takes who could not have made it: the key is all that is secret about it.
    if mac(key, head, protocol).as_ref()[..MAC_LEN] != shown {
        return None;
    }
    let at = head[PREFIX.len()..][..size_of::<u64>()].try_into().ok()?;
    Some(Proof { at: u64::from_be_bytes(at), mac: shown })
}

fn mac(key: &PublicKey, head: &[u8], protocol: &[u8]) -> hmac::Tag {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    hmac::sign(&key, &[head, protocol].concat())
}

/// Why a proof that holds does not count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stale {
    /// It has counted before: somebody has read it on the way.
    Repeated,
    /// The dialer's clock is ahead of this one by so many seconds, or behind if that is negative.
    Clock(i64),
}

/// The proofs that have counted, so that none does twice.
#[derive(Debug, Default)]
pub(super) struct Taken {
    macs: HashSet<[u8; MAC_LEN]>,
    /// The newest at the end.
    in_order: VecDeque<(u64, [u8; MAC_LEN])>,
}

impl Taken {
    /// Takes a proof at the time `now`, in seconds since 1970, if it is as old as it may be and has not been taken.
    pub(super) fn take(&mut self, proof: Proof, now: u64) -> Result<(), Stale> {
        if proof.at.abs_diff(now) > CLOCKS_DIFFER {
            return Err(Stale::Clock(proof.at.cast_signed().wrapping_sub(now.cast_signed())));
        }
        // What was taken that long ago is too old by its own time.
        while let Some(&(taken_at, mac)) = self.in_order.front()
            && (taken_at.abs_diff(now) > 2 * CLOCKS_DIFFER || self.in_order.len() >= MAX_REMEMBERED)
        {
            self.in_order.pop_front();
            self.macs.remove(&mac);
        }
        if !self.macs.insert(proof.mac) {
            return Err(Stale::Repeated);
        }
        self.in_order.push_back((now, proof.mac));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::keys::PrivateKey;

    const NOW: u64 = 1_800_000_000;

    fn found(key: &PublicKey, protocol: &[u8], name: &[u8]) -> Option<Proof> {
        find(key, protocol, [&b"psmc/1"[..], name])
    }

    #[test]
    fn only_who_knows_the_key_can_make_one_and_for_one_protocol() {
        let (key, other) = (PrivateKey::generate().public(), PrivateKey::generate().public());
        let made = name(&key, b"psmc/1", NOW);
        assert_eq!(found(&key, b"psmc/1", &made).unwrap().at, NOW);
        assert_eq!(found(&other, b"psmc/1", &made), None);
        assert_eq!(found(&key, b"psmc-join/1", &made), None);
        for index in 0..made.len() {
            let mut altered = made.clone();
            altered[index] ^= 1;
            assert_eq!(found(&key, b"psmc/1", &altered), None, "byte {index}");
            assert_eq!(found(&key, b"psmc/1", &made[..index]), None);
        }
        assert_eq!(found(&key, b"psmc/1", &[&made[..], &[0]].concat()), None);
        assert_ne!(name(&key, b"psmc/1", NOW), made, "two of one second differ");
    }

    #[test]
    fn one_is_taken_once_and_while_it_is_new() {
        let key = PrivateKey::generate().public();
        let made = |at| found(&key, b"psmc/1", &name(&key, b"psmc/1", at)).unwrap();
        let mut taken = Taken::default();
        let proof = made(NOW);
        assert_eq!(taken.take(proof, NOW + CLOCKS_DIFFER), Ok(()));
        assert_eq!(taken.take(proof, NOW + CLOCKS_DIFFER), Err(Stale::Repeated));
        assert_eq!(taken.take(proof, NOW - CLOCKS_DIFFER), Err(Stale::Repeated));
        assert_eq!(taken.take(proof, NOW + CLOCKS_DIFFER + 1), Err(Stale::Clock(-301)));
        assert_eq!(taken.take(made(NOW + 400), NOW), Err(Stale::Clock(400)));
        assert_eq!(taken.take(made(u64::MAX), NOW), Err(Stale::Clock(-1 - NOW.cast_signed())));
        // Of a clock that is ahead the proof counts for longest, and is remembered for as long.
        let ahead = made(NOW + CLOCKS_DIFFER);
        assert_eq!(taken.take(ahead, NOW), Ok(()));
        assert_eq!(taken.take(ahead, NOW + 2 * CLOCKS_DIFFER), Err(Stale::Repeated));
    }

    #[test]
    fn what_is_remembered_has_a_bound() {
        let mut taken = Taken::default();
        for number in 0..MAX_REMEMBERED as u128 + 10 {
            taken.take(Proof { at: NOW, mac: number.to_be_bytes() }, NOW).unwrap();
        }
        assert_eq!((taken.macs.len(), taken.in_order.len()), (MAX_REMEMBERED, MAX_REMEMBERED));
    }
}
