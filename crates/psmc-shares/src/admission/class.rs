//! What is known of a class.

use std::time::Duration;

use super::Outcome;
use super::snapshot::{ClassSnapshot, Counters};
use crate::ratios::MOST_SILENT;
use crate::window::{Means, Sample, Window};

/// A class's counters and estimates.
#[derive(Clone, Debug, Default)]
pub(super) struct Class {
    pub(super) counters: Counters,
    window: Window,
    /// Sampling periods that the window has by now.
    periods: u32,
    last: Option<Means>,
    in_service: u64,
    departures: Departures,
    tail: Tail,
    /// Seconds of servers asked for in a sampling period, smoothed.
    load: f64,
}

/// How fast requests of a class are given places, while some wait.
#[derive(Clone, Copy, Debug, Default)]
struct Departures {
    /// Seconds from one to the next, smoothed.
    gap: Option<f64>,
    /// If others have waited since.
    last: Option<Duration>,
}

/// The 99th percentile of what servers take, by stochastic approximation: up by 99 steps for one above it, down by one for each below.
#[derive(Clone, Copy, Debug, Default)]
struct Tail(Option<f64>);

/// The fewest answers of which a mean is taken for one: with fewer it is off by a quarter if times are exponential.
const LEAST_SAMPLES: u64 = 20;

/// The weight of a gap in the mean: of the last hundred or so requests.
const GAP_SMOOTHING: f64 = 1.0 / 64.0;

/// The weight of a period in the load: the seed predicts by the mean of five.
const LOAD_SMOOTHING: f64 = 0.2;

/// A step of the 99th percentile, as a share of it: a hundred requests may move it by a fifth.
const TAIL_STEP: f64 = 0.002;

/// A logarithm is taken of it: no request takes less, in seconds.
const LEAST_TAIL: f64 = 1e-9;

impl Class {
    pub(super) fn arrived(&mut self) {
        self.counters.arrived += 1;
        self.window.arrivals += 1;
    }

    /// One has a place; whether others wait still.
    pub(super) fn admitted(&mut self, others_wait: bool, now: Duration) {
        self.counters.admitted += 1;
        self.in_service += 1;
        self.departures.one(others_wait, now);
    }

    pub(super) fn answered(&mut self, sample: Sample) {
        self.window.answered(sample);
        self.tail.learn(sample.service.as_secs_f64());
    }

    pub(super) fn left(&mut self, outcome: Outcome) {
        self.in_service = self.in_service.saturating_sub(1);
        match outcome {
            Outcome::Answered => self.counters.answered += 1,
            Outcome::Failed => self.counters.failed += 1,
            Outcome::Abandoned => self.counters.abandoned += 1,
        }
    }

    /// A sampling period is over. Whether the window is of enough requests for a mean to be taken.
    pub(super) fn end_period(&mut self) -> bool {
        self.periods += 1;
        self.window.samples() >= LEAST_SAMPLES
    }

    /// The means of the window, if they are of enough requests; the next one begins.
    pub(super) fn take(&mut self) -> Option<Means> {
        let window = self.window.take();
        let means = window.means();
        let service = means.map_or(0.0, |means| means.service.as_secs_f64());
        let load = window.arrivals as f64 * service / f64::from(self.periods.max(1));
        self.load += LOAD_SMOOTHING * (load - self.load);
        self.periods = 0;
        let means = means.filter(|means| means.samples >= LEAST_SAMPLES);
        self.last = means.or(self.last);
        means
    }

    /// Whether the window is so old that what is in it says nothing of what is decided now.
    pub(super) fn is_old(&self) -> bool {
        self.periods >= MOST_SILENT
    }

    /// What it asks for of servers, in seconds of each sampling period.
    pub(super) fn load(&self) -> f64 {
        self.load
    }

    /// The 99th percentile of what servers take for a request.
    pub(super) fn tail(&self) -> Duration {
        Duration::from_secs_f64(self.tail.0.unwrap_or_default())
    }

    /// How long the last of so many waits.
    pub(super) fn expected_wait(&self, waiting: usize, now: Duration) -> Duration {
        self.departures.gap(now).saturating_mul(u32::try_from(waiting).unwrap_or(u32::MAX))
    }

    pub(super) fn snapshot(&self, waiting: usize, expected_wait: Duration) -> ClassSnapshot {
        let (counters, in_service, last) = (self.counters, self.in_service, self.last);
        ClassSnapshot { counters, waiting, in_service, expected_wait, last }
    }
}

impl Departures {
    fn one(&mut self, others_wait: bool, now: Duration) {
        if let Some(last) = self.last {
            let gap = now.saturating_sub(last).as_secs_f64();
            self.gap = Some(self.gap.map_or(gap, |old| old + GAP_SMOOTHING * (gap - old)));
        }
        self.last = others_wait.then_some(now);
    }

    /// The mean from one to the next, or the time that the next one has been awaited if that is more.
    fn gap(&self, now: Duration) -> Duration {
        let Some(gap) = self.gap else { return Duration::ZERO };
        let since = self.last.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        Duration::from_secs_f64(gap).max(since)
    }
}

impl Tail {
    fn learn(&mut self, value: f64) {
        // The first one may be anything; the mean of an exponential time is a fifth of its 99th percentile.
        let tail = self.0.get_or_insert(value.max(LEAST_TAIL));
        let steps = if value > *tail { 99.0 } else { -1.0 };
        *tail *= (TAIL_STEP * steps).exp();
    }
}
