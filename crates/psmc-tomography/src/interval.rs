//! Confidence intervals of shares and of quantiles.

use statrs::function::beta::{checked_beta_reg, inv_beta_reg};
use statrs::function::gamma::checked_gamma_ur;

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

/// An interval that covers in 95 % where hits and misses are many, and in no less where they are few: Wilson's end on the side of ½,
/// and that of the likelihood ratio on the side of the nearer one of 0 and 1.
///
/// Wilson's other end is too near where a hit or two are expected (92 % of coverage at 0.5 % of 200), and so is the likelihood ratio's
/// other end (85 % at 1 % of 200). No trials tell nothing: (0, 1).
#[must_use]
pub fn of_rate(hits: u64, trials: u64) -> (f64, f64) {
    let (hit, all) = (hits as f64, trials as f64);
    let (low, high) = wilson(hit, all);
    if trials == 0 || hits > trials {
        return (low, high);
    }
    let share = hit / all;
    let fall = |rate: f64| weighted(hit, share / rate) + weighted(all - hit, (1.0 - share) / (1.0 - rate));
    let is_likely = |rate: f64| 2.0 * fall(rate) <= CHI_SQUARE;
    if share < 0.5 { (boundary(0.0, share, is_likely), high) } else { (low, boundary(1.0, share, is_likely)) }
}

/// Between a place where something does not hold and one where it does, the last one where it does.
pub(crate) fn boundary(outside: f64, inside: f64, holds: impl Fn(f64) -> bool) -> f64 {
    /// Halves: 2^-60 is below what floating point tells apart between 0 and 1.
    const STEPS: u32 = 60;
    let (mut outside, mut inside) = (outside, inside);
    for _ in 0..STEPS {
        let middle = f64::midpoint(outside, inside);
        if holds(middle) { inside = middle } else { outside = middle }
    }
    inside
}

/// `count × ln(number)`, where nothing of nothing is 0.
pub(crate) fn weighted(count: f64, number: f64) -> f64 {
    if count == 0.0 { 0.0 } else { count * number.ln() }
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

/// The chance that a sum of so many squares of independent normal deviations is as large: the tail of χ².
pub(crate) fn chance_of_chi_square(freedom: usize, sum: f64) -> f64 {
    if freedom == 0 || sum <= 0.0 {
        return 1.0;
    }
    // Far out the tail is 0, of which the library says that it cannot tell it.
    checked_gamma_ur(freedom as f64 / 2.0, sum / 2.0).unwrap_or(0.0)
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

    /// Coverage is a sum over all outcomes, without any chance.
    #[test]
    fn a_rate_is_covered_whatever_it_is() {
        for trials in [150, 200, 1000] {
            for rate in [0.0025, 0.005, 0.01, 0.02, 0.05, 0.1, 0.3, 0.5, 0.9, 0.99] {
                let chance = |hits| {
                    chance_of_at_least(hits, trials, rate) - chance_of_at_least(hits + 1, trials, rate)
                };
                let covers = |&hits: &u64| {
                    let (low, high) = of_rate(hits, trials);
                    (low..=high).contains(&rate)
                };
                let coverage: f64 = (0..=trials).filter(covers).map(chance).sum();
                let is_many = trials as f64 * rate.min(1.0 - rate) >= 10.0;
                assert!(coverage > 0.94 && (coverage < 0.97 || !is_many), "{coverage} at {rate} of {trials}");
            }
        }
        assert_eq!(of_rate(0, 0), (0.0, 1.0));
        assert_eq!(of_rate(0, 10).0, 0.0);
        assert_eq!(of_rate(10, 10).1, 1.0);
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

    #[test]
    fn a_tail_of_chi_square_is_that_of_the_table() {
        for (freedom, sum) in [(1, 3.841_459), (2, 5.991_465), (10, 18.307_038)] {
            assert!(close(chance_of_chi_square(freedom, sum), 0.05));
        }
        assert_eq!((chance_of_chi_square(0, 9.0), chance_of_chi_square(3, 0.0)), (1.0, 1.0));
        assert!(chance_of_chi_square(3, 1e9) < 1e-300);
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
