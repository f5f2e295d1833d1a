//! Who has been seen lately: two Bloom filters that take turns, whatever the number of sources.

use std::hash::{BuildHasher, RandomState};
use std::time::Duration;

use super::packet::Source;

/// Bits of a filter, in 128 KiB: at half of them set it knows 180,000 sources, and takes one in sixteen others for known.
const BITS: usize = 1 << 20;

/// Bits that a source sets.
const PROBES: u64 = 4;

/// How long a filter takes sources at most. A source is new again once it was silent for twice this.
const TURN: Duration = Duration::from_secs(300);

/// Remembers sources, and forgets them.
///
/// Sources go into one filter, and are looked for in both. Once it is half full, or after five minutes, the older one
/// is emptied and takes its place. So a flood from forged addresses makes it forget fast, but it never stops telling new
/// sources from known ones, and needs no more memory for it.
#[derive(Debug)]
pub(super) struct SourceMemory {
    /// Its keys are drawn at random: nobody outside can choose addresses that look alike.
    hasher: RandomState,
    young: Filter,
    old: Filter,
    age: Duration,
}

#[derive(Debug)]
struct Filter {
    words: Box<[u64]>,
    set: usize,
}

impl SourceMemory {
    pub(super) fn new() -> Self {
        Self { hasher: RandomState::new(), young: Filter::new(), old: Filter::new(), age: Duration::ZERO }
    }

    /// Whether a source has not been seen lately. From then on it has.
    pub(super) fn is_new(&mut self, source: Source) -> bool {
        let hash = self.hasher.hash_one(source);
        if self.young.contains(hash) {
            return false;
        }
        let is_new = !self.old.contains(hash);
        self.young.insert(hash);
        if self.young.set > BITS / 2 {
            self.take_turns();
        }
        is_new
    }

    /// Time has passed.
    pub(super) fn age(&mut self, elapsed: Duration) {
        self.age += elapsed;
        if self.age >= TURN {
            self.take_turns();
        }
    }

    fn take_turns(&mut self) {
        std::mem::swap(&mut self.young, &mut self.old);
        self.young.clear();
        self.age = Duration::ZERO;
    }
}

impl Filter {
    fn new() -> Self {
        Self { words: vec![0; BITS / 64].into(), set: 0 }
    }

    fn contains(&self, hash: u64) -> bool {
        places(hash).all(|(word, bit)| self.words[word] & bit != 0)
    }

    fn insert(&mut self, hash: u64) {
        for (word, bit) in places(hash) {
            let word = &mut self.words[word];
            self.set += usize::from(*word & bit == 0);
            *word |= bit;
        }
    }

    fn clear(&mut self) {
        self.words.fill(0);
        self.set = 0;
    }
}

/// The bits of a hash, by double hashing with its halves.
fn places(hash: u64) -> impl Iterator<Item = (usize, u64)> {
    let (first, step) = (hash & 0xffff_ffff, (hash >> 32) | 1);
    (0..PROBES).map(move |probe| {
        #[expect(clippy::cast_possible_truncation, reason = "the remainder has 20 bits")]
        let place = (first.wrapping_add(probe.wrapping_mul(step)) % BITS as u64) as usize;
        (place / 64, 1 << (place % 64))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(number: u32) -> Source {
        Source::V4(number.to_be_bytes())
    }

    #[test]
    fn a_source_is_new_once() {
        let mut memory = SourceMemory::new();
        let new = (0..10_000).filter(|number| memory.is_new(source(*number))).count();
        assert!(new > 9_990, "{new}");
        assert!((0..10_000).all(|number| !memory.is_new(source(number))));
        assert!(memory.is_new(Source::V6([0; 8])));
    }

    #[test]
    fn who_is_silent_is_forgotten_and_who_is_not_is_not() {
        let mut memory = SourceMemory::new();
        memory.is_new(source(1));
        memory.is_new(source(2));
        for _ in 0..10 {
            memory.age(TURN / 2);
            assert!(!memory.is_new(source(1)));
        }
        assert!(memory.is_new(source(2)));
    }

    #[test]
    fn a_flood_of_forged_sources_stays_new() {
        let mut memory = SourceMemory::new();
        let new = (0..3_000_000_u32).filter(|number| memory.is_new(source(*number))).count();
        // Both filters half full: one in eight is mistaken at worst.
        assert!(new > 3_000_000 / 8 * 7, "{new}");
    }
}
