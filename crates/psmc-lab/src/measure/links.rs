//! What a direction of a link carries.

use std::time::Duration;

use psmc_sim::link::{DropReason, LinkCounters};

use super::{mbps, percent};
use crate::results::{LinkResult, Sample};
use crate::scenario::{LinkId, Scenario};

/// What a direction of a link has carried since the beginning, by intervals.
#[derive(Clone, Debug)]
pub struct Carried {
    first: LinkCounters,
    last: LinkCounters,
    looked: Duration,
    rate: Vec<Sample>,
    loss: Vec<Sample>,
}

impl Carried {
    /// What it had done when the run began.
    #[must_use]
    pub fn new(counters: LinkCounters) -> Self {
        Self {
            first: counters.clone(),
            last: counters,
            looked: Duration::ZERO,
            rate: Vec::new(),
            loss: Vec::new(),
        }
    }

    /// Takes down what it has done by `now`, which is when the end of an interval, `at`, was noticed.
    pub fn add(&mut self, at: Duration, now: Duration, counters: LinkCounters) {
        let bytes = counters.carried_bytes - self.last.carried_bytes;
        let entered = counters.entered_packets - self.last.entered_packets;
        let lost = dropped(&counters) - dropped(&self.last);
        let at_s = at.as_secs_f64();
        self.rate.push(Sample { at_s, value: mbps(bytes, now.saturating_sub(self.looked)) });
        if entered > 0 {
            // What is dropped now may have entered before.
            self.loss.push(Sample { at_s, value: percent(lost, entered).min(100.0) });
        }
        (self.last, self.looked) = (counters, now);
    }

    /// The results of both directions of a link.
    #[must_use]
    pub fn results(directions: [Self; 2], scenario: &Scenario, link: LinkId) -> [LinkResult; 2] {
        let [there, back] = directions;
        [there.result(scenario, link, 0), back.result(scenario, link, 1)]
    }

    fn result(self, scenario: &Scenario, link: LinkId, from: usize) -> LinkResult {
        let plan = &scenario.links[link.0];
        let host = |end: usize| scenario.hosts[plan.ends[end].host.0].name.clone();
        let entered = self.last.entered_packets - self.first.entered_packets;
        let count =
            |reasons: &[DropReason]| -> u64 { reasons.iter().map(|reason| self.count(*reason)).sum() };
        let lost = count(&[DropReason::Loss, DropReason::BlackHole]);
        let dropped = count(&[DropReason::QueueFull, DropReason::Discipline, DropReason::TooLong]);
        LinkResult {
            name: plan.name.clone(),
            from: host(from),
            to: host(1 - from),
            packets: self.last.carried_packets - self.first.carried_packets,
            rate_mbps: mbps(self.last.carried_bytes - self.first.carried_bytes, scenario.duration),
            rate_series_mbps: self.rate,
            lost_percent: percent(lost, entered),
            dropped_percent: percent(dropped, entered),
            loss_series_percent: self.loss,
        }
    }

    fn count(&self, reason: DropReason) -> u64 {
        self.last.dropped[reason as usize] - self.first.dropped[reason as usize]
    }
}

fn dropped(counters: &LinkCounters) -> u64 {
    counters.dropped.iter().sum()
}
