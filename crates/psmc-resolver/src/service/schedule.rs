//! When to look for routes of a service.

use std::time::{Duration, Instant};

/// A name is in use for so long after it was asked for, or its service was reached.
const IN_USE: Duration = Duration::from_secs(3600);

/// Bounds of the time between two looks while the service is well: the TTL of the records, within these.
const PACE: (Duration, Duration) = (Duration::from_secs(1), Duration::from_secs(10));

/// The same while the service is in trouble and there are no routes: they are published at any moment.
const URGENT: Duration = Duration::from_millis(250);

/// For so long trouble is urgent. Then nobody publishes anything soon, or it is the client that has no network.
const URGENCY: Duration = Duration::from_secs(30);

/// The pace after that.
const PATIENT: Duration = Duration::from_secs(2);

/// The pace while no name server answers.
const FAILING: Duration = Duration::from_secs(1);

/// When a service was asked for, and when its routes were looked for.
#[derive(Clone, Debug, Default)]
pub(super) struct Schedule {
    asked: Option<Instant>,
    checked: Option<Instant>,
    pace: Duration,
    is_failing: bool,
    trouble_since: Option<Instant>,
}

/// How the service does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Situation {
    /// Whether psmcd has a path to it that can carry data.
    pub(super) is_reached: bool,
    /// Whether the direct paths are not well, and no routes are known.
    pub(super) is_in_trouble: bool,
}

impl Schedule {
    /// Somebody asks for the name.
    pub(super) fn asked(&mut self, now: Instant) {
        self.asked = Some(now);
    }

    /// Whether somebody has asked for it lately.
    pub(super) fn is_in_use(&self, now: Instant) -> bool {
        self.asked.is_some_and(|asked| now < asked + IN_USE)
    }

    /// Routes were looked for: with their TTL in seconds, or `None` if no name server answered.
    pub(super) fn checked(&mut self, now: Instant, ttl: Option<u32>) {
        let (least, most) = PACE;
        self.checked = Some(now);
        self.is_failing = ttl.is_none();
        self.pace = ttl.map_or(FAILING, |ttl| Duration::from_secs(ttl.into()).clamp(least, most));
    }

    /// Whether the last look has failed, so that the next one is not waited for.
    pub(super) fn is_failing(&self) -> bool {
        self.is_failing
    }

    /// Whether what was found counts still.
    pub(super) fn is_fresh(&self, now: Instant) -> bool {
        self.checked.is_some_and(|checked| now < checked + self.pace)
    }

    /// When to look again; `None` while nobody uses the name.
    pub(super) fn due(&mut self, now: Instant, situation: Situation) -> Option<Instant> {
        self.trouble_since = situation.is_in_trouble.then(|| self.trouble_since.unwrap_or(now));
        if situation.is_reached {
            // Whoever has a connection does not ask again, least of all when it breaks.
            self.asked = Some(now);
        }
        if !self.is_in_use(now) {
            return None;
        }
        let Some(checked) = self.checked else { return Some(now) };
        let pace = match self.trouble_since {
            Some(since) if now < since + URGENCY => URGENT,
            Some(_) => self.pace.min(PATIENT),
            None => self.pace,
        };
        Some(checked + pace)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WELL: Situation = Situation { is_reached: true, is_in_trouble: false };
    const AWAY: Situation = Situation { is_reached: false, is_in_trouble: false };
    const TROUBLE: Situation = Situation { is_reached: false, is_in_trouble: true };

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn names_that_nobody_uses_are_left_alone() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        assert_eq!(schedule.due(now, AWAY), None);
        assert_eq!(schedule.due(now, WELL), Some(now));
        schedule.asked(now);
        assert_eq!(schedule.due(now, AWAY), Some(now));
        schedule.checked(now, Some(60));
        assert_eq!(schedule.due(now, AWAY), Some(now + seconds(10)));
        assert!(schedule.is_fresh(now + seconds(9)) && !schedule.is_fresh(now + seconds(10)));
        assert_eq!(schedule.due(now + IN_USE, AWAY), None);
        schedule.due(now + IN_USE, WELL);
        assert!(schedule.due(now + IN_USE + seconds(1), AWAY).is_some(), "what was reached is in use");
    }

    #[test]
    fn the_ttl_sets_the_pace_within_bounds_and_failure_has_its_own() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        for (ttl, pace) in [(Some(0), 1), (Some(5), 5), (Some(3600), 10), (None, 1)] {
            schedule.checked(now, ttl);
            assert_eq!(schedule.due(now, WELL), Some(now + seconds(pace)), "{ttl:?}");
            assert_eq!(schedule.is_failing(), ttl.is_none());
        }
    }

    #[test]
    fn trouble_is_urgent_and_in_the_end_less_so() {
        let (mut schedule, now) = (Schedule::default(), Instant::now());
        schedule.asked(now);
        schedule.checked(now, Some(10));
        assert_eq!(schedule.due(now, TROUBLE), Some(now + URGENT));
        let late = now + URGENCY;
        schedule.checked(late, Some(10));
        assert_eq!(schedule.due(late, TROUBLE), Some(late + PATIENT));
        assert_eq!(schedule.due(late, AWAY), Some(late + seconds(10)));
        assert_eq!(schedule.due(late, TROUBLE), Some(late + URGENT), "it is new trouble");
    }
}
