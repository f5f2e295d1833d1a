//! The seed's rule about bad paths (PSMC ch. IV, path management), around any scheduler.

use std::time::{Duration, Instant};

use psmc_wire::PathId;

use super::{Choice, Scheduler, Waiting};
use crate::path::Path;
use crate::roster::{Places, Roster};

/// Sets aside the paths that are bad, and lets another scheduler choose among the rest.
///
/// Rates can be compared only if every path was given all that it takes: paths are judged when packets had to
/// wait, and only with schedulers that let them wait for want of room on any path.
#[derive(Debug)]
pub(super) struct WithoutBadPaths {
    inner: Box<dyn Scheduler>,
    rule: BadPathRule,
    /// The candidates that are left, of those in `seen`.
    left: Places,
    seen: Places,
}

impl WithoutBadPaths {
    pub(super) fn new(inner: Box<dyn Scheduler>) -> Self {
        Self { inner, rule: BadPathRule::default(), left: Places::default(), seen: Places::default() }
    }

    fn sift(&mut self, paths: &[Path], candidates: Places) {
        self.seen = candidates;
        let rule = &self.rule;
        self.left = candidates.iter().filter(|&index| !rule.is_set_aside(paths[index].id)).collect();
        if self.left.is_empty() {
            self.left = candidates;
        }
    }
}

impl Scheduler for WithoutBadPaths {
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        let changed = self.rule.is_due(now) && {
            let rates = candidates.iter().map(|index| (paths[index].id, paths[index].bandwidth()));
            self.rule.judge(rates, now)
        };
        if changed {
            self.inner.on_change();
        }
        if changed || self.seen != candidates {
            self.sift(paths, candidates);
        }
        let choice = self.inner.choose(paths, self.left, packet, now);
        self.rule.waits += u32::from(choice == Choice::Wait);
        choice
    }

    fn choose_beyond(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        reserve: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        self.inner.choose_beyond(paths, candidates, reserve, packet, now)
    }

    fn on_change(&mut self) {
        self.seen = Places::default();
        self.inner.on_change();
    }
}

/// "If the metric of path i is significantly below the average of other paths, we treat it as a bad path. Our
/// experimental results suggest the threshold to be 1:10." The metric is the rate at which a path delivers.
///
/// ```text
/// in use ──(below a tenth)──> aside ──(10 s, then twice as long)──> on trial ──(3 s)──> in use, or aside
/// ```
#[derive(Debug, Default)]
struct BadPathRule {
    verdicts: Vec<Verdict>,
    due: Option<Instant>,
    /// How often a packet had to wait in the present period.
    waits: u32,
}

#[derive(Debug)]
struct Verdict {
    path: PathId,
    set_aside: bool,
    /// When the verdict is looked at again: the end of being aside, or of the trial.
    until: Instant,
    /// How long it is set aside next time.
    next: Duration,
}

impl BadPathRule {
    fn is_due(&self, now: Instant) -> bool {
        self.due.is_none_or(|due| due <= now)
    }

    fn is_set_aside(&self, path: PathId) -> bool {
        self.verdicts.iter().any(|verdict| verdict.path == path && verdict.set_aside)
    }

    /// Judges the paths by their rates in bytes per second; says whether one was set aside or readmitted.
    fn judge(&mut self, rates: impl Iterator<Item = (PathId, Option<u64>)>, now: Instant) -> bool {
        self.due = Some(now + PERIOD);
        let mut changed = self.readmit(now);
        if std::mem::take(&mut self.waits) < MIN_WAITS {
            return changed;
        }
        let measured: Vec<(PathId, u64)> = rates
            .filter(|(path, _)| !self.is_set_aside(*path))
            .filter_map(|(path, rate)| Some((path, rate?)))
            .collect();
        let sum: u64 = measured.iter().map(|&(_, rate)| rate).sum();
        for &(path, rate) in &measured {
            let others = measured.len() as u64 - 1;
            let is_bad = others > 0 && rate.saturating_mul(THRESHOLD).saturating_mul(others) < sum - rate;
            changed |= self.note(path, is_bad, now);
        }
        changed
    }

    /// Ends the times that have passed: whoever was set aside gets a trial.
    fn readmit(&mut self, now: Instant) -> bool {
        let mut changed = false;
        for verdict in self.verdicts.iter_mut().filter(|verdict| verdict.set_aside && verdict.until <= now) {
            verdict.set_aside = false;
            verdict.until = now + TRIAL;
            changed = true;
        }
        changed
    }

    fn note(&mut self, path: PathId, is_bad: bool, now: Instant) -> bool {
        let known = self.verdicts.iter().position(|verdict| verdict.path == path);
        match (known, is_bad) {
            (None, false) => false,
            (None, true) => {
                let until = now + FIRST_TIME;
                self.verdicts.push(Verdict { path, set_aside: true, until, next: 2 * FIRST_TIME });
                true
            }
            // Its rate is measured anew while the trial lasts.
            (Some(at), _) if self.verdicts[at].until > now => false,
            (Some(at), false) => {
                self.verdicts.swap_remove(at);
                false
            }
            (Some(at), true) => {
                let verdict = &mut self.verdicts[at];
                verdict.set_aside = true;
                verdict.until = now + verdict.next;
                verdict.next = (2 * verdict.next).min(LONGEST_TIME);
                true
            }
        }
    }
}

/// The seed's threshold of 1:10.
const THRESHOLD: u64 = 10;

/// Rates are looked at this often.
const PERIOD: Duration = Duration::from_secs(1);

/// With less the paths were hardly full.
const MIN_WAITS: u32 = 10;

/// A path is set aside for so long at first, and for so long at most: bad weather passes, a bad link stays.
const FIRST_TIME: Duration = Duration::from_secs(10);
const LONGEST_TIME: Duration = Duration::from_secs(320);

/// Time enough for congestion control to find a new rate.
const TRIAL: Duration = Duration::from_secs(3);

#[cfg(test)]
mod tests {
    use super::*;

    const PATHS: [PathId; 3] = [PathId(0), PathId(2), PathId(4)];

    /// A rule and its clock, in seconds.
    struct Court {
        rule: BadPathRule,
        start: Instant,
    }

    impl Court {
        fn new() -> Self {
            Self { rule: BadPathRule::default(), start: Instant::now() }
        }

        /// Which paths are set aside after having been judged by these rates at that second.
        fn judge(&mut self, second: u64, rates: [Option<u64>; 3]) -> Vec<u16> {
            let now = self.start + Duration::from_secs(second);
            self.rule.waits = MIN_WAITS;
            self.rule.judge(PATHS.into_iter().zip(rates), now);
            PATHS.into_iter().filter(|&path| self.rule.is_set_aside(path)).map(|path| path.0).collect()
        }
    }

    #[test]
    fn below_a_tenth_of_the_others_average_is_bad() {
        assert_eq!(Court::new().judge(0, [Some(1000), Some(3000), Some(200)]), []);
        assert_eq!(Court::new().judge(0, [Some(1000), Some(3000), Some(199)]), [4]);
        assert_eq!(Court::new().judge(0, [Some(1), Some(1), Some(1)]), []);
    }

    #[test]
    fn a_path_that_was_not_measured_and_one_without_others_is_not_judged() {
        assert_eq!(Court::new().judge(0, [Some(1000), None, Some(1000)]), []);
        assert_eq!(Court::new().judge(0, [None, None, Some(1)]), []);
    }

    #[test]
    fn paths_that_are_not_full_are_not_judged() {
        let mut court = Court::new();
        court.rule.waits = MIN_WAITS - 1;
        court.rule.judge(PATHS.into_iter().zip([Some(1000), Some(1000), Some(1)]), court.start);
        assert!(!court.rule.is_set_aside(PATHS[2]));
    }

    #[test]
    fn not_all_can_be_bad() {
        assert_eq!(Court::new().judge(0, [Some(u64::MAX / 8), Some(0), Some(0)]), [2, 4]);
    }

    #[test]
    fn a_path_that_got_better_is_back_after_its_trial() {
        let mut court = Court::new();
        let (bad, good) = ([Some(1000), Some(1000), Some(10)], [Some(1000); 3]);
        assert_eq!(court.judge(0, bad), [4]);
        assert_eq!(court.judge(9, good), [4]);
        // The old rate is what it was set aside with: it counts only when the trial is over.
        assert_eq!(court.judge(10, bad), []);
        assert_eq!(court.judge(12, bad), []);
        assert_eq!(court.judge(13, good), []);
        assert_eq!(court.judge(14, bad), [4], "judged as at first");
        assert_eq!(court.judge(24, bad), []);
    }

    #[test]
    fn a_path_that_stays_bad_is_tried_ever_more_rarely() {
        let mut court = Court::new();
        let bad = [Some(1000), Some(1000), Some(10)];
        let mut trials = Vec::new();
        let mut aside = false;
        for second in 0..1500 {
            let is_aside = !court.judge(second, bad).is_empty();
            if aside && !is_aside {
                trials.push(second);
            }
            aside = is_aside;
        }
        let gaps: Vec<_> = trials.windows(2).map(|pair| pair[1] - pair[0]).collect();
        assert_eq!(trials[0], 10);
        assert_eq!(gaps, [23, 43, 83, 163, 323, 323, 323]);
    }
}
