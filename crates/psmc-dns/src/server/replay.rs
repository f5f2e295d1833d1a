//! Updates that were carried out already: one that was recorded on the way is not carried out again.

use std::collections::{BTreeSet, VecDeque};
use std::sync::{Mutex, PoisonError};

/// How long a signature counts before and after it was made (RFC 8945 §10), and so how long it is remembered.
const WINDOW_S: u64 = 2 * 300;

/// Updates that are remembered at most: more than a hundred in each second of the window.
const MAX_REMEMBERED: usize = 65_536;

/// The MACs of the updates of the last minutes.
#[derive(Debug, Default)]
pub(super) struct Replays(Mutex<Remembered>);

#[derive(Debug, Default)]
struct Remembered {
    macs: BTreeSet<Vec<u8>>,
    by_age: VecDeque<(u64, Vec<u8>)>,
}

impl Replays {
    /// Whether an update with this MAC comes for the first time. Where too many come to be remembered, none is new.
    pub(super) fn is_new(&self, mac: &[u8], now_s: u64) -> bool {
        let mut remembered = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while let Some((_, old)) = remembered.by_age.pop_front_if(|(seen_s, _)| *seen_s + WINDOW_S < now_s) {
            remembered.macs.remove(&old);
        }
        if remembered.macs.len() >= MAX_REMEMBERED || !remembered.macs.insert(mac.to_vec()) {
            return false;
        }
        remembered.by_age.push_back((now_s, mac.to_vec()));
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counts_once_while_its_signature_does() {
        let replays = Replays::default();
        assert!(replays.is_new(b"a", 1000) && replays.is_new(b"b", 1001));
        assert!(!replays.is_new(b"a", 1000 + WINDOW_S));
        assert!(replays.is_new(b"a", 1001 + WINDOW_S));
        assert!(!replays.is_new(b"b", 1001 + WINDOW_S));
    }

    #[test]
    fn memory_is_bounded() {
        let replays = Replays::default();
        let mac = |number: usize| number.to_be_bytes();
        assert!((0..MAX_REMEMBERED).all(|number| replays.is_new(&mac(number), 1000)));
        assert!(!replays.is_new(&mac(MAX_REMEMBERED), 1000));
        assert!(replays.is_new(&mac(MAX_REMEMBERED), 2000));
    }
}
