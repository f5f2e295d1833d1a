//! Statistics of what was measured, with the room that chance leaves.

use serde::Serialize;

/// Of 99 % of a normal distribution: how many standard deviations its middle is wide to either side. Among a dozen
/// intervals of 95 % one would most likely miss.
const Z: f64 = 2.576;

/// A value as measured, and from where to where the true one is with a confidence of 99 %.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Estimate {
    /// What was measured.
    pub measured: f64,
    /// The lower end.
    pub low: f64,
    /// The upper end.
    pub high: f64,
}

impl Estimate {
    /// Whether a value may be the true one.
    #[must_use]
    pub fn allows(&self, value: f64) -> bool {
        (self.low..=self.high).contains(&value)
    }

    /// The mean of independent samples.
    pub(super) fn of_mean(samples: &[f64]) -> Self {
        let spread = deviation(samples) / count(samples).sqrt();
        Self::around(mean(samples), spread)
    }

    /// The standard deviation of independent samples of a normal distribution, for many samples.
    pub(super) fn of_deviation(samples: &[f64]) -> Self {
        let deviation = deviation(samples);
        Self::around(deviation, deviation / (2.0 * count(samples)).sqrt())
    }

    /// The share of `hits` among `count` trials that were independent (Wilson 1927).
    pub(super) fn of_share(hits: usize, count: usize) -> Self {
        let (n, share) = (count.max(1) as f64, hits as f64 / count.max(1) as f64);
        let (squared, scale) = (Z * Z, 1.0 + Z * Z / n);
        let center = (share + squared / (2.0 * n)) / scale;
        let width = Z / scale * (share * (1.0 - share) / n + squared / (4.0 * n * n)).sqrt();
        Self { measured: share, low: center - width, high: center + width }
    }

    /// The share among trials whose outcomes hang together: one is correlated with the next by `correlation`, with the
    /// one after by its square, and so on, as in a Markov chain of two states.
    pub(super) fn of_chained_share(hits: usize, count: usize, correlation: f64) -> Self {
        let (n, share) = (count.max(1) as f64, hits as f64 / count.max(1) as f64);
        let variance = share * (1.0 - share) / n * (1.0 + correlation) / (1.0 - correlation);
        Self::around(share, variance.sqrt())
    }

    fn around(measured: f64, deviation: f64) -> Self {
        Self { measured, low: measured - Z * deviation, high: measured + Z * deviation }
    }
}

/// The value below which the share `q` of the sorted samples lies; zero without any.
pub(super) fn quantile(sorted: &[f64], q: f64) -> f64 {
    #[expect(clippy::cast_possible_truncation, reason = "the share of a number of samples is one")]
    let rank = (sorted.len() as f64 * q).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied().unwrap_or(0.0)
}

fn mean(samples: &[f64]) -> f64 {
    samples.iter().sum::<f64>() / count(samples)
}

fn deviation(samples: &[f64]) -> f64 {
    let mean = mean(samples);
    let squares: f64 = samples.iter().map(|sample| (sample - mean).powi(2)).sum();
    (squares / (count(samples) - 1.0).max(1.0)).sqrt()
}

fn count(samples: &[f64]) -> f64 {
    samples.len().max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_samples() {
        let sorted: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!([0.0, 0.5, 0.99, 1.0].map(|q| quantile(&sorted, q)), [1.0, 50.0, 99.0, 100.0]);
        assert_eq!(quantile(&[], 0.5), 0.0);
    }

    #[test]
    fn a_mean_and_a_deviation_lie_within_their_intervals() {
        let samples = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
        let (mean, deviation) = (Estimate::of_mean(&samples), Estimate::of_deviation(&samples));
        assert_eq!(mean.measured, 5.0);
        assert!((deviation.measured - (32.0_f64 / 7.0).sqrt()).abs() < 1e-12);
        assert!(mean.allows(6.0) && !mean.allows(8.0));
        assert!(deviation.allows(2.0) && !deviation.allows(4.0));
    }

    #[test]
    fn a_share_of_none_leaves_room_for_a_few() {
        let none = Estimate::of_share(0, 1000);
        assert!(none.allows(0.005) && !none.allows(0.01));
        assert!(Estimate::of_share(0, 0).allows(0.5));
    }

    #[test]
    fn what_hangs_together_says_less() {
        let (alone, chained) = (Estimate::of_share(100, 1000), Estimate::of_chained_share(100, 1000, 0.5));
        assert!(chained.high - chained.low > 1.5 * (alone.high - alone.low));
        let independent = Estimate::of_chained_share(100, 1000, 0.0);
        assert!((independent.low - 0.1 + 2.576 * (0.09_f64 / 1000.0).sqrt()).abs() < 1e-12);
    }
}
