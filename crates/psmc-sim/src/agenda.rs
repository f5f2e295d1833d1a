//! Who is to be woken when.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::time::Instant;

/// Entries that may have become void before the heap is cleared of them, beyond as many again as are valid. Clearing
/// costs as much as there are entries: with this slack, a constant per entry.
const SLACK: usize = 64;

/// The next wake-up of each of many actors, by time; those at the same time in the order in which they were set.
///
/// A wake-up that is set again leaves a void entry behind, which is passed over when its time comes.
#[derive(Debug)]
pub(crate) struct Agenda<A> {
    heap: BinaryHeap<Reverse<(Instant, u64, A)>>,
    valid: BTreeMap<A, (Instant, u64)>,
    next_sequence: u64,
}

impl<A> Default for Agenda<A> {
    fn default() -> Self {
        Self { heap: BinaryHeap::new(), valid: BTreeMap::new(), next_sequence: 0 }
    }
}

impl<A: Copy + Ord> Agenda<A> {
    /// Wakes an actor at that time, and at no other; never if `None`.
    pub(crate) fn set(&mut self, actor: A, at: Option<Instant>) {
        let Some(at) = at else {
            self.valid.remove(&actor);
            return self.drop_void();
        };
        if self.valid.get(&actor).is_some_and(|(set, _)| *set == at) {
            return;
        }
        self.next_sequence += 1;
        self.valid.insert(actor, (at, self.next_sequence));
        self.heap.push(Reverse((at, self.next_sequence, actor)));
        self.drop_void();
    }

    /// When the next actor is to be woken.
    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The next actor that is to be woken by `now`; its wake-up is done with.
    pub(crate) fn pop(&mut self, now: Instant) -> Option<A> {
        self.next().filter(|at| *at <= now)?;
        let Reverse((_, _, actor)) = self.heap.pop()?;
        self.valid.remove(&actor);
        self.drop_void();
        Some(actor)
    }

    /// Keeps a valid entry on top, and most of the others valid.
    fn drop_void(&mut self) {
        if self.heap.len() > 2 * self.valid.len() + SLACK {
            let valid = &self.valid;
            self.heap.retain(|Reverse((at, sequence, actor))| valid.get(actor) == Some(&(*at, *sequence)));
        }
        while let Some(Reverse((at, sequence, actor))) = self.heap.peek()
            && self.valid.get(actor) != Some(&(*at, *sequence))
        {
            self.heap.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Set(u8, Option<u64>),
        Pop(u64),
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            (0..8u8, proptest::option::of(0..50u64)).prop_map(|(actor, at)| Step::Set(actor, at)),
            (0..50u64).prop_map(Step::Pop),
        ]
    }

    proptest! {
        #[test]
        fn it_agrees_with_a_list(steps in proptest::collection::vec(step(), 0..400)) {
            let start = Instant::now();
            let at = |ms| start + Duration::from_millis(ms);
            let mut agenda = Agenda::default();
            let mut list: Vec<(Instant, u8)> = Vec::new();
            for step in steps {
                match step {
                    Step::Set(actor, ms) => {
                        let when = ms.map(at);
                        agenda.set(actor, when);
                        if !when.is_some_and(|when| list.contains(&(when, actor))) {
                            list.retain(|(_, other)| *other != actor);
                            list.extend(when.map(|when| (when, actor)));
                            // The sort is stable: what was set first stays first.
                            list.sort_by_key(|(when, _)| *when);
                        }
                    }
                    Step::Pop(ms) => {
                        let due = list.first().is_some_and(|(when, _)| *when <= at(ms));
                        let expected = due.then(|| list.remove(0).1);
                        prop_assert_eq!(agenda.pop(at(ms)), expected);
                    }
                }
                prop_assert_eq!(agenda.next(), list.first().map(|(when, _)| *when));
                prop_assert!(agenda.heap.len() <= 2 * agenda.valid.len() + SLACK);
            }
        }
    }
}
