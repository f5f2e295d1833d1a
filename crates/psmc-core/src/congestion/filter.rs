//! The largest rate of the last rounds.

/// A windowed maximum, counted in rounds (`BBR.MaxBwFilter` of draft-ietf-ccwg-bbr).
#[derive(Debug, Default)]
pub(crate) struct MaxFilter {
    /// The largest rate of each round, bytes per second.
    rounds: [u64; FILTER_ROUNDS],
    current: usize,
    max: u64,
    /// The largest of all, forgotten ones too.
    largest: u64,
}

impl MaxFilter {
    /// Takes in a rate that was measured in the present round.
    pub(crate) fn update(&mut self, bytes_per_s: u64) {
        let slot = &mut self.rounds[self.current];
        *slot = bytes_per_s.max(*slot);
        self.max = bytes_per_s.max(self.max);
        self.largest = bytes_per_s.max(self.largest);
    }

    /// Begins the next round, and forgets the oldest.
    pub(crate) fn advance(&mut self) {
        self.current = (self.current + 1) % FILTER_ROUNDS;
        self.rounds[self.current] = 0;
        self.refresh();
    }

    /// Forgets all but the newest `keep` rounds, the present one included.
    pub(crate) fn forget_but(&mut self, keep: usize) {
        for age in keep..FILTER_ROUNDS {
            self.rounds[(self.current + FILTER_ROUNDS - age) % FILTER_ROUNDS] = 0;
        }
        self.refresh();
    }

    /// The largest rate, bytes per second; `None` before the first.
    pub(crate) fn max(&self) -> Option<u64> {
        (self.max > 0).then_some(self.max)
    }

    /// The largest rate ever, bytes per second; zero before the first.
    pub(crate) fn largest(&self) -> u64 {
        self.largest
    }

    fn refresh(&mut self) {
        self.max = self.rounds.into_iter().max().unwrap_or(0);
    }
}

/// A probe must still be remembered when the next one begins, about 8 rounds later; a path that has become
/// slower should be believed within a second or two.
pub(crate) const FILTER_ROUNDS: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remembers_ten_rounds() {
        let mut filter = MaxFilter::default();
        assert_eq!(filter.max(), None);
        filter.update(100);
        filter.update(50);
        for round in 1..FILTER_ROUNDS {
            filter.advance();
            filter.update(40);
            assert_eq!(filter.max(), Some(100), "round {round}");
        }
        filter.advance();
        assert_eq!(filter.max(), Some(40));
    }

    #[test]
    fn forgets_on_demand_but_not_the_largest() {
        let mut filter = MaxFilter::default();
        for rate in [100, 90, 80] {
            filter.advance();
            filter.update(rate);
        }
        filter.forget_but(2);
        assert_eq!((filter.max(), filter.largest()), (Some(90), 100));
    }
}
