//! Confidence intervals of shares and of quantiles.

use statrs::function::beta::{checked_beta_reg, inv_beta_reg};

/// Half of what a 95 % interval leaves out.
pub const TAIL: f64 = 0.025;

/// The 97.5 % quantile of the normal distribution.
pub const Z: f64 = 1.959_963_984_540_054;

/// The 95 % quantile of χ² with one degree of freedom: twice the fall of a log likelihood at the ends of its interval.
pub const CHI_SQUARE: f64 = Z * Z;

/// The interval of Clopper and Pearson (1934) for the rate behind `hits` of `trials`: the tails of the binomial distribution are
/// turned into those of a beta distribution. Covers in at least 95 %. No trials, or more hits than trials, tell nothing: (0, 1).
#[must_use]
pub fn clopper_pearson(hits: u64, trials: u64) -> (f64, f64) {
    if trials == 0 || hits > trials {
        return (0.0, 1.0);
    }
    let (hit, missed) = (hits as f64, (trials - hits) as f64);
    let low = if hits == 0 { 0.0 } else { inv_beta_reg(hit, missed + 1.0, TAIL) };
    let high = if hits == trials { 1.0 } else { inv_beta_reg(hit + 1.0, missed, 1.0 - TAIL) };
    (low, high)
}

/// The interval of Wilson (1927): the rates that a score test does not reject. Covers in 95 % on average, where that of Clopper and
/// Pearson covers in at least 95 %. Not all trials need be whole ones. No trials tell nothing: (0, 1).
#[must_use]
pub fn wilson(hits: f64, trials: f64) -> (f64, f64) {
    if trials <= 0.0 || !(0.0..=trials).contains(&hits) {
        return (0.0, 1.0);
    }
    let share = hits / trials;
    let scale = 1.0 + CHI_SQUARE / trials;
    let middle = (share + CHI_SQUARE / (2.0 * trials)) / scale;
    let half = Z / scale * (share * (1.0 - share) / trials + CHI_SQUARE / (4.0 * trials * trials)).sqrt();
    ((middle - half).max(0.0), (middle + half).min(1.0))
}

/// The chance of at least `hits` hits in `trials` at a rate.
#[must_use]
pub fn chance_of_at_least(hits: u64, trials: u64, rate: f64) -> f64 {
    if hits == 0 {
        return 1.0;
    }
    if hits > trials || rate <= 0.0 {
        return 0.0;
    }
    if rate >= 1.0 {
        return 1.0;
    }
    checked_beta_reg(hits as f64, (trials - hits + 1) as f64, rate).unwrap_or(0.0)
}

/// The ranks (from 0) of the ordered samples between which a quantile lies, each end with a chance of at most `tail` to be wrong,
/// whatever the distribution: the number of samples below the quantile is binomial. `None` where there are too few.
#[must_use]
pub fn quantile_ranks(samples: usize, quantile: f64, tail: f64) -> Option<(usize, usize)> {
    let total = samples as u64;
    // Fewer than `rank + 1` samples below the quantile: it lies below the sample of that rank.
    let below = |rank: usize| 1.0 - chance_of_at_least(rank as u64 + 1, total, quantile);
    let low = partition(samples, |rank| below(rank) <= tail).checked_sub(1)?;
    let high = partition(samples, |rank| chance_of_at_least(rank as u64 + 1, total, quantile) > tail);
    (high < samples).then_some((low, high))
}

/// The first rank for which a condition that holds up to there does not.
fn partition(end: usize, holds: impl Fn(usize) -> bool) -> usize {
    let (mut low, mut high) = (0, end);
    while low < high {
        let middle = low.midpoint(high);
        if holds(middle) { low = middle + 1 } else { high = middle }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(left: f64, right: f64) -> bool {
        (left - right).abs() < 1e-4
    }

    /// Values of R's `binom.test` and `prop.test(correct = FALSE)`.
    #[test]
    fn intervals_are_those_of_the_textbook() {
        let (low, high) = clopper_pearson(5, 100);
        assert!(close(low, 0.016_431_9) && close(high, 0.112_834_9), "{low} {high}");
        let (low, high) = wilson(5.0, 100.0);
        assert!(close(low, 0.021_543_7) && close(high, 0.111_750_5), "{low} {high}");
    }

    /// With no hits the upper end is 1 − 0.025^(1/n).
    #[test]
    fn ends_are_exact() {
        let (low, high) = clopper_pearson(0, 100);
        assert_eq!(low, 0.0);
        assert!(close(high, 1.0 - TAIL.powf(0.01)), "{high}");
        assert_eq!(clopper_pearson(7, 7).1, 1.0);
        let (low, high) = clopper_pearson(100_000, 1_000_000_000);
        assert!(low < 1e-4 && 1e-4 < high && high - low < 2e-6, "{low} {high}");
    }

    #[test]
    fn a_binomial_tail_is_a_sum() {
        let sum = |hits: u64| -> f64 {
            let choose =
                |n: u64, k: u64| (0..k).fold(1.0, |product, i| product * (n - i) as f64 / (i + 1) as f64);
            (hits..=10).map(|k| choose(10, k) * 0.3_f64.powf(k as f64) * 0.7_f64.powf((10 - k) as f64)).sum()
        };
        for hits in 0..=10 {
            let tail = chance_of_at_least(hits, 10, 0.3);
            assert!((tail - sum(hits)).abs() < 1e-9, "{hits}: {tail}");
        }
    }

    /// The textbook's interval of a median: of 20 samples, the 6th to the 15th.
    #[test]
    fn a_median_lies_between_ranks() {
        assert_eq!(quantile_ranks(20, 0.5, TAIL), Some((5, 14)));
        assert_eq!(quantile_ranks(5, 0.5, TAIL), None);
        assert_eq!(quantile_ranks(6, 0.5, TAIL), Some((0, 5)));
        assert_eq!(quantile_ranks(20, 0.95, TAIL), None);
    }
}
