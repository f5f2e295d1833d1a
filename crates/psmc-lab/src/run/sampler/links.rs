//! What links carry.

use std::time::Duration;

use psmc_sim::link::{DropReason, LinkCounters};

use super::ticks;
use crate::measure::{mbps, percent};
use crate::results::{LinkResult, Sample};
use crate::run::stage::Stage;
use crate::scenario::{Link, LinkId, Scenario};
use crate::traffic::Clock;

/// What all links have carried, direction by direction.
#[derive(Debug)]
pub(in crate::run) struct Links(Vec<[Direction; 2]>);

/// A direction of a link.
#[derive(Clone, Debug, Default)]
struct Direction {
    /// What it had done when the run began.
    first: LinkCounters,
    last: LinkCounters,
    looked: Duration,
    rate: Vec<Sample>,
    loss: Vec<Sample>,
}

impl Links {
    /// Looks at the end of each interval of the run.
    pub(in crate::run) async fn sample(stage: &Stage, clock: Clock) -> Self {
        let scenario = stage.scenario();
        let counters = |id: usize| stage.counters(LinkId(id));
        clock.sleep_until(Duration::ZERO).await;
        let mut links: Vec<_> =
            (0..scenario.links.len()).map(|id| counters(id).map(Direction::new)).collect();
        for at in ticks(clock, scenario.duration) {
            clock.sleep_until(at).await;
            for (id, directions) in links.iter_mut().enumerate() {
                let now = clock.now();
                directions.iter_mut().zip(counters(id)).for_each(|(it, counters)| it.add(at, now, counters));
            }
        }
        Self(links)
    }

    /// The results, in the order of the scenario.
    pub(in crate::run) fn results(self, scenario: &Scenario) -> Vec<LinkResult> {
        let of_link = |(link, directions): (&Link, [Direction; 2])| {
            let [there, back] = directions;
            let [a, b] = link.ends.clone().map(|end| scenario.hosts[end.host.0].name.clone());
            let duration = scenario.duration;
            [
                there.result(&link.name, [a.clone(), b.clone()], duration),
                back.result(&link.name, [b, a], duration),
            ]
        };
        scenario.links.iter().zip(self.0).flat_map(of_link).collect()
    }
}

impl Direction {
    fn new(counters: LinkCounters) -> Self {
        Self { first: counters.clone(), last: counters, ..Self::default() }
    }

    /// Takes down what it has done by `now`, which is when the end of an interval, `at`, was noticed.
    fn add(&mut self, at: Duration, now: Duration, counters: LinkCounters) {
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

    fn result(self, name: &str, [from, to]: [String; 2], duration: Duration) -> LinkResult {
        let entered = self.last.entered_packets - self.first.entered_packets;
        let count = |reasons: &[DropReason]| -> u64 {
            reasons
                .iter()
                .map(|reason| self.last.dropped[*reason as usize] - self.first.dropped[*reason as usize])
                .sum()
        };
        let lost = count(&[DropReason::Loss, DropReason::BlackHole]);
        let dropped = count(&[DropReason::QueueFull, DropReason::Discipline, DropReason::TooLong]);
        LinkResult {
            name: name.to_owned(),
            from,
            to,
            packets: self.last.carried_packets - self.first.carried_packets,
            rate_mbps: mbps(self.last.carried_bytes - self.first.carried_bytes, duration),
            rate_series_mbps: self.rate,
            lost_percent: percent(lost, entered),
            dropped_percent: percent(dropped, entered),
            loss_series_percent: self.loss,
        }
    }
}

fn dropped(counters: &LinkCounters) -> u64 {
    counters.dropped.iter().sum()
}
