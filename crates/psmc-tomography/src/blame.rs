//! Who breaks the promise.
//!
//! A promise allows a share of packets to be bad: "0.5 % lost", or "5 % later than 60 ms", which is what a 95th percentile of 60 ms
//! says. So lost and late packets are judged alike, by a count of them.
//!
//! Where packets are counted or timed one by one, two things can be said of a segment, and both are of use:
//!
//! - *Suspected*: of the packets that were counted, more were bad than the promise allows. That is exact; but few packets can be bad
//!   by bad luck, also where the promise is kept on average. A second of traffic tells that much.
//! - *Proven*: so many were bad that a segment that keeps the promise has them in fewer than one of [`Promise::error`]⁻¹ counts. It
//!   is the exact binomial test, which knows nothing of how delays are distributed. Bursts of loss make it too sure: packets of a
//!   burst are not independent.
//!
//! A segment without a bad packet is neither, ever. What was inferred, by [stripes](crate::stripes) or from [shared](crate::shared)
//! segments, is named only if the interval of the estimate, widened to the same error, is beyond the limit: an inferred loss can be
//! that of another segment, where a counted one cannot.
//!
//! Every segment is judged by itself. So two that are bad at once are both named, and a witness that lies can have no segment named
//! but those that it is an end of.
//!
//! ```
//! use psmc_tomography::blame::{Promise, Verdict};
//! use psmc_tomography::counted::Count;
//!
//! let promise = Promise { share: 0.005, error: 1e-4 };
//! assert_eq!(promise.judge(Ok(Count::new(1000, 1000).unwrap())), Verdict::Kept);
//! assert!(matches!(promise.judge(Ok(Count::new(1000, 990).unwrap())), Verdict::Suspected { .. }));
//! assert!(matches!(promise.judge(Ok(Count::new(1000, 950).unwrap())), Verdict::Proven { .. }));
//! ```

use statrs::distribution::{ContinuousCDF, Normal};

use crate::counted::Count;
use crate::interval::{Z, chance_of_at_least};
use crate::{Answer, Unknown};

/// What a segment has to keep, and how sure a proof must be.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Promise {
    /// The share of packets that may be bad, 0 to 1.
    pub share: f64,
    /// The chance of a proof against a segment that keeps the promise, for each count that is judged.
    pub error: f64,
}

/// What is found of a segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Verdict {
    /// No more is bad than was allowed.
    Kept,
    /// More is bad than was allowed; it may be bad luck.
    Suspected {
        /// The chance that a segment that just keeps the promise is better than what was counted, 0 to 1.
        sure: f64,
    },
    /// More is bad than a segment that keeps the promise can have.
    Proven {
        /// As for those suspected, and at least 1 − [`Promise::error`].
        sure: f64,
    },
    /// It cannot be told.
    CannotBeTold(Unknown),
}

impl Verdict {
    /// Whether the segment is named as one at fault.
    #[must_use]
    pub fn is_blame(self) -> bool {
        match self {
            Self::Suspected { .. } | Self::Proven { .. } => true,
            Self::Kept | Self::CannotBeTold(_) => false,
        }
    }
}

impl Promise {
    /// Judges a segment by its packets that were lost, or late.
    #[must_use]
    pub fn judge(&self, bad: Result<Count, Unknown>) -> Verdict {
        match bad {
            Err(unknown) => Verdict::CannotBeTold(unknown),
            Ok(count) if count.sent() == 0 => Verdict::CannotBeTold(Unknown::TooFew { have: 0, need: 1 }),
            Ok(count) if count.share() <= self.share || count.lost() == 0 => Verdict::Kept,
            Ok(count) => self.verdict(chance_of_at_least(count.lost(), count.sent(), self.share)),
        }
    }

    /// Judges a segment by an estimate of what it has at most [`share`](Self::share) of, such as a loss that was inferred.
    ///
    /// The interval of the estimate is for 95 %; it is widened to [`error`](Self::error) by the ratio of the normal distribution's
    /// quantiles.
    #[must_use]
    pub fn judge_estimate(&self, estimate: Answer) -> Verdict {
        let estimate = match estimate {
            Ok(estimate) => estimate,
            Err(unknown) => return Verdict::CannotBeTold(unknown),
        };
        if estimate.high() <= self.share {
            return Verdict::Kept;
        }
        let half = estimate.value() - estimate.low();
        if estimate.value() <= self.share || half <= 0.0 {
            return Verdict::CannotBeTold(Unknown::TooNear);
        }
        let deviations = (estimate.value() - self.share) * Z / half;
        match self.verdict(Normal::standard().sf(deviations)) {
            Verdict::Suspected { .. } => Verdict::CannotBeTold(Unknown::TooNear),
            verdict @ (Verdict::Kept | Verdict::Proven { .. } | Verdict::CannotBeTold(_)) => verdict,
        }
    }

    /// The fewest segments and nodes without whose losses a chain as a whole would keep the promise; none, if it does.
    ///
    /// A promise of a path can be broken although each of its segments would keep it: those that lose most are accountable then.
    /// Whatever cannot be told counts as if it lost nothing, so that nobody is accountable for what another one might have lost.
    #[must_use]
    pub fn accountable(&self, parts: &[Result<Count, Unknown>]) -> Vec<usize> {
        let lost = |part: &usize| parts[*part].map_or(0, Count::lost);
        let sent = parts.iter().flatten().map(|count| count.sent()).max().unwrap_or(0);
        let allowed = self.share * sent as f64;
        let mut order: Vec<_> = (0..parts.len()).collect();
        order.sort_by_key(|part| std::cmp::Reverse(lost(part)));
        let mut left: f64 = order.iter().map(|part| lost(part) as f64).sum();
        let is_needed = |part: &usize| {
            let is_too_much = left > allowed;
            left -= lost(part) as f64;
            is_too_much
        };
        order.into_iter().take_while(is_needed).collect()
    }

    /// From the chance that a segment that keeps the promise does no better.
    fn verdict(&self, chance: f64) -> Verdict {
        let sure = 1.0 - chance;
        if chance <= self.error { Verdict::Proven { sure } } else { Verdict::Suspected { sure } }
    }
}

/// The places of those that are named, surest first.
#[must_use]
pub fn at_fault(verdicts: &[Verdict]) -> Vec<usize> {
    let sure = |verdict: Verdict| match verdict {
        Verdict::Suspected { sure } | Verdict::Proven { sure } => sure,
        Verdict::Kept | Verdict::CannotBeTold(_) => 0.0,
    };
    let mut named: Vec<_> = (0..verdicts.len()).filter(|&at| verdicts[at].is_blame()).collect();
    named.sort_by(|&left, &right| sure(verdicts[right]).total_cmp(&sure(verdicts[left])));
    named
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Estimate;

    const PROMISE: Promise = Promise { share: 0.005, error: 1e-4 };

    fn judge(sent: u64, lost: u64) -> Verdict {
        PROMISE.judge(Ok(Count::new(sent, sent - lost).unwrap()))
    }

    #[test]
    fn what_is_allowed_is_kept() {
        assert_eq!(judge(100, 0), Verdict::Kept);
        assert_eq!(judge(200, 1), Verdict::Kept);
        assert_eq!(judge(0, 0), Verdict::CannotBeTold(Unknown::TooFew { have: 0, need: 1 }));
        assert_eq!(PROMISE.judge(Err(Unknown::Silent(3))), Verdict::CannotBeTold(Unknown::Silent(3)));
    }

    /// P(at least 1 of 100 at 0.5 %) = 39.4 %; at least 6: 2.3 in 100,000.
    #[test]
    fn it_is_as_sure_as_the_binomial_distribution_says() {
        let Verdict::Suspected { sure } = judge(100, 1) else { panic!("{:?}", judge(100, 1)) };
        assert!((sure - 0.995_f64.powi(100)).abs() < 1e-9, "{sure}");
        assert!(matches!(judge(100, 5), Verdict::Suspected { .. }));
        assert!(matches!(judge(100, 6), Verdict::Proven { sure } if sure > 0.9999));
    }

    #[test]
    fn a_promise_of_nothing_lost_is_broken_by_the_first_one() {
        let promise = Promise { share: 0.0, error: 1e-4 };
        assert_eq!(promise.judge(Ok(Count::new(9, 9).unwrap())), Verdict::Kept);
        assert_eq!(promise.judge(Ok(Count::new(9, 8).unwrap())), Verdict::Proven { sure: 1.0 });
    }

    #[test]
    fn an_inferred_loss_is_named_only_far_beyond_the_limit() {
        let judge = |value, low, high| PROMISE.judge_estimate(Estimate::new(value, low, high));
        assert_eq!(judge(0.001, 0.0, 0.004), Verdict::Kept);
        assert_eq!(judge(0.002, 0.0, 0.01), Verdict::CannotBeTold(Unknown::TooNear));
        assert_eq!(judge(0.02, 0.01, 0.03), Verdict::CannotBeTold(Unknown::TooNear));
        assert!(matches!(judge(0.05, 0.03, 0.07), Verdict::Proven { .. }));
        let unknown = Err(Unknown::NotSeparable);
        assert_eq!(PROMISE.judge_estimate(unknown), Verdict::CannotBeTold(Unknown::NotSeparable));
    }

    #[test]
    fn segments_that_keep_the_promise_can_break_it_together() {
        let count = |lost: u64| Ok(Count::new(1000, 1000 - lost).unwrap());
        let accountable = |parts: &[_]| PROMISE.accountable(parts);
        assert_eq!(accountable(&[count(2), count(3)]), Vec::<usize>::new());
        assert_eq!(accountable(&[count(2), count(4), count(0)]), [1]);
        assert_eq!(accountable(&[count(20), count(1), count(30)]), [2, 0]);
        assert_eq!(accountable(&[count(2), Err(Unknown::Silent(1)), count(3)]), Vec::<usize>::new());
        assert_eq!(accountable(&[]), Vec::<usize>::new());
    }

    #[test]
    fn the_surest_comes_first() {
        let verdicts =
            [judge(100, 1), Verdict::Kept, judge(100, 9), Verdict::CannotBeTold(Unknown::Silent(0))];
        assert_eq!(at_fault(&verdicts), [2, 0]);
    }
}
