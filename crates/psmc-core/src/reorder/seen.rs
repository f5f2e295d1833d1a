//! Which sequence numbers of a bucket have arrived.
//!
//! What to release next in a bucket.

use std::collections::VecDeque;

use psmc_wire::FlowSeq;

/// Sequence numbers that the window reaches back, and the most that a packet may be ahead and still be waited
/// for.
///
/// At 1 Gb/s, 4096 full-size packets are 49 ms: about what paths worth bundling differ by. The window takes
/// 512 bytes, so a session with all its buckets in use keeps 2 MiB of them.
pub(super) const SPAN: u32 = 4096;

const WORD_BITS: u32 = 64;
const WORDS: usize = (SPAN / WORD_BITS) as usize;

/// The newest number that arrived and, for the [`SPAN`] numbers up to it, whether they have.
#[derive(Debug)]
pub(super) struct Seen {
    newest: FlowSeq,
    /// A ring, indexed by the low bits of the number.
    bits: [u64; WORDS],
}

impl Seen {
    /// The window of a bucket whose first number, zero, is still to come.
    pub(super) fn new() -> Self {
        Self { newest: FlowSeq(u32::MAX), bits: [0; WORDS] }
    }

    /// The newest number that arrived.
    pub(super) fn newest(&self) -> FlowSeq {
        self.newest
    }

    /// Whether `seq` arrived; of numbers older than the window nothing is known, and the answer is no.
    pub(super) fn contains(&self, seq: FlowSeq) -> bool {
        self.reaches(seq) && self.bits[word(seq)] & bit(seq) != 0
    }

    /// Marks `seq` as arrived and says whether that is news. It always is behind the window.
    pub(super) fn insert(&mut self, seq: FlowSeq) -> bool {
        let ahead = seq.distance_from(self.newest);
        if ahead > 0 {
            self.clear(self.newest.plus(1), ahead.unsigned_abs().min(SPAN));
            self.newest = seq;
        } else if !self.reaches(seq) {
            return true;
        }
        let news = self.bits[word(seq)] & bit(seq) == 0;
        self.bits[word(seq)] |= bit(seq);
        news
    }

    fn reaches(&self, seq: FlowSeq) -> bool {
        let behind = self.newest.distance_from(seq);
        behind >= 0 && behind.unsigned_abs() < SPAN
    }

    fn clear(&mut self, from: FlowSeq, count: u32) {
        let (mut at, mut left) = (from, count);
        while left > 0 {
            let offset = at.0 % WORD_BITS;
            let run = left.min(WORD_BITS - offset);
            let mask = u64::MAX >> (WORD_BITS - run) << offset;
            self.bits[word(at)] &= !mask;
            (at, left) = (at.plus(run), left - run);
        }
    }
}

fn word(seq: FlowSeq) -> usize {
    (seq.0 % SPAN / WORD_BITS) as usize
}

fn bit(seq: FlowSeq) -> u64 {
    1 << (seq.0 % WORD_BITS)
}

/// Room that is kept when a staircase becomes empty: enough for the reordering of an ordinary burst.
const KEPT_STEPS: usize = 16;

/// For each held packet a key at which everything up to it is released, reduced to the keys that matter.
///
/// A packet whose number is larger and whose key isn't releases all that the other one does, no later.
/// Without the packets that are outdone in that way, keys rise with the numbers, and the smallest key is in
/// front:
/// ```text
///   key │           ┌── 9
///       │     ┌─ 7 ─┘         5 and 6, with keys above that of 7, are not kept
///       │ 4 ──┘
///       └──────────────▸ number
/// ```
/// Adding to the end or taking from the front, which is the rule, costs amortised O(1) moves; elsewhere a
/// packet costs as many as there are steps to the nearer end.
#[derive(Debug)]
pub(super) struct Staircase<K> {
    steps: VecDeque<(FlowSeq, K)>,
}

impl<K> Default for Staircase<K> {
    fn default() -> Self {
        Self { steps: VecDeque::new() }
    }
}

impl<K: Copy + Ord> Staircase<K> {
    /// Adds that all up to `seq` is released at `key`.
    pub(super) fn insert(&mut self, seq: FlowSeq, key: K) {
        while self.steps.back().is_some_and(|(other, later)| other.distance_from(seq) < 0 && *later >= key) {
            self.steps.pop_back();
        }
        if self.steps.back().is_none_or(|(other, _)| other.distance_from(seq) < 0) {
            return self.steps.push_back((seq, key));
        }
        let at = self.steps.partition_point(|(other, _)| other.distance_from(seq) < 0);
        if self.steps.get(at).is_some_and(|(_, later)| *later <= key) {
            return;
        }
        let outdone = self.steps.partition_point(|(_, other)| *other < key);
        self.steps.drain(outdone..at);
        self.steps.insert(outdone, (seq, key));
    }

    /// Forgets what is before `next`.
    pub(super) fn discard_before(&mut self, next: FlowSeq) {
        while self.steps.front().is_some_and(|(seq, _)| seq.distance_from(next) < 0) {
            self.steps.pop_front();
        }
        if self.steps.is_empty() {
            self.steps.shrink_to(KEPT_STEPS);
        }
    }

    /// The smallest key and the number up to which it releases.
    pub(super) fn first(&self) -> Option<(FlowSeq, K)> {
        self.steps.front().copied()
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn step() -> impl Strategy<Value = i64> {
        prop_oneof![4 => -3i64..6, 2 => -70i64..70, 1 => 4085i64..4101, 1 => -5000i64..5000]
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_set(
            start in prop_oneof![Just(0u32), any::<u32>()],
            steps in prop::collection::vec(step(), 1..200),
        ) {
            // Counted from far above zero, so that the numbers of the model don't wrap.
            let mut at = (1i64 << 40) + i64::from(start);
            let number = |at: i64| FlowSeq(u32::try_from(at & 0xFFFF_FFFF).unwrap());
            let mut seen = Seen { newest: number(at), ..Seen::new() };
            let mut newest = at;
            let mut set = BTreeSet::new();
            for step in steps {
                at += step;
                let reached = at > newest - i64::from(SPAN);
                prop_assert_eq!(seen.contains(number(at)), reached && set.contains(&at));
                prop_assert_eq!(seen.insert(number(at)), !(reached && set.contains(&at)));
                newest = newest.max(at);
                set.insert(at);
                for near in at - 6..at + 7 {
                    let reached = near > newest - i64::from(SPAN);
                    prop_assert_eq!(seen.contains(number(near)), reached && set.contains(&near));
                }
                prop_assert_eq!(seen.newest(), number(newest));
            }
        }
    }

    proptest! {
        #[test]
        fn it_releases_what_the_full_list_would(
            base: u32,
            mut list in prop::collection::vec((0u32..200, 0u32..100), 1..100),
        ) {
            let mut known = BTreeSet::new();
            list.retain(|&(offset, _)| known.insert(offset));
            let mut staircase = Staircase::default();
            for &(offset, key) in &list {
                staircase.insert(FlowSeq(base).plus(offset), key);
                let step = |&(seq, key): &(FlowSeq, u32)| (seq.0.wrapping_sub(base), key);
                let steps: Vec<_> = staircase.steps.iter().map(step).collect();
                prop_assert!(steps.is_sorted_by(|a, b| a.0 < b.0 && a.1 < b.1));
            }
            while let Some((seq, key)) = staircase.first() {
                let smallest = list.iter().map(|&(_, key)| key).min();
                prop_assert_eq!(Some(key), smallest);
                let last = list.iter().filter(|&&(_, other)| other == key).map(|&(offset, _)| offset).max();
                prop_assert_eq!(Some(seq), last.map(|offset| FlowSeq(base).plus(offset)));
                list.retain(|&(offset, _)| Some(offset) > last);
                staircase.discard_before(seq.plus(1));
            }
            prop_assert!(list.is_empty());
        }
    }
}
