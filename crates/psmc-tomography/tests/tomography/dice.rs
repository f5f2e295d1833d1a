//! Chance, seeded.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A generator. Equal seeds throw equally.
pub(crate) struct Dice(Pcg64Mcg);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg64Mcg::seed_from_u64(seed))
    }

    /// Evenly from 0 up to, but without, 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.0.next_u64() >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 * f64::EPSILON / 2.0
    }

    /// Whether something of this chance happens.
    pub(crate) fn happens(&mut self, chance: f64) -> bool {
        self.uniform() < chance
    }

    /// How often something of this chance happens in so many trials.
    pub(crate) fn hits(&mut self, trials: u64, chance: f64) -> u64 {
        (0..trials).filter(|_| self.happens(chance)).count() as u64
    }

    /// Evenly from 0 up to, but without, `end`.
    pub(crate) fn below(&mut self, end: i64) -> i64 {
        ((i128::from(self.0.next_u64()) * i128::from(end)) >> u64::BITS) as i64
    }

    /// A time of this mean, in whole units.
    pub(crate) fn exponential(&mut self, mean: f64) -> i64 {
        #[expect(clippy::cast_possible_truncation, reason = "some means at most")]
        let time = (-mean * (1.0 - self.uniform()).ln()) as i64;
        time
    }
}
