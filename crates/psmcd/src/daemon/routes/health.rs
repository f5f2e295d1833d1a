//! Whether a path is well, judged by how it was over the last half second.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use psmc_core::PathState;

use super::trial::Trial;

/// How often paths are looked at.
pub(in crate::daemon) const LOOK_INTERVAL: Duration = Duration::from_millis(100);

/// What is judged: long enough that a burst, as when a path's rate is found, is not all of it.
const WINDOW: Duration = Duration::from_millis(500);

/// Looks that come sooner after another one tell nothing new.
const LEAST_INTERVAL: Duration = Duration::from_millis(80);

/// A path that was no better in so many looks of the window is ill: 300 of 500 ms.
const BAD_LOOKS: usize = 3;

/// A path that has never answered is ill after this time.
const PROBING_TIME: Duration = Duration::from_secs(1);

/// Fewer losses are chance.
const LEAST_LOST: u64 = 3;

/// One packet in so many may be lost.
const ONE_IN: u64 = 10;

/// A path that loses more than this share, as numerator and denominator, is ill without another look: of what little gets
/// through, one packet tells of many that did not.
const MOST: (u64, u64) = (2, 3);

/// How a path is. The order of the variants is the order of preference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Health {
    /// It answers, and loses little.
    Well,
    /// Too little is known, or it may be a moment's trouble.
    Doubtful,
    /// It does not answer, or loses more than a tenth.
    Ill,
}

/// What has gone in one direction since the path began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Count {
    /// Datagrams of which it is known whether they arrived.
    pub(super) settled: u64,
    /// Of those the lost ones.
    pub(super) lost: u64,
}

/// A path at one moment.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) at: Instant,
    pub(super) state: PathState,
    /// What was sent, and what was received.
    pub(super) counts: [Count; 2],
    /// The last one.
    pub(super) round_trip: Option<Duration>,
    /// The shortest of the last seconds.
    pub(super) least_round_trip: Option<Duration>,
}

/// The looks at one path, as far back as they count.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    looks: VecDeque<Look>,
    probing_since: Option<Instant>,
    trial: Trial,
}

impl Record {
    /// Takes another look, and says how the path is; `carries` says whether the data go over it.
    pub(super) fn look(&mut self, look: Look, carries: bool) -> Health {
        let health = self.health(look);
        self.trial.look(look, health, carries);
        health
    }

    /// Whether a path that others stand in for has been as good as ever for so long.
    pub(super) fn is_proven(&self, time: Duration) -> bool {
        self.trial.is_passed(time)
    }

    fn health(&mut self, look: Look) -> Health {
        if look.state == PathState::Probing {
            self.probing_since.get_or_insert(look.at);
        } else {
            self.probing_since = None;
        }
        let is_new = self.looks.back().is_none_or(|last| look.at >= last.at + LEAST_INTERVAL);
        if is_new {
            self.looks.push_back(look);
        }
        while self.looks.front().is_some_and(|first| first.at + WINDOW < look.at) {
            self.looks.pop_front();
        }
        self.judge(look)
    }

    fn judge(&self, look: Look) -> Health {
        match look.state {
            PathState::Dead => Health::Ill,
            PathState::Probing if self.probing_since.is_some_and(|at| at + PROBING_TIME <= look.at) => {
                Health::Ill
            }
            PathState::Probing => Health::Doubtful,
            PathState::Active | PathState::Suspect => self.judge_looks(look),
        }
    }

    fn judge_looks(&self, look: Look) -> Health {
        let silent = self.looks.iter().filter(|look| look.state != PathState::Active).count();
        let worst = [self.loss(0), self.loss(1)].into_iter().flatten().max();
        if silent >= BAD_LOOKS || worst == Some(Health::Ill) {
            Health::Ill
        } else if silent > 0 || look.state != PathState::Active {
            Health::Doubtful
        } else {
            worst.unwrap_or(Health::Doubtful)
        }
    }

    /// How the path is by what it loses in one direction; `None` if nothing is known to have gone there.
    fn loss(&self, way: usize) -> Option<Health> {
        let steps = self.looks.iter().zip(self.looks.iter().skip(1));
        let mut sum = Count::default();
        let mut bad = 0;
        for (before, after) in steps {
            let step = after.counts[way].since(before.counts[way]);
            bad += usize::from(step.is_much());
            sum = Count { settled: sum.settled + step.settled, lost: sum.lost + step.lost };
        }
        let is_most = sum.lost * MOST.1 > sum.settled * MOST.0;
        if sum.settled == 0 {
            None
        } else if !sum.is_much() {
            Some(Health::Well)
        } else if sum.lost >= LEAST_LOST && (bad >= BAD_LOOKS || is_most) {
            Some(Health::Ill)
        } else {
            Some(Health::Doubtful)
        }
    }
}

impl Count {
    /// What has gone since `before`; nothing if the path has begun anew.
    pub(super) fn since(self, before: Self) -> Self {
        if self.settled < before.settled || self.lost < before.lost {
            return Self::default();
        }
        Self { settled: self.settled - before.settled, lost: self.lost - before.lost }
    }

    fn is_much(self) -> bool {
        self.lost * ONE_IN > self.settled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(at: Instant, state: PathState, counts: [Count; 2]) -> Look {
        Look { at, state, counts, round_trip: None, least_round_trip: None }
    }

    /// What is said of a path after each of these looks, which follow each other at the usual interval. Each says the state,
    /// and of ten datagrams in each direction, how many were lost.
    fn judged(looks: &[(PathState, [u64; 2])]) -> Vec<Health> {
        let (mut record, start) = (Record::default(), Instant::now());
        let mut counts = [Count::default(); 2];
        (0..)
            .zip(looks)
            .map(|(number, &(state, lost))| {
                for (count, lost) in counts.iter_mut().zip(lost) {
                    *count = Count { settled: count.settled + 10, lost: count.lost + lost };
                }
                record.look(seen(start + LOOK_INTERVAL * number, state, counts), true)
            })
            .collect()
    }

    #[test]
    fn a_path_that_answers_and_loses_little_is_well() {
        for lost in [[1, 0], [0, 1]] {
            let health = judged(&[(PathState::Active, lost); 9]);
            assert_eq!((health[0], &health[1..]), (Health::Doubtful, &[Health::Well; 8][..]));
        }
    }

    #[test]
    fn a_flood_is_noticed_within_half_a_second_in_either_direction() {
        for lost in [[9, 0], [0, 9], [2, 0]] {
            let mut looks = vec![(PathState::Active, [0, 0]); 10];
            looks.extend([(PathState::Active, lost); 4]);
            let health = judged(&looks);
            assert_eq!(health[9], Health::Well);
            assert!(health[9..].contains(&Health::Ill), "{health:?}");
        }
    }

    #[test]
    fn a_burst_of_losses_is_no_illness() {
        let mut looks = vec![(PathState::Active, [0, 0]); 5];
        looks.extend([(PathState::Active, [9, 0]); 2]);
        looks.extend([(PathState::Active, [0, 0]); 7]);
        let health = judged(&looks);
        assert!(!health.contains(&Health::Ill), "{health:?}");
        assert_eq!(health.last(), Some(&Health::Well));
    }

    #[test]
    fn one_packet_that_tells_of_many_is_enough() {
        let (mut record, start) = (Record::default(), Instant::now());
        let mut look = |number: u32, settled, lost| {
            let counts = [Count { settled, lost }, Count::default()];
            record.look(seen(start + LOOK_INTERVAL * number, PathState::Active, counts), true)
        };
        assert_eq!(look(0, 0, 0), Health::Doubtful, "nothing is known");
        assert_eq!(look(1, 4, 0), Health::Well);
        assert_eq!(look(2, 4, 0), Health::Well);
        assert_eq!(look(3, 14, 9), Health::Doubtful, "9 of 14");
        assert_eq!(look(7, 24, 18), Health::Ill, "9 of 10");
        assert_eq!(look(14, 24, 18), Health::Doubtful, "nothing is known any more");
    }

    #[test]
    fn a_path_that_falls_silent_again_and_again_is_ill() {
        let mut looks = vec![(PathState::Active, [0, 0]); 5];
        looks.extend([
            (PathState::Suspect, [0, 0]),
            (PathState::Active, [0, 0]),
            (PathState::Suspect, [0, 0]),
            (PathState::Suspect, [0, 0]),
        ]);
        let health = judged(&looks);
        assert_eq!(health[5..], [Health::Doubtful, Health::Doubtful, Health::Doubtful, Health::Ill]);
    }

    #[test]
    fn a_dead_path_is_ill_at_once_and_a_new_one_after_a_second() {
        assert_eq!(judged(&[(PathState::Dead, [0, 0])]), [Health::Ill]);
        let health = judged(&[(PathState::Probing, [0, 0]); 12]);
        assert_eq!((health[9], health[10]), (Health::Doubtful, Health::Ill));
    }

    #[test]
    fn looks_in_between_count_once() {
        let (mut record, start) = (Record::default(), Instant::now());
        let look = |ms, state| seen(start + Duration::from_millis(ms), state, Default::default());
        record.look(look(0, PathState::Active), true);
        for ms in 100..110 {
            assert_eq!(record.look(look(ms, PathState::Suspect), true), Health::Doubtful);
        }
    }
}
