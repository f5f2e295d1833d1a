//! Keys that were refused: which of them to speak of, when anybody can show any number of them.

use std::time::{Duration, Instant};

use crate::keys::PublicKey;

/// Keys that are remembered.
const MAX_KNOWN: usize = 32;

/// The same key is spoken of again after this time.
const AGAIN: Duration = Duration::from_secs(600);

/// Another key is spoken of after this time.
const PAUSE: Duration = Duration::from_secs(5);

/// The keys that were refused last.
#[derive(Debug, Default)]
pub(super) struct Strangers {
    /// The one that was refused last at the end.
    known: Vec<Stranger>,
    spoken_at: Option<Instant>,
}

#[derive(Clone, Copy, Debug)]
struct Stranger {
    key: PublicKey,
    spoken_at: Option<Instant>,
    /// How often it was refused since it was spoken of.
    times: u64,
}

impl Strangers {
    /// A key was refused. If it is to be spoken of, returns how often that was since the last time.
    pub(super) fn note(&mut self, key: PublicKey, now: Instant) -> Option<u64> {
        let known = self.known.iter().position(|known| known.key == key).map(|at| self.known.remove(at));
        let mut stranger = known.unwrap_or(Stranger { key, spoken_at: None, times: 0 });
        stranger.times += 1;
        let is_due = stranger.spoken_at.is_none_or(|at| at + AGAIN <= now)
            && self.spoken_at.is_none_or(|at| at + PAUSE <= now);
        let times = is_due.then(|| {
            self.spoken_at = Some(now);
            stranger.spoken_at = Some(now);
            std::mem::take(&mut stranger.times)
        });
        if self.known.len() >= MAX_KNOWN {
            self.known.remove(0);
        }
        self.known.push(stranger);
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_spoken_of_once_and_then_counted() {
        let start = Instant::now();
        let at = |seconds| start + Duration::from_secs(seconds);
        let key = |number| PublicKey::from_bytes([number; 32]);
        let mut strangers = Strangers::default();
        assert_eq!(strangers.note(key(1), at(0)), Some(1));
        for second in 1..10 {
            assert_eq!(strangers.note(key(1), at(second)), None);
        }
        assert_eq!(strangers.note(key(2), at(10)), Some(1));
        assert_eq!(strangers.note(key(3), at(11)), None, "another one was spoken of a moment ago");
        assert_eq!(strangers.note(key(3), at(15)), Some(2));
        assert_eq!(strangers.note(key(1), at(600)), Some(10));
        for number in 0..255 {
            strangers.note(key(number), at(601));
        }
        assert_eq!(strangers.known.len(), MAX_KNOWN);
    }
}
