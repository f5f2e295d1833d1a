//! Sets of bytes of a file.

use std::collections::BTreeMap;
use std::ops::Range;

/// A set of bytes as ranges that neither overlap nor touch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ranges {
    /// Ends by starts.
    ends: BTreeMap<u64, u64>,
}

impl Ranges {
    /// The whole of a file.
    pub(crate) fn whole(length: u64) -> Self {
        let mut ranges = Self::default();
        ranges.insert(0..length);
        ranges
    }

    /// Adds bytes, whether they are in it or not.
    pub(crate) fn insert(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { mut start, mut end } = range;
        // From the right, so that each step finds the next range that overlaps or touches.
        while let Some((other, other_end)) = self.last_from(..=end).filter(|(_, reach)| *reach >= start) {
            self.ends.remove(&other);
            start = start.min(other);
            end = end.max(other_end);
        }
        self.ends.insert(start, end);
    }

    /// Takes away bytes, whether they are in it or not.
    pub(crate) fn remove(&mut self, range: Range<u64>) {
        if range.is_empty() {
            return;
        }
        let Range { start, end } = range;
        while let Some((other, other_end)) = self.last_from(..end).filter(|(_, reach)| *reach > start) {
            self.ends.remove(&other);
            if other_end > end {
                self.ends.insert(end, other_end);
            }
            if other < start {
                self.ends.insert(other, start);
            }
        }
    }

    /// The bytes of a file that are not in it.
    pub(crate) fn missing_of(&self, length: u64) -> Self {
        let mut missing = Self::whole(length);
        self.iter().for_each(|range| missing.remove(range));
        missing
    }

    /// The first of them.
    pub(crate) fn first(&self) -> Option<Range<u64>> {
        self.iter().next()
    }

    /// In the order of the file.
    pub(crate) fn iter(&self) -> impl Iterator<Item = Range<u64>> {
        self.ends.iter().map(|(start, end)| *start..*end)
    }

    /// How many bytes there are.
    pub(crate) fn total(&self) -> u64 {
        self.iter().map(|range| range.end - range.start).sum()
    }

    fn last_from(&self, starts: impl std::ops::RangeBounds<u64>) -> Option<(u64, u64)> {
        self.ends.range(starts).next_back().map(|(start, end)| (*start, *end))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LENGTH: u64 = 60;

    fn piece() -> impl Strategy<Value = Range<u64>> {
        (0..LENGTH, 0..LENGTH).prop_map(|(start, end)| start..end)
    }

    proptest! {
        /// Against a list that says of each byte whether it is in the set.
        #[test]
        fn sets_are_those_of_a_naive_model(steps in prop::collection::vec((any::<bool>(), piece()), 0..40)) {
            let mut ranges = Ranges::default();
            let mut model = vec![false; 60];
            for (adds, range) in steps {
                for byte in range.clone() {
                    model[usize::try_from(byte).unwrap()] = adds;
                }
                if adds { ranges.insert(range) } else { ranges.remove(range) }
                let inside = |byte| ranges.iter().any(|range| range.contains(&byte));
                let seen: Vec<_> = (0..LENGTH).map(inside).collect();
                prop_assert_eq!(&seen, &model);
                let pairs: Vec<_> = ranges.iter().collect();
                prop_assert!(pairs.windows(2).all(|pair| pair[0].end < pair[1].start), "{:?}", pairs);
                prop_assert_eq!(ranges.total() + ranges.missing_of(LENGTH).total(), LENGTH);
            }
        }
    }

    #[test]
    fn neighbours_become_one() {
        let mut ranges = Ranges::default();
        ranges.insert(0..10);
        ranges.insert(20..30);
        ranges.insert(10..20);
        assert_eq!(ranges, Ranges::whole(30));
        assert_eq!(Ranges::whole(0).first(), None);
    }
}
