//! The soonest of one moment per place.

use std::time::Instant;

use super::Places;

/// A moment for each place, or none, in a tree: changing one costs O(log n), and the soonest is at the root.
///
/// ```text
///            1                 each node has the soonest of its two children;
///      2           3           those of n are 2n and 2n + 1
///   4     5     6     7        the leaves are the places
/// ```
#[derive(Debug, Default)]
pub(super) struct Soonest {
    nodes: Vec<Option<Instant>>,
    /// How many leaves there are, a power of two: the first one is the node of this number.
    leaves: usize,
}

impl Soonest {
    /// So many places without a moment.
    pub(super) fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two();
        Self { nodes: vec![None; 2 * leaves], leaves }
    }

    /// Changes the moment of a place.
    pub(super) fn set(&mut self, place: usize, at: Option<Instant>) {
        let mut node = self.leaves + place;
        let mut soonest = at;
        while std::mem::replace(&mut self.nodes[node], soonest) != soonest && node > 1 {
            soonest = sooner(soonest, self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// The soonest of all.
    pub(super) fn first(&self) -> Option<Instant> {
        *self.nodes.get(1)?
    }

    /// The first place from `start` on, and after the last one from the beginning, whose moment has come.
    pub(super) fn next_due(&self, start: usize, now: Instant) -> Option<usize> {
        self.first().filter(|&at| at <= now)?;
        self.due_from(start, now).or_else(|| self.due_from(0, now))
    }

    /// All places whose moment has come.
    pub(super) fn due(&self, now: Instant) -> Places {
        let mut next = 0;
        let due = std::iter::from_fn(|| {
            let place = self.due_from(next, now)?;
            next = place + 1;
            Some(place)
        });
        due.collect()
    }

    fn due_from(&self, start: usize, now: Instant) -> Option<usize> {
        let mut node = self.leaves + start;
        if start >= self.leaves {
            return None;
        }
        // Up to the first node, not left of `start`, under which something is due,
        while !self.is_due(node, now) {
            while node % 2 == 1 {
                node /= 2;
            }
            if node == 0 {
                return None;
            }
            node += 1;
        }
        // and down to its first leaf.
        while node < self.leaves {
            node = if self.is_due(2 * node, now) { 2 * node } else { 2 * node + 1 };
        }
        Some(node - self.leaves)
    }

    fn is_due(&self, node: usize, now: Instant) -> bool {
        self.nodes[node].is_some_and(|at| at <= now)
    }
}

fn sooner(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (None, only) | (only, None) => only,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn knows_what_a_list_knows(
            places in 1usize..70,
            changes in prop::collection::vec((0usize..70, prop::option::of(0u64..50)), 1..200),
            (start, moment) in (0usize..70, 0u64..50),
        ) {
            let origin = Instant::now();
            let at = |millis| origin + Duration::from_millis(millis);
            let (mut soonest, mut list) = (Soonest::new(places), vec![None; places]);
            for (place, millis) in changes {
                soonest.set(place % places, millis.map(at));
                list[place % places] = millis.map(at);
            }
            prop_assert_eq!(soonest.first(), list.iter().flatten().min().copied());
            let (start, now) = (start % places, at(moment));
            let due: Vec<_> = (0..places).filter(|&place| list[place].is_some_and(|at| at <= now)).collect();
            prop_assert_eq!(soonest.due(now).iter().collect::<Vec<_>>(), due.clone());
            let next = due.iter().find(|&&place| place >= start).or(due.first());
            prop_assert_eq!(soonest.next_due(start, now), next.copied());
        }
    }

    #[test]
    fn without_places_nothing_is_due() {
        let (soonest, now) = (Soonest::default(), Instant::now());
        assert_eq!((soonest.first(), soonest.next_due(0, now)), (None, None));
        assert!(soonest.due(now).is_empty());
    }
}
