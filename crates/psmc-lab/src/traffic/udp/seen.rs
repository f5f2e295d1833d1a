//! Which numbers have been seen.

/// The most that is believed of a number: a day of the smallest datagrams that a network carries.
const MAX_NUMBER: u64 = 1 << 36;

/// A set of numbers from 0 on without large gaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    words: Vec<u64>,
    highest: Option<u64>,
}

impl Seen {
    /// The highest number in it.
    pub(super) const fn highest(&self) -> Option<u64> {
        self.highest
    }

    /// Adds a number; says whether it was not there.
    pub(super) fn insert(&mut self, number: u64) -> bool {
        let Some(index) = usize::try_from(number / 64).ok().filter(|_| number < MAX_NUMBER) else {
            return false;
        };
        if self.words.len() <= index {
            self.words.resize(index + 1, 0);
        }
        let bit = 1 << (number % 64);
        let is_new = self.words[index] & bit == 0;
        self.words[index] |= bit;
        self.highest = self.highest.max(Some(number));
        is_new
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_a_set() {
        let (mut seen, mut model) = (Seen::default(), BTreeSet::new());
        // Every number below 1000 several times, in an order that jumps.
        for number in (0..5000_u64).map(|step| step * 387 % 1000) {
            assert_eq!(seen.insert(number), model.insert(number), "{number}");
            assert_eq!(seen.highest(), model.last().copied());
        }
        assert!(!seen.insert(u64::MAX));
        assert_eq!(seen.highest(), Some(999));
    }
}
