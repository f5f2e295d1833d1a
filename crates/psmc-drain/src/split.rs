//! A rate divided among nodes.

/// A max–min fair division of a rate: nobody gets more than the level unless nobody else wants it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Level {
    /// The most that anybody gets; infinite if everybody gets what it wants.
    pub level: f64,
    /// The sum of what is wanted.
    pub wanted: f64,
}

impl Level {
    /// Whether more is wanted than there is.
    #[must_use]
    pub fn is_short(self) -> bool {
        self.level.is_finite()
    }

    /// What somebody gets who wants so much.
    #[must_use]
    pub fn share(self, demand: f64) -> f64 {
        demand.min(self.level)
    }
}

/// Divides a rate max–min fairly (Bertsekas and Gallager, *Data Networks*, §6.5.2, for one link): the level at which the sum of
/// min(demand, level) is the rate. O(n log n).
///
/// Demands must be [rates](crate::is_rate).
#[must_use]
pub fn max_min(rate: f64, demands: &[f64]) -> Level {
    let wanted = demands.iter().sum();
    if wanted <= rate {
        return Level { level: f64::INFINITY, wanted };
    }
    let mut sorted = demands.to_vec();
    sorted.sort_by(f64::total_cmp);
    let mut left = rate;
    let mut level = 0.0;
    for (place, &demand) in sorted.iter().enumerate() {
        level = left / (sorted.len() - place) as f64;
        if demand >= level {
            break;
        }
        left -= demand;
    }
    Level { level, wanted }
}

/// What each node may let pass of a rate, by what it is offered.
///
/// Where more is offered than the rate, the level of [`max_min`] for who is offered that or more; the others may have
/// `headroom` of an equal share of the rate more than they are offered, so that what grows passes until the next division. Where less is
/// offered, everybody also gets an equal part of what is left. The sum is never above (1 + headroom) times the rate, for who is offered
/// less than the level passes less than its throttle.
///
/// What is `beyond` control, for it comes by no node, counts as somebody who wants it and cannot be throttled.
#[must_use]
pub fn throttles(rate: f64, demands: &[f64], beyond: f64, headroom: f64) -> Vec<f64> {
    let all: Vec<f64> = demands.iter().copied().chain([beyond]).collect();
    let level = max_min(rate, &all);
    let count = demands.len().max(1) as f64;
    let spare = (rate - level.wanted).max(0.0) / count + headroom * rate / count;
    demands.iter().map(|demand| (demand + spare).min(level.level)).collect()
}

/// What each node may let pass as the seed has it (§4.3): k · rate · share, by each node's share of all that arrives *after* drops.
///
/// Any division of the rate is a fixed point of this: whoever is throttled to a share arrives with that share. It follows demand
/// only as far as k is above 1 or as throttled nodes pass less than they may. If nothing arrives nobody gets anything.
#[must_use]
pub fn k_scaling(rate: f64, arrivals: &[f64], k: f64) -> Vec<f64> {
    let total: f64 = arrivals.iter().sum();
    let share = |arrived: f64| if total > 0.0 { arrived / total } else { 0.0 };
    arrivals.iter().map(|&arrived| (k * rate * share(arrived)).max(0.0).min(rate)).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_small_ones_leave_goes_to_the_others() {
        let level = max_min(100.0, &[10.0, 80.0, 70.0]);
        assert_eq!([10.0, 80.0, 70.0].map(|demand| level.share(demand)), [10.0, 45.0, 45.0]);
        assert!(level.is_short());
    }

    #[test]
    fn nobody_is_throttled_where_there_is_enough() {
        let level = max_min(100.0, &[30.0, 70.0]);
        assert_eq!((level.is_short(), level.share(70.0)), (false, 70.0));
        assert_eq!(throttles(100.0, &[20.0, 40.0], 0.0, 0.0), [40.0, 60.0]);
    }

    #[test]
    fn what_is_beyond_control_takes_its_share_first() {
        assert_eq!(throttles(100.0, &[90.0, 90.0], 20.0, 0.0), [40.0, 40.0]);
        assert_eq!(throttles(90.0, &[90.0, 90.0], 500.0, 0.0), [30.0, 30.0], "no more than fair");
    }

    #[test]
    fn the_seeds_division_keeps_any_shares() {
        let mut passed = vec![10.0, 390.0];
        for _ in 0..50 {
            passed = k_scaling(400.0, &passed, 1.0);
        }
        assert_eq!(passed, [10.0, 390.0], "though both are offered 1000");
        assert_eq!(k_scaling(400.0, &[0.0, 0.0], 1.2), [0.0, 0.0]);
    }

    proptest! {
        #[test]
        fn a_level_uses_the_rate_up(rate in 0.0..1e9, demands in proptest::collection::vec(0.0..1e9, 1..40)) {
            let level = max_min(rate, &demands);
            let used: f64 = demands.iter().map(|&demand| level.share(demand)).sum();
            let expected = rate.min(demands.iter().sum());
            prop_assert!((used - expected).abs() <= 1e-9 * (1.0 + expected), "{used} of {expected}");
        }

        #[test]
        fn throttles_are_no_more_than_the_headroom_above_the_rate(
            rate in 0.0..1e9,
            demands in proptest::collection::vec(0.0..1e9, 1..40),
            beyond in 0.0..1e9,
            headroom in 0.0..0.5,
        ) {
            let throttles = throttles(rate, &demands, beyond, headroom);
            prop_assert!(throttles.iter().sum::<f64>() <= rate * (1.0 + headroom) * (1.0 + 1e-9));
        }
    }
}
