//! One class: who waits, and what it had lately.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Waiting;
use crate::ratios::Seen;
use crate::window::{Measure, Sample};

/// A class of a queue.
#[derive(Clone, Debug)]
pub(super) struct Class {
    pub(super) delta: f64,
    pub(super) waiting: BTreeMap<u64, Waiting>,
    /// Seconds: the mean of what servers take for a request, if anything was answered.
    pub(super) service: Option<f64>,
    pub(super) correction: f64,
    pub(super) weight: f64,
    pub(super) urgent_from: Option<Duration>,
    /// Where what was served last ends, in virtual time.
    finish: f64,
    recent: Recent,
    contests: u64,
    won: u64,
}

/// What was answered lately; older answers count less.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    samples: f64,
    /// Seconds.
    response: f64,
    /// Seconds.
    service: f64,
}

/// The weight of a request in the mean of what servers take: that of its class changes slowly, and one request says little.
const SMOOTHING: f64 = 1.0 / 64.0;

/// What counts as known: less is what is left of one answer long ago.
const LEAST_KNOWN: f64 = 0.01;

/// The least time of a request, in seconds: logarithms must be finite.
const LEAST_TIME: f64 = 1e-9;

impl Class {
    pub(super) fn new(delta: f64, weight: f64) -> Self {
        Self {
            delta,
            waiting: BTreeMap::new(),
            service: None,
            correction: 0.0,
            weight,
            urgent_from: None,
            finish: 0.0,
            recent: Recent::default(),
            contests: 0,
            won: 0,
        }
    }

    /// Who waits, and what is known of how long requests take.
    pub(super) fn take_over(&mut self, other: &mut Self) {
        self.waiting = std::mem::take(&mut other.waiting);
        (self.service, self.recent) = (other.service, other.recent);
    }

    pub(super) fn first(&self) -> Option<&Waiting> {
        self.waiting.first_key_value().map(|(_, waiting)| waiting)
    }

    /// Of the first one, in seconds.
    pub(super) fn age(&self, now: Duration) -> f64 {
        self.first().map_or(0.0, |first| now.saturating_sub(first.arrived).as_secs_f64())
    }

    pub(super) fn is_urgent(&self, now: Duration) -> bool {
        let first = self.first();
        first.zip(self.urgent_from).is_some_and(|(first, from)| now.saturating_sub(first.arrived) >= from)
    }

    /// Of the first one at that age, as if it were served next.
    pub(super) fn standing(&self, age: f64, strength: f64, measure: Measure) -> f64 {
        let service = self.service.unwrap_or(LEAST_TIME).max(LEAST_TIME);
        let one = Recent { samples: 1.0, response: age + service, service };
        self.standing_of(&one, &self.recent.with(&one), strength, measure)
    }

    /// Of a request that takes as long as others of late.
    pub(super) fn usual_standing(&self, strength: f64, measure: Measure) -> Option<f64> {
        self.recent.is_known().then(|| self.standing_of(&self.recent, &self.recent, strength, measure))
    }

    /// In seconds.
    pub(super) fn usual_response(&self) -> Option<f64> {
        self.recent.is_known().then(|| self.recent.mean(Measure::ResponseTime))
    }

    fn standing_of(&self, one: &Recent, all: &Recent, strength: f64, measure: Measure) -> f64 {
        let [one, all] = [one, all].map(|of| (of.mean(measure) / self.delta).ln());
        one + strength * all + self.correction
    }

    pub(super) fn fade(&mut self, keep: f64) {
        self.recent.samples *= keep;
        self.recent.response *= keep;
        self.recent.service *= keep;
    }

    pub(super) fn answered(&mut self, sample: Sample) {
        let (response, service) = (sample.response().as_secs_f64(), sample.service.as_secs_f64());
        self.recent = self.recent.with(&Recent { samples: 1.0, response, service });
        self.service = Some(self.service.map_or(service, |old| old + SMOOTHING * (service - old)));
    }

    /// Where its next request starts, in virtual time: not before what it had last ends, nor in the past.
    pub(super) fn start(&self, virtual_time: f64) -> f64 {
        self.finish.max(virtual_time)
    }

    /// Its next request is served. While nobody knows for how long, it costs nothing.
    pub(super) fn served_from(&mut self, start: f64) {
        self.finish = start + self.service.unwrap_or_default() / self.weight;
    }

    pub(super) fn contested(&mut self, is_won: bool) {
        self.contests += 1;
        self.won += u64::from(is_won);
    }

    pub(super) fn take_contests(&mut self) -> Seen {
        let contests = std::mem::take(&mut self.contests);
        Seen { mean: None, contests, won: std::mem::take(&mut self.won) }
    }
}

impl Recent {
    fn is_known(&self) -> bool {
        self.samples > LEAST_KNOWN
    }

    fn with(&self, other: &Self) -> Self {
        Self {
            samples: self.samples + other.samples,
            response: self.response + other.response,
            service: self.service + other.service,
        }
    }

    fn mean(&self, measure: Measure) -> f64 {
        let over = match measure {
            Measure::ResponseTime => self.samples,
            Measure::Slowdown => self.service,
        };
        self.response.max(LEAST_TIME) / over.max(LEAST_TIME)
    }
}
