//! What to release next in a bucket.

use std::collections::VecDeque;

use psmc_wire::FlowSeq;

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
