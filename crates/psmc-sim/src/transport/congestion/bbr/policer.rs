//! A policer lets bursts pass and drops all that is above its rate after them: the largest rate is none that lasts. Linux looks for it
//! (`bbr_lt_bw_sampling`).

use std::time::Instant;

use super::Delivered;

/// Round trips of an interval, at least; at most four times as many.
const MIN_ROUNDS: u32 = 4;

/// Lost segments of those that arrived, from which on it may be a policer.
const LOSS: f64 = 0.2;

/// How much two intervals' rates may differ, as a share, and in segments per second: 4 kb/s.
const RATIO: f64 = 1.0 / 8.0;
const DIFFERENCE: f64 = 0.35;

/// Round trips for which its rate is kept.
const KEPT_ROUNDS: u32 = 48;

/// What is known of a policer. Rates are in segments per second.
#[derive(Debug, Default)]
pub(super) struct Policer {
    /// Of the last interval.
    rate: Option<f64>,
    /// Whether two intervals agreed.
    is_found: bool,
    /// The present interval, from a loss on.
    interval: Option<Interval>,
    /// Round trips since it was found.
    rounds: u32,
}

#[derive(Debug)]
struct Interval {
    since: Instant,
    rounds: u32,
    delivered: f64,
    lost: f64,
}

impl Interval {
    fn new(since: Instant) -> Self {
        Self { since, rounds: 0, delivered: 0.0, lost: 0.0 }
    }
}

impl Policer {
    /// What it lets pass, if there is one.
    pub(super) fn rate(&self) -> Option<f64> {
        self.rate.filter(|_| self.is_found)
    }

    /// Forgets it.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }

    /// Looks at an acknowledgement, with which a round trip may have begun. Says whether a policer was forgotten, because it was
    /// found long ago; that counts only where rates are probed.
    pub(super) fn update(&mut self, seen: &Delivered, has_begun: bool, probes: bool, now: Instant) -> bool {
        if self.is_found {
            self.rounds += u32::from(has_begun && probes);
            let is_old = self.rounds >= KEPT_ROUNDS;
            if is_old {
                self.reset();
            }
            return is_old;
        }
        self.sample(seen, has_begun, now);
        false
    }

    fn sample(&mut self, seen: &Delivered, has_begun: bool, now: Instant) {
        if self.interval.is_none() && seen.lost <= 0.0 {
            return;
        }
        // It begins with a loss, by which a policer's tokens are used up: what was lost then does not count.
        let interval = match &mut self.interval {
            Some(interval) => {
                interval.delivered += seen.segments;
                interval.lost += seen.lost;
                interval
            }
            none @ None => none.insert(Interval::new(now)),
        };
        interval.rounds += u32::from(has_begun);
        if seen.rate.is_some_and(|rate| rate.is_limited) || interval.rounds > 4 * MIN_ROUNDS {
            return self.reset();
        }
        let took = now.saturating_duration_since(interval.since).as_secs_f64();
        let is_over = interval.rounds >= MIN_ROUNDS && seen.lost > 0.0 && took >= 0.001;
        if is_over && interval.delivered > 0.0 && interval.lost >= LOSS * interval.delivered {
            let rate = interval.delivered / took;
            self.end_interval(rate, now);
        }
    }

    fn end_interval(&mut self, rate: f64, now: Instant) {
        let agrees = |before: &f64| (rate - before).abs() <= (RATIO * before).max(DIFFERENCE);
        if let Some(before) = self.rate.filter(agrees) {
            (self.rate, self.is_found, self.rounds) = (Some(f64::midpoint(rate, before)), true, 0);
        } else {
            (self.rate, self.interval) = (Some(rate), Some(Interval::new(now)));
        }
    }
}
