//! A node's side: the rules that it holds for servers.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::shedder::STEPS;
use crate::{ClassId, is_rate};

/// A rule that a node holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct HeldRule {
    /// What may pass, per second.
    pub rate: f64,
    /// Where the steps lead to when it has ended, per second.
    pub limit: f64,
    /// When it ends.
    pub expires: Duration,
}

/// Why a rule was not taken. Nothing has changed then.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    /// A rate is negative, not finite or beyond every link, or the rule's is above its limit.
    #[error("not a rate")]
    NotARate,
    /// It has ended already.
    #[error("expired")]
    Expired,
    /// It would last for longer than this node holds any.
    #[error("lasts for too long")]
    TooLong,
    /// There are as many as there may be.
    #[error("too many rules")]
    TooMany,
}

/// Rules as soft state: each ends unless it is set again, and not all at once.
///
/// A rule that has ended is relaxed in [`STEPS`] equal steps up to its limit, one every `step` (the seed's §4.4), for what it held
/// back may still be there while its server is gone; then it is forgotten. It is forgotten at once if less is [offered](Self::offered)
/// than it lets pass.
///
/// Nothing is to be called at certain times: what a rule lets pass is a function of the time that is asked for.
#[derive(Clone, Debug)]
pub struct Held {
    most: usize,
    longest: Duration,
    step: Duration,
    rules: BTreeMap<ClassId, HeldRule>,
}

impl Held {
    /// Holds so many rules at `most`, none for longer than `longest` from when it is set; steps take `step`.
    #[must_use]
    pub fn new(most: usize, longest: Duration, step: Duration) -> Self {
        Self { most, longest, step, rules: BTreeMap::new() }
    }

    /// Takes a rule, in place of one for the same class.
    ///
    /// # Errors
    /// If it is nonsense, or one too many.
    pub fn set(&mut self, class: ClassId, rule: HeldRule, now: Duration) -> Result<(), Refused> {
        if !is_rate(rule.rate) || !is_rate(rule.limit) || rule.rate > rule.limit {
            return Err(Refused::NotARate);
        }
        if rule.expires <= now {
            return Err(Refused::Expired);
        }
        if rule.expires - now > self.longest {
            return Err(Refused::TooLong);
        }
        if !self.rules.contains_key(&class) && self.rules.len() >= self.most {
            self.forget(now);
            if self.rules.len() >= self.most {
                return Err(Refused::TooMany);
            }
        }
        self.rules.insert(class, rule);
        Ok(())
    }

    /// Its server takes a rule back: it is gone at once.
    pub fn withdraw(&mut self, class: ClassId) {
        self.rules.remove(&class);
    }

    /// What may pass of a class, per second; everything if `None`.
    #[must_use]
    pub fn rate(&self, class: ClassId, now: Duration) -> Option<f64> {
        self.rules.get(&class)?.rate_at(now, self.step)
    }

    /// So much is offered of a class, per second. A rule that has ended is forgotten if that is less than it lets pass.
    pub fn offered(&mut self, class: ClassId, rate: f64, now: Duration) {
        let is_needless = |rule: &HeldRule| {
            rule.expires <= now && rule.rate_at(now, self.step).is_none_or(|may_pass| rate < may_pass)
        };
        if self.rules.get(&class).is_some_and(is_needless) {
            self.rules.remove(&class);
        }
    }

    /// All rules that still let pass no more than something, with what they let pass, by class.
    pub fn iter(&self, now: Duration) -> impl Iterator<Item = (ClassId, f64)> {
        self.rules.iter().filter_map(move |(&class, rule)| Some((class, rule.rate_at(now, self.step)?)))
    }

    /// When what [`iter`](Self::iter) yields will change by itself.
    #[must_use]
    pub fn next_change(&self, now: Duration) -> Option<Duration> {
        self.rules.values().filter_map(|rule| rule.next_change(now, self.step)).min()
    }

    /// Forgets what holds nothing back any more.
    pub fn forget(&mut self, now: Duration) {
        let step = self.step;
        self.rules.retain(|_, rule| rule.rate_at(now, step).is_some());
    }
}

impl HeldRule {
    fn rate_at(&self, now: Duration, step: Duration) -> Option<f64> {
        let steps = self.steps_at(now, step);
        let relaxed = self.rate + (self.limit - self.rate) * f64::from(steps) / f64::from(STEPS);
        (steps < STEPS).then_some(relaxed)
    }

    /// None before it ends, the first then, and all at once if they take no time.
    fn steps_at(&self, now: Duration, step: Duration) -> u32 {
        (0..STEPS).find(|&taken| now < self.end_of(taken, step)).unwrap_or(STEPS)
    }

    fn next_change(&self, now: Duration, step: Duration) -> Option<Duration> {
        (0..STEPS).map(|taken| self.end_of(taken, step)).find(|&end| end > now)
    }

    /// Until when so many steps have been taken.
    fn end_of(&self, taken: u32, step: Duration) -> Duration {
        self.expires.saturating_add(step.saturating_mul(taken))
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CLASS: ClassId = ClassId(1);

    fn seconds(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn held() -> Held {
        let mut held = Held::new(2, seconds(60.0), seconds(2.0));
        let rule = HeldRule { rate: 100.0, limit: 500.0, expires: seconds(10.0) };
        held.set(CLASS, rule, Duration::ZERO).unwrap();
        held
    }

    #[test]
    fn a_rule_ends_step_by_step() {
        let held = held();
        let rates = [0.0, 9.9, 10.0, 11.9, 12.0, 14.0, 15.9, 16.0].map(|at| held.rate(CLASS, seconds(at)));
        let expected =
            [Some(100.0), Some(100.0), Some(200.0), Some(200.0), Some(300.0), Some(400.0), Some(400.0)];
        assert_eq!(rates[..7], expected);
        assert_eq!(rates[7], None);
        let changes = [0.0, 10.0, 15.9, 16.0].map(|at| held.next_change(seconds(at)));
        assert_eq!(changes, [Some(seconds(10.0)), Some(seconds(12.0)), Some(seconds(16.0)), None]);
    }

    #[test]
    fn a_rule_that_is_set_again_goes_on() {
        let mut held = held();
        let rule = HeldRule { rate: 150.0, limit: 500.0, expires: seconds(20.0) };
        held.set(CLASS, rule, seconds(11.0)).unwrap();
        assert_eq!(held.rate(CLASS, seconds(19.0)), Some(150.0));
    }

    #[test]
    fn a_rule_that_has_ended_is_forgotten_once_less_is_offered() {
        let mut held = held();
        held.offered(CLASS, 50.0, seconds(9.0));
        assert_eq!(held.rate(CLASS, seconds(9.0)), Some(100.0), "its server will say when");
        held.offered(CLASS, 1000.0, seconds(11.0));
        assert_eq!(held.rate(CLASS, seconds(11.0)), Some(200.0), "it is still needed");
        held.offered(CLASS, 150.0, seconds(11.0));
        assert_eq!(held.rate(CLASS, seconds(11.0)), None);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut held = held();
        let good = HeldRule { rate: 1.0, limit: 2.0, expires: seconds(20.0) };
        let cases = [
            (HeldRule { rate: f64::NAN, ..good }, Refused::NotARate),
            (HeldRule { rate: -1.0, ..good }, Refused::NotARate),
            (HeldRule { limit: f64::INFINITY, ..good }, Refused::NotARate),
            (HeldRule { rate: 3.0, ..good }, Refused::NotARate),
            (HeldRule { expires: seconds(5.0), ..good }, Refused::Expired),
            (HeldRule { expires: seconds(65.1), ..good }, Refused::TooLong),
        ];
        for (rule, refused) in cases {
            assert_eq!(held.set(CLASS, rule, seconds(5.0)), Err(refused), "{rule:?}");
        }
        assert_eq!(held.rate(CLASS, seconds(5.0)), Some(100.0), "nothing has changed");
    }

    #[test]
    fn one_rule_too_many_is_refused_until_another_has_ended() {
        let mut held = held();
        let rule = HeldRule { rate: 1.0, limit: 2.0, expires: seconds(50.0) };
        held.set(ClassId(2), rule, Duration::ZERO).unwrap();
        assert_eq!(held.set(ClassId(3), rule, Duration::ZERO), Err(Refused::TooMany));
        held.set(ClassId(3), rule, seconds(16.0)).unwrap();
    }

    proptest! {
        /// Without its server a rule only ever lets more pass, and it does not last.
        #[test]
        fn what_is_left_alone_only_grows(
            rate in 0.0..1e9, more in 0.0..1e9, expires in 1u64..1000, step in 0u64..100, at in 0u64..2000,
        ) {
            let mut held = Held::new(1, Duration::MAX, Duration::from_secs(step));
            let rule = HeldRule { rate, limit: rate + more, expires: Duration::from_secs(expires) };
            held.set(CLASS, rule, Duration::ZERO).unwrap();
            let rate_at = |seconds| held.rate(CLASS, Duration::from_secs(seconds)).unwrap_or(f64::INFINITY);
            prop_assert!(rate_at(at) <= rate_at(at + 1));
            prop_assert!(rate_at(at) >= rate);
            prop_assert_eq!(rate_at(expires + u64::from(STEPS) * step), f64::INFINITY);
        }
    }
}
