//! The randomness of a link.

use std::f64::consts::TAU;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::config::Probability;

/// A seeded generator, and the draws that a link makes from it.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    rng: Pcg64Mcg,
}

impl Dice {
    /// Equal seeds throw equally.
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// Whether something of this chance happens. What is impossible draws nothing.
    pub(super) fn happens(&mut self, chance: Probability) -> bool {
        chance > Probability::ZERO && self.uniform() < chance.get()
    }

    /// Evenly from 0 up to, but without, 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 * f64::EPSILON / 2.0
    }

    /// Evenly from 0 up to, but without, `end`; 0 if that is 0. (The bias, of `end` in 2^64, is far below what any
    /// experiment can see.)
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.rng.next_u64()) * u128::from(end);
        u64::try_from(product >> u64::BITS).unwrap_or(0)
    }

    /// From the standard normal distribution, by the transformation of Box and Muller.
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }
}
