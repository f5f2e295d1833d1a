//! Random times and sizes.

use std::time::Duration;

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

/// From 0 up to, but without, 1.
pub(crate) fn uniform(rng: &mut Pcg64Mcg) -> f64 {
    // 53 bits are what a floating-point number holds.
    (rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64
}

/// Exponentially distributed.
pub(super) fn exponential(mean: f64, rng: &mut Pcg64Mcg) -> f64 {
    // 1 - x is never 0.
    -(1.0 - uniform(rng)).ln() * mean
}

/// The time to the next of random events that are so far apart on average: exponentially distributed.
pub(super) fn pause(mean: Duration, rng: &mut Pcg64Mcg) -> Duration {
    Duration::try_from_secs_f64(exponential(mean.as_secs_f64(), rng)).unwrap_or(Duration::MAX)
}

/// With the tail of a Pareto distribution that begins at 0 (Pareto II), of this mean; `shape` is above 1.
pub(super) fn pareto(mean: f64, shape: f64, rng: &mut Pcg64Mcg) -> f64 {
    let scale = mean * (shape - 1.0);
    scale * ((1.0 - uniform(rng)).powf(-1.0 / shape) - 1.0)
}

/// A number of bytes: at least one.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a size is positive; casts saturate"
)]
pub(super) fn bytes(size: f64) -> u64 {
    size.max(1.0) as u64
}

#[cfg(test)]
mod tests {
    use rand_core::SeedableRng;

    use super::*;

    #[test]
    fn means_and_tails_are_as_asked_for() {
        let mut rng = Pcg64Mcg::seed_from_u64(1);
        let mut of =
            |draw: fn(&mut Pcg64Mcg) -> f64| (0..200_000).map(|_| draw(&mut rng)).collect::<Vec<_>>();
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len() as f64;
        let exponential = of(|rng| exponential(3.0, rng));
        assert!((mean(&exponential) / 3.0 - 1.0).abs() < 0.02);
        let pareto = of(|rng| pareto(10.0, 3.0, rng));
        assert!((mean(&pareto) / 10.0 - 1.0).abs() < 0.03, "{}", mean(&pareto));
        // The chance of more than x is (1 + x / scale)^-shape, here with a scale of 20: an eighth beyond it.
        let beyond = pareto.iter().filter(|&&value| value > 20.0).count() as f64 / 200_000.0;
        assert!((beyond - 0.125).abs() < 0.005, "{beyond}");
    }
}
