//! The share of stripes that reach a branch point, by maximum likelihood.

use crate::interval::{CHI_SQUARE, Z, boundary, chance_of_chi_square, weighted};
use crate::{Answer, Estimate, Unknown};

/// Stripes to a pair of receivers by where they arrived.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Cells {
    both: f64,
    left: f64,
    right: f64,
    none: f64,
}

/// The log likelihood of a share, its slope, and the information that there is about the share.
#[derive(Clone, Copy, Debug, Default)]
struct Profile {
    likelihood: f64,
    slope: f64,
    information: f64,
}

/// Golden sections: 0.62^60 is below what floating point tells apart here.
const STEPS: u32 = 60;

/// Rounds of EM at most. It gains a digit or more in each, as long as less than a tenth of all stripes is lost on the way to both
/// receivers; a profile that is not quite at its peak makes an interval a little narrower.
const ROUNDS: u32 = 200;

/// If pairs of receivers agree by less than this chance on what reaches a branch point, one of them does not tell the truth. It is the
/// test of likelihood ratios, for which no two pairs need have the same number of stripes.
const DISAGREEMENT: f64 = 1e-4;

/// EM ends when shares move by less.
const STILL: f64 = 1e-10;

impl Cells {
    pub(super) fn add(&mut self, arrived: [bool; 2]) {
        *match arrived {
            [true, true] => &mut self.both,
            [true, false] => &mut self.left,
            [false, true] => &mut self.right,
            [false, false] => &mut self.none,
        } += 1.0;
    }

    /// The share that reaches the branch point, by this pair alone: P(left) P(right) / P(both).
    fn alone(&self) -> f64 {
        let all = self.both + self.left + self.right + self.none;
        ((self.both + self.left) * (self.both + self.right) / (self.both * all)).min(1.0)
    }

    /// What these stripes say of a share that reaches the branch point, with the shares that pass from there to the receivers at
    /// their best. EM: the hidden quantity is how many of the stripes that arrived nowhere were at the branch point.
    fn profile(&self, reached: f64) -> Profile {
        let (mut left, mut right) = self.shares(0.0);
        for _ in 0..ROUNDS {
            let behind = reached * (1.0 - left) * (1.0 - right);
            let nowhere = 1.0 - reached + behind;
            let hidden = if nowhere > 0.0 { self.none * behind / nowhere } else { 0.0 };
            let next = self.shares(hidden);
            let moved = (next.0 - left).abs().max((next.1 - right).abs());
            (left, right) = next;
            if moved < STILL {
                break;
            }
        }
        self.profile_at(reached, left, right)
    }

    fn profile_at(&self, reached: f64, left: f64, right: f64) -> Profile {
        let seen = self.both + self.left + self.right;
        let neither = (1.0 - left) * (1.0 - right);
        let nowhere = 1.0 - reached + reached * neither;
        let likelihood = weighted(seen, reached)
            + weighted(self.both + self.left, left)
            + weighted(self.right, 1.0 - left)
            + weighted(self.both + self.right, right)
            + weighted(self.left, 1.0 - right)
            + weighted(self.none, nowhere);
        let lost = if self.none == 0.0 { 0.0 } else { self.none * (1.0 - neither) / nowhere };
        // The inverse of the asymptotic variance of P(left) P(right) / P(both), by the delta method.
        let variance = reached * (neither / (left * right) + 1.0 - reached);
        Profile { likelihood, slope: seen / reached - lost, information: (seen + self.none) / variance }
    }

    /// The shares that pass to the receivers, if `hidden` of the stripes that arrived nowhere were at the branch point.
    fn shares(&self, hidden: f64) -> (f64, f64) {
        let there = self.both + self.left + self.right + hidden;
        ((self.both + self.left) / there, (self.both + self.right) / there)
    }
}

/// The share of stripes that reach a branch point, from those to all pairs of receivers whose ways part there.
pub(super) fn reached(pairs: &[Cells]) -> Answer {
    let pairs: Vec<_> = pairs.iter().filter(|cells| cells.both > 0.0).collect();
    if pairs.is_empty() {
        return Err(Unknown::TooFew { have: 0, need: 1 });
    }
    let profile = |reached: f64| {
        pairs.iter().map(|cells| cells.profile(reached)).fold(Profile::default(), Profile::and)
    };
    let value = peak(|reached| profile(reached).likelihood);
    let most = profile(value).likelihood;
    let apart: f64 = pairs.iter().map(|cells| cells.profile(cells.alone()).likelihood).sum();
    if chance_of_chi_square(pairs.len() - 1, 2.0 * (apart - most)) < DISAGREEMENT {
        return Err(Unknown::PathsContradict);
    }
    let limit = most - CHI_SQUARE / 2.0;
    let is_likely = |reached: f64| profile(reached).likelihood >= limit;
    let low = boundary(0.0, value, |reached| profile(reached).score() <= Z);
    let high = if is_likely(1.0) { 1.0 } else { boundary(1.0, value, is_likely) };
    Estimate::new(value, low, high)
}

impl Profile {
    fn and(self, other: Self) -> Self {
        Self {
            likelihood: self.likelihood + other.likelihood,
            slope: self.slope + other.slope,
            information: self.information + other.information,
        }
    }

    /// Rao's statistic: how many standard deviations too low the share is.
    fn score(self) -> f64 {
        self.slope / self.information.sqrt()
    }
}

/// Where a function with one peak between 0 and 1 has it, by golden sections.
fn peak(function: impl Fn(f64) -> f64) -> f64 {
    const GOLDEN: f64 = 0.618_033_988_749_895;
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..STEPS {
        let (left, right) = (high - GOLDEN * (high - low), low + GOLDEN * (high - low));
        if function(left) < function(right) { low = left } else { high = right }
    }
    let middle = f64::midpoint(low, high);
    // A peak at the end is a loss of nothing.
    if function(1.0) >= function(middle) { 1.0 } else { middle }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// With one pair the peak has a closed form: P(left) P(right) / P(both), or 1 if that is more.
        #[test]
        fn the_peak_is_where_the_closed_form_has_it(
            both in 1_u32..500, left in 0_u32..100, right in 0_u32..100, none in 0_u32..100,
        ) {
            let [both, left, right, none] = [both, left, right, none].map(f64::from);
            let cells = Cells { both, left, right, none };
            let expected = (both + left) * (both + right) / (both * (both + left + right + none));
            let found = reached(&[cells]).unwrap();
            prop_assert!((found.value() - expected.min(1.0)).abs() < 1e-4, "{:?}, expected {}", found, expected);
        }
    }

    #[test]
    fn nothing_lost_is_one_sided() {
        let cells = Cells { both: 200.0, ..Cells::default() };
        let found = reached(&[cells]).unwrap();
        assert_eq!((found.value(), found.high()), (1.0, 1.0));
        // Wilson's end for no misses: n / (n + z²).
        assert!((found.low() - 200.0 / (200.0 + CHI_SQUARE)).abs() < 1e-6, "{found:?}");
    }
}
