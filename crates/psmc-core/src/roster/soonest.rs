//! The soonest of one moment per place.

use super::Places;

/// A moment for each place, or none, in a tree: changing one costs O(log n), and the soonest is at the root. What a moment
/// is, a point in time or a time from now, is up to its user.
///
/// ```text
///            1                 each node has the soonest of its two children;
///      2           3           those of n are 2n and 2n + 1
///   4     5     6     7        the leaves are the places
/// ```
#[derive(Debug)]
pub(crate) struct Soonest<T> {
    nodes: Vec<Option<T>>,
    /// How many leaves there are, a power of two: the first one is the node of this number.
    leaves: usize,
}

impl<T: Copy + Ord> Soonest<T> {
    /// So many places without a moment.
    pub(crate) fn new(places: usize) -> Self {
        let leaves = places.next_power_of_two();
        Self { nodes: vec![None; 2 * leaves], leaves }
    }

    /// Changes the moment of a place.
    pub(crate) fn set(&mut self, place: usize, at: Option<T>) {
        let mut node = self.leaves + place;
        let mut soonest = at;
        while std::mem::replace(&mut self.nodes[node], soonest) != soonest && node > 1 {
            soonest = sooner(soonest, self.nodes[node ^ 1]);
            node /= 2;
        }
    }

    /// Takes all moments out.
    pub(crate) fn clear(&mut self) {
        if self.first().is_some() {
            self.nodes.fill(None);
        }
    }

    /// Gives a place a moment, as one of many after [`clear`](Self::clear): [`settle`](Self::settle) is to be called after
    /// the last.
    pub(crate) fn set_leaf(&mut self, place: usize, at: T) {
        self.nodes[self.leaves + place] = Some(at);
    }

    /// Makes good what [`set_leaf`](Self::set_leaf) has left undone.
    pub(crate) fn settle(&mut self) {
        if self.nodes[self.leaves..].iter().all(Option::is_none) {
            return;
        }
        for node in (1..self.leaves).rev() {
            self.nodes[node] = sooner(self.nodes[2 * node], self.nodes[2 * node + 1]);
        }
    }

    /// The soonest of all.
    pub(crate) fn first(&self) -> Option<T> {
        *self.nodes.get(1)?
    }

    /// The first place from `start` on, and after the last one from the beginning, whose moment has come.
    pub(crate) fn next_due(&self, start: usize, now: T) -> Option<usize> {
        self.first().filter(|&at| at <= now)?;
        self.due_from(start, now).or_else(|| self.due_from(0, now))
    }

    /// All places whose moment has come.
    pub(super) fn due(&self, now: T) -> Places {
        if self.first().is_none_or(|at| at > now) {
            return Places::default();
        }
        let mut next = 0;
        let due = std::iter::from_fn(|| {
            let place = self.due_from(next, now)?;
            next = place + 1;
            Some(place)
        });
        due.collect()
    }

    fn due_from(&self, start: usize, now: T) -> Option<usize> {
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

    fn is_due(&self, node: usize, now: T) -> bool {
        self.nodes[node].is_some_and(|at| at <= now)
    }
}

impl<T> Default for Soonest<T> {
    fn default() -> Self {
        Self { nodes: Vec::new(), leaves: 0 }
    }
}

fn sooner<T: Ord>(a: Option<T>, b: Option<T>) -> Option<T> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (None, only) | (only, None) => only,
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

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
            let mut at_once = Soonest::new(places);
            at_once.set_leaf(0, origin);
            at_once.settle();
            at_once.clear();
            let moments = list.iter().enumerate().filter_map(|(place, at)| Some((place, (*at)?)));
            moments.for_each(|(place, at)| at_once.set_leaf(place, at));
            at_once.settle();
            prop_assert_eq!(&at_once.nodes, &soonest.nodes);
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
