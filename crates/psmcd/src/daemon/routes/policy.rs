//! Which paths carry the data, and whether there are paths over learned routes at all.
//!
//! ```text
//!            none of the direct paths is well, and a learned one works
//!   direct ────────────────────────────────────────────────────────────▶ learned
//!          ◀────────────────────────────────────────────────────────────
//!            a direct one was as good as before for 6 s or longer, or no learned one works
//! ```

use std::time::{Duration, Instant};

use super::health::Health;
use crate::config::RoutePolicy;

/// Direct paths that were as good as before for so long are used again. Learned routes count until they are withdrawn or
/// expire, and as long as they do there is little to be won by an early return: a flood that ebbs and flows does not have
/// the data follow it. Once they don't count there are no other paths, and nothing to be waited for.
const RETURN_AFTER: Duration = Duration::from_secs(6);

/// Each time that they turn out not to be well after all it is twice as long, up to this.
const MAX_RETURN_AFTER: Duration = Duration::from_secs(120);

/// Direct paths that have carried the data for so long are well; whatever happens to them then has nothing to do with it.
const PROVEN_AFTER: Duration = Duration::from_secs(10);

/// With `on-failure`, learned paths that have not been needed for so long are dropped.
const DROP_AFTER: Duration = Duration::from_secs(30);

/// Which paths carry the data; the others stand by.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::daemon) enum Way {
    /// Those of the configuration, those added by hand, and those that the peer leads here straight.
    #[default]
    Direct,
    /// Those over learned routes.
    Learned,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::daemon) struct Plan {
    /// Whether there are to be paths over learned routes.
    pub(in crate::daemon) set_up: bool,
    /// Which paths carry the data.
    pub(in crate::daemon) way: Way,
}

/// How the paths to a peer are.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// The best of the direct paths.
    pub(super) direct: Health,
    /// Whether one of them was as good as before for as long as [`Judge::return_after`] says.
    pub(super) is_proven: bool,
    /// Whether a path over a learned route works.
    pub(super) learned_works: bool,
}

/// Decides by what is seen from time to time.
#[derive(Clone, Debug)]
pub(super) struct Judge {
    plan: Plan,
    /// Since when the direct paths are well.
    well_since: Option<Instant>,
    /// Since when they carry the data again.
    returned: Option<Instant>,
    /// How long they must be as good as before until they do.
    return_after: Duration,
}

impl Default for Judge {
    fn default() -> Self {
        Self { plan: Plan::default(), well_since: None, returned: None, return_after: RETURN_AFTER }
    }
}

impl Judge {
    /// What to do, by the policy and what is seen `now`.
    pub(super) fn look(&mut self, policy: RoutePolicy, seen: Seen, now: Instant) -> Plan {
        if seen.direct == Health::Well {
            self.well_since.get_or_insert(now);
        } else {
            self.well_since = None;
        }
        let before = self.plan.way;
        self.plan = match policy {
            RoutePolicy::PreferIndirect => Plan { set_up: true, way: indirect(seen) },
            RoutePolicy::PreferDirect => Plan { set_up: true, way: self.direct(seen) },
            RoutePolicy::OnFailure => Plan { set_up: self.is_needed(seen, now), way: self.direct(seen) },
        };
        self.note_change(before, seen, now);
        self.plan
    }

    /// How long direct paths must be as good as before until they carry the data again.
    pub(super) fn return_after(&self) -> Duration {
        self.return_after
    }

    /// Remembers whether a return to the direct paths was too early.
    fn note_change(&mut self, before: Way, seen: Seen, now: Instant) {
        match (before, self.plan.way) {
            (Way::Learned, Way::Direct) => {
                self.returned = is_good_again(seen).then_some(now);
            }
            (Way::Direct, Way::Learned) => {
                let too_early = self.returned.is_some_and(|at| now < at + PROVEN_AFTER);
                let longer = (self.return_after * 2).min(MAX_RETURN_AFTER);
                self.return_after = if too_early { longer } else { RETURN_AFTER };
            }
            (Way::Direct, Way::Direct) | (Way::Learned, Way::Learned) => {}
        }
    }

    /// What was decided last.
    pub(super) fn plan(&self) -> Plan {
        self.plan
    }

    fn direct(&self, seen: Seen) -> Way {
        let leaves = match self.plan.way {
            Way::Direct => seen.direct == Health::Ill,
            Way::Learned => !is_good_again(seen),
        };
        if leaves { indirect(seen) } else { Way::Direct }
    }

    fn is_needed(&self, seen: Seen, now: Instant) -> bool {
        let is_used = self.plan.way == Way::Learned || !self.was_well_for(DROP_AFTER, now);
        seen.direct == Health::Ill || (self.plan.set_up && is_used)
    }

    fn was_well_for(&self, time: Duration, now: Instant) -> bool {
        self.well_since.is_some_and(|since| since + time <= now)
    }
}

fn is_good_again(seen: Seen) -> bool {
    seen.direct == Health::Well && seen.is_proven
}

fn indirect(seen: Seen) -> Way {
    if seen.learned_works { Way::Learned } else { Way::Direct }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is decided, look by look: from a number of milliseconds on, things are so.
    fn decided(policy: RoutePolicy, story: &[(u64, Health, bool)], until: u64) -> Vec<(u64, Plan)> {
        let (mut judge, start) = (Judge::default(), Instant::now());
        let mut changes: Vec<(u64, Plan)> = Vec::new();
        let mut well_since = None;
        for ms in (0..=until).step_by(100) {
            let &(_, direct, learned_works) =
                story.iter().rev().find(|(from, ..)| *from <= ms).expect("the story begins at 0");
            well_since = well_since.or(Some(ms)).filter(|_| direct == Health::Well);
            let proven_after = u64::try_from(judge.return_after().as_millis()).unwrap();
            let is_proven = well_since.is_some_and(|since| since + proven_after <= ms);
            let seen = Seen { direct, is_proven, learned_works };
            let plan = judge.look(policy, seen, start + Duration::from_millis(ms));
            if changes.last().is_none_or(|(_, last)| *last != plan) {
                changes.push((ms, plan));
            }
        }
        changes
    }

    const DIRECT: Plan = Plan { set_up: true, way: Way::Direct };
    const LEARNED: Plan = Plan { set_up: true, way: Way::Learned };
    const NONE: Plan = Plan { set_up: false, way: Way::Direct };

    #[test]
    fn the_direct_way_is_left_when_it_is_ill_and_taken_again_when_it_is_proven() {
        let story = [
            (0, Health::Well, true),
            (1000, Health::Doubtful, true),
            (1300, Health::Ill, true),
            (5000, Health::Well, true),
        ];
        assert_eq!(
            decided(RoutePolicy::PreferDirect, &story, 20_000),
            [(0, DIRECT), (1300, LEARNED), (11_000, DIRECT)]
        );
    }

    #[test]
    fn a_way_that_is_well_for_moments_is_not_taken_again() {
        let mut story = vec![(0, Health::Ill, true)];
        for second in 1..10 {
            story
                .extend([(second * 1000, Health::Well, true), (second * 1000 + 900, Health::Doubtful, true)]);
        }
        assert_eq!(decided(RoutePolicy::PreferDirect, &story, 9900), [(0, LEARNED)]);
    }

    #[test]
    fn who_returns_too_early_waits_longer_the_next_time() {
        let story = [
            (0, Health::Ill, true),
            (1000, Health::Well, true),
            (12_000, Health::Ill, true),
            (13_000, Health::Well, true),
            (34_000, Health::Ill, true),
            (35_000, Health::Well, true),
            (90_000, Health::Ill, true),
            (91_000, Health::Well, true),
        ];
        let changes = decided(RoutePolicy::PreferDirect, &story, 120_000);
        let returns: Vec<_> = changes.iter().filter(|(_, plan)| *plan == DIRECT).map(|(at, _)| *at).collect();
        assert_eq!(
            returns,
            [7000, 25_000, 59_000, 97_000],
            "after 6, 12 and 24 s, and 6 s once it had proved well"
        );
    }

    #[test]
    fn there_is_no_way_but_the_direct_one_while_no_learned_one_works() {
        let story = [(0, Health::Ill, false), (500, Health::Ill, true), (900, Health::Ill, false)];
        assert_eq!(
            decided(RoutePolicy::PreferDirect, &story, 2000),
            [(0, DIRECT), (500, LEARNED), (900, DIRECT)]
        );
    }

    #[test]
    fn learned_ways_come_first_where_that_is_wanted() {
        let story = [(0, Health::Well, false), (300, Health::Well, true), (600, Health::Well, false)];
        assert_eq!(
            decided(RoutePolicy::PreferIndirect, &story, 2000),
            [(0, DIRECT), (300, LEARNED), (600, DIRECT)]
        );
    }

    #[test]
    fn on_failure_there_are_paths_from_the_failure_until_half_a_minute_after_it() {
        let story = [
            (0, Health::Well, false),
            (1000, Health::Ill, false),
            (1400, Health::Ill, true),
            (4000, Health::Well, true),
            (34_100, Health::Well, false),
        ];
        assert_eq!(
            decided(RoutePolicy::OnFailure, &story, 60_000),
            [(0, NONE), (1000, DIRECT), (1400, LEARNED), (10_000, DIRECT), (34_000, NONE)]
        );
    }
}
