//! Chance, seeded.

use std::time::Duration;

use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::{Rng, SeedableRng};

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

    pub(crate) fn below(&mut self, end: usize) -> usize {
        let product = u128::from(self.0.next_u64()) * end as u128;
        usize::try_from(product >> u64::BITS).unwrap_or(0)
    }

    /// Whether something of this chance happens.
    pub(crate) fn happens(&mut self, chance: f64) -> bool {
        self.uniform() < chance
    }

    /// A time of this mean, exponentially distributed: a gap of a Poisson process.
    pub(crate) fn exponential(&mut self, mean: Duration) -> Duration {
        mean.mul_f64(-(1.0 - self.uniform()).ln())
    }

    pub(crate) fn shuffle<T>(&mut self, all: &mut [T]) {
        for place in (1..all.len()).rev() {
            all.swap(place, self.below(place + 1));
        }
    }
}
