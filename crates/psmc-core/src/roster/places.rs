//! Sets of places in a list of at most 128.

/// A set of places, in order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Places(u128);

impl Places {
    /// The first `count` places.
    pub(crate) fn first(count: usize) -> Self {
        Self(1u128.checked_shl(u32::try_from(count).unwrap_or(u32::MAX)).map_or(u128::MAX, |above| above - 1))
    }

    /// Adds a place.
    pub(crate) fn insert(&mut self, place: usize) {
        self.0 |= 1 << place;
    }

    /// Takes a place out.
    pub(crate) fn remove(&mut self, place: usize) {
        self.0 &= !(1 << place);
    }

    /// Has a place in it or not.
    pub(crate) fn set(&mut self, place: usize, contained: bool) {
        self.remove(place);
        self.0 |= u128::from(contained) << place;
    }

    /// Takes out the first place.
    pub(crate) fn take_first(&mut self) -> Option<usize> {
        let first = self.0.trailing_zeros() as usize;
        self.0 &= self.0.wrapping_sub(1);
        (first < 128).then_some(first)
    }

    /// Those of both sets.
    pub(crate) fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Those that are in both sets.
    pub(crate) fn and(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Those that are not in the other set.
    pub(crate) fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether it has this place.
    pub(crate) fn contains(self, place: usize) -> bool {
        self.0 >> place & 1 == 1
    }

    /// Whether it has none.
    pub(crate) fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// How many it has.
    pub(crate) fn len(self) -> usize {
        self.0.count_ones() as usize
    }

    /// The place, if there is only one.
    pub(crate) fn only(self) -> Option<usize> {
        (self.0.is_power_of_two()).then(|| self.0.trailing_zeros() as usize)
    }

    /// The next place after this one, and after the last one the first.
    pub(crate) fn after(self, place: usize) -> Option<usize> {
        let above = self.without(Self::first(place + 1));
        if above.is_empty() { self.iter().next() } else { above.iter().next() }
    }

    /// All of them, the smallest first.
    pub(crate) fn iter(self) -> impl Iterator<Item = usize> + Clone {
        let mut left = self;
        std::iter::from_fn(move || left.take_first())
    }
}

impl FromIterator<usize> for Places {
    fn from_iter<T: IntoIterator<Item = usize>>(places: T) -> Self {
        let mut set = Self::default();
        places.into_iter().for_each(|place| set.insert(place));
        set
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn is_a_set(places in prop::collection::btree_set(0usize..128, 0..20), at in 0usize..128, count in 0usize..=128) {
            let set: Places = places.iter().copied().collect();
            prop_assert_eq!(set.iter().collect::<BTreeSet<_>>(), places.clone());
            prop_assert_eq!((set.len(), set.is_empty()), (places.len(), places.is_empty()));
            prop_assert_eq!(set.contains(at), places.contains(&at));
            prop_assert_eq!(set.only(), places.first().copied().filter(|_| places.len() == 1));
            let next = places.range(at + 1..).next().or(places.first());
            prop_assert_eq!(set.after(at), next.copied());
            let rest: Vec<_> = places.range(count..).copied().collect();
            prop_assert_eq!(set.without(Places::first(count)).iter().collect::<Vec<_>>(), rest);
        }
    }
}
