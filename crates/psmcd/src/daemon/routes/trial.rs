//! Whether a direct path is as good as it was before, judged by what probes of it say while others carry the data.
//!
//! Half a second without a loss tells little: a flood that comes in bursts leaves gaps between them. So a trial counts
//! everything from its beginning on, and whatever is worse than usual ends it and begins another one.

use std::time::Duration;

use super::health::{Count, Health, Look};

/// So many lost packets are chance, whatever is usual.
const CHANCE: u64 = 1;

/// Of this many packets it is remembered how many were lost as a rule: older ones count half, and half of that.
const REMEMBERED: u64 = 10_000;

/// Probes of which it must be known what became of them, however long that takes where round trips are long.
const LEAST_PROBES: u64 = 40;

/// A round trip that is longer than usual by half, and by this, has a queue in it that was not there before.
const SLACK: Duration = Duration::from_millis(20);

/// One look in so many may find a queue.
const SLOW_ONE_IN: u32 = 10;

/// Fewer are chance.
const LEAST_SLOW: u32 = 3;

/// With each look a usual round trip that is longer than the one that is known counts by this share: routes change.
const RISE: u32 = 600;

/// What is usual on a path, and how it has been since the trial began.
#[derive(Clone, Debug, Default)]
pub(super) struct Trial {
    usual: Usual,
    /// The last look, whatever came of it.
    last: Option<Look>,
    run: Option<Run>,
}

/// How a path was while it carried data and was well.
#[derive(Clone, Copy, Debug, Default)]
struct Usual {
    counts: [Count; 2],
    round_trip: Option<Duration>,
}

/// Looks in a row that found nothing unusual.
#[derive(Clone, Copy, Debug)]
struct Run {
    begun: Look,
    looks: u32,
    /// How many of them found a queue, as those before them did: what was held up for a moment comes all at once.
    slow: u32,
    /// What has gone since it began.
    counts: [Count; 2],
}

impl Trial {
    /// Takes another look at a path that was judged so.
    pub(super) fn look(&mut self, look: Look, health: Health, carries: bool) {
        if carries {
            self.run = None;
            if health == Health::Well {
                self.usual.learn(self.last, look);
            }
        } else {
            self.usual.round_trip =
                [self.usual.round_trip, look.least_round_trip].into_iter().flatten().min();
            let run = self.run.filter(|_| health != Health::Ill);
            let lasting = self.last.is_some_and(|last| self.usual.is_slow(last)) && self.usual.is_slow(look);
            let run = run.map(|run| run.with(look, lasting)).filter(|run| run.is_usual(&self.usual));
            self.run = Some(run.unwrap_or_else(|| Run::new(look)));
        }
        self.last = Some(look);
    }

    /// Whether the path has been as usual for this long, as far as enough probes say so.
    pub(super) fn is_passed(&self, time: Duration) -> bool {
        self.run.zip(self.last).is_some_and(|(run, last)| {
            run.begun.at + time <= last.at && run.counts[0].settled >= LEAST_PROBES
        })
    }
}

impl Usual {
    fn learn(&mut self, last: Option<Look>, look: Look) {
        for (way, sum) in self.counts.iter_mut().enumerate() {
            let step = last.map_or(Count::default(), |last| look.counts[way].since(last.counts[way]));
            *sum = Count { settled: sum.settled + step.settled, lost: sum.lost + step.lost };
            if sum.settled > REMEMBERED {
                *sum = Count { settled: sum.settled / 2, lost: sum.lost / 2 };
            }
        }
        let risen = |known: Duration, seen: Duration| known + seen.saturating_sub(known) / RISE;
        self.round_trip = match (self.round_trip, look.least_round_trip) {
            (Some(known), Some(seen)) => Some(seen.min(risen(known, seen))),
            (known, seen) => known.or(seen),
        };
    }

    /// How many of so many packets may be lost: those that usually are, twice the spread of that number, and one.
    fn allowed(&self, way: usize, settled: u64) -> u64 {
        let Count { settled: of, lost } = self.counts[way];
        let expected = (settled * lost).checked_div(of).unwrap_or(0);
        expected + 2 * expected.isqrt() + CHANCE
    }

    fn is_slow(&self, look: Look) -> bool {
        let limit = self.round_trip.map(|usual| usual * 3 / 2 + SLACK);
        look.round_trip.zip(limit).is_some_and(|(now, limit)| now > limit)
    }
}

impl Run {
    fn new(look: Look) -> Self {
        Self { begun: look, looks: 0, slow: 0, counts: [Count::default(); 2] }
    }

    fn with(self, look: Look, is_slow: bool) -> Self {
        let since = |way: usize| look.counts[way].since(self.begun.counts[way]);
        Self {
            looks: self.looks + 1,
            slow: self.slow + u32::from(is_slow),
            counts: [since(0), since(1)],
            ..self
        }
    }

    fn is_usual(&self, usual: &Usual) -> bool {
        let is_fast = self.slow < LEAST_SLOW || self.slow * SLOW_ONE_IN <= self.looks;
        let loses_little = |way: usize| self.counts[way].lost <= usual.allowed(way, self.counts[way].settled);
        is_fast && loses_little(0) && loses_little(1)
    }
}

#[cfg(test)]
mod tests;
