//! The largest rate of the last rounds.
//!
//! What a path delivers where delays vary.

use super::RateSample;
use super::round::Turns;

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

/// The mean rate of rounds.
///
/// Where delays vary, a round's is off by as much as its first and its last packet were late, and the largest of ten is far too large: who
/// sends at that keeps a queue which no pacing takes away.
#[derive(Debug, Default)]
pub(crate) struct MeanRate {
    /// Bytes per second.
    mean: Option<u64>,
    /// Of rates, bytes per second.
    turns: Turns,
    is_rough: bool,
}

/// How a sample came about.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sampled {
    /// The path is neither being found nor probed.
    pub(crate) is_cruise: bool,
    /// Less was sent than the path carries.
    pub(crate) is_idle: bool,
    /// Delays vary from round to round.
    pub(crate) is_unsteady: bool,
    /// What rates go up and down by in turn on a steady path too, bytes per second.
    pub(crate) tolerance: u64,
}

impl MeanRate {
    /// Whether what arrives in rounds goes up and down in turn, as where delays vary.
    pub(crate) fn is_rough(&self) -> bool {
        self.is_rough
    }

    /// Whether it was seen that they do not.
    pub(crate) fn is_even(&self, tolerance: u64) -> bool {
        self.turns.is_at_most(tolerance)
    }

    /// The rate to believe of a sample, bytes per second: at most its own.
    pub(crate) fn settle(&mut self, rate: &RateSample, how: Sampled) -> u64 {
        let sample = rate.bytes_per_s;
        if rate.round_ended && how.is_cruise && !how.is_idle {
            self.turns.on_value(sample);
        } else if rate.round_ended {
            self.turns.pause();
        }
        // What varies does so by less for a while now and then.
        let limit = if self.is_rough { how.tolerance / 2 } else { how.tolerance };
        self.is_rough = self.turns.mean() > limit;
        let mean = match self.mean {
            // It tells only how much was sent.
            Some(last) if self.is_rough && how.is_idle && sample < last => return sample,
            Some(last) if self.is_rough => (last * (ROUNDS - 1) + sample) / ROUNDS,
            Some(last) if how.is_unsteady => last.midpoint(sample),
            _ => sample,
        };
        if rate.round_ended {
            self.mean = Some(mean);
        }
        mean.min(sample)
    }

    /// The path is only being found: what was is no part of what will be.
    pub(crate) fn restart(&mut self, rate: &RateSample) {
        if rate.round_ended {
            self.mean = Some(rate.bytes_per_s);
            self.turns.pause();
        }
    }
}

/// So many rounds count, where rates alternate. Of eight the mean is better still, and rates that rise are seen later.
const ROUNDS: u64 = 4;

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

    fn settle(mean: &mut MeanRate, bytes_per_s: u64, is_idle: bool) -> u64 {
        let rate = RateSample { bytes_per_s, app_limited: false, stretched: false, round_ended: true };
        mean.settle(&rate, Sampled { is_cruise: true, is_idle, is_unsteady: false, tolerance: 15 })
    }

    #[test]
    fn what_alternates_is_no_more_than_its_mean() {
        let mut mean = MeanRate::default();
        let rates = [1100, 900].into_iter().cycle().take(100);
        let settled: Vec<_> = rates.map(|rate| settle(&mut mean, rate, false)).collect();
        assert!(mean.is_rough() && settled[50..].iter().all(|rate| *rate <= 1030), "{settled:?}");
        assert_eq!(settle(&mut mean, 300, true), 300, "so much was sent");
        assert!(settle(&mut mean, 1100, false) >= 970, "and it says nothing of the path");
    }

    #[test]
    fn what_has_alternated_is_not_steady_at_once() {
        let mut mean = MeanRate::default();
        let mut roughness_of = |half: u64, rounds: u64| {
            for round in 0..rounds {
                settle(&mut mean, 1000 + if round % 2 == 0 { half } else { 0 }, false);
            }
            mean.is_rough()
        };
        assert!(!roughness_of(12, 100), "within the tolerance of 15");
        assert!(roughness_of(100, 100));
        assert!(roughness_of(12, 100), "by less for a while");
        assert!(!roughness_of(2, 100));
    }

    #[test]
    fn what_rises_is_believed() {
        let mut mean = MeanRate::default();
        assert!((1..100).all(|round| settle(&mut mean, 100 * round, false) == 100 * round));
    }
}
