//! Chance, seeded.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

/// A generator, and the draws that searches and topologies make from it. Equal seeds throw equally.
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

    /// Evenly from 0 up to, but without, `end`; 0 if that is 0. (The bias, of `end` in 2^64, is far below what can be seen.)
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let product = u128::from(self.0.next_u64()) * end as u128;
        usize::try_from(product >> u64::BITS).unwrap_or(0)
    }

    /// Evenly from one bound up to the other.
    pub(crate) fn between(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * self.uniform()
    }

    /// `count` different ones of `all`, or all of them, in any order.
    pub(crate) fn sample<T: Copy>(&mut self, all: &[T], count: usize) -> Vec<T> {
        let mut all = all.to_vec();
        let count = count.min(all.len());
        for place in 0..count {
            let other = place + self.below(all.len() - place);
            all.swap(place, other);
        }
        all.truncate(count);
        all
    }
}
