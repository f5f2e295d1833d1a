//! What a direction of a link carries, and what a path of a tunnel does.

use std::time::Duration;

use psmc_sim::link::{DropReason, LinkCounters};

use super::{index, mbps, percent};
use crate::results::{LinkResult, PathResult, Sample};
use crate::scenario::{LinkId, Scenario, Tunnel};

/// What a direction of a link has carried since the beginning, by intervals.
///
/// Bytes that were carried between two looks are spread evenly over the time between them, so that a look that comes late
/// does not count for its interval, or for the run, what was carried after it.
#[derive(Clone, Debug)]
pub struct Carried {
    first: LinkCounters,
    last: LinkCounters,
    looked: Duration,
    interval: Duration,
    /// The length of the run; what comes later does not count.
    duration: Duration,
    /// In each interval of the run.
    bytes: Vec<f64>,
    loss: Vec<Sample>,
}

impl Carried {
    /// What it had done when the run began.
    #[must_use]
    pub fn new(counters: LinkCounters, scenario: &Scenario) -> Self {
        Self {
            first: counters.clone(),
            last: counters,
            looked: Duration::ZERO,
            interval: scenario.sample_interval,
            duration: scenario.duration,
            bytes: Vec::new(),
            loss: Vec::new(),
        }
    }

    /// Takes down what it has done by `now`, which is when the end of an interval, `at`, was noticed.
    pub fn add(&mut self, at: Duration, now: Duration, counters: LinkCounters) {
        let bytes = counters.carried_bytes - self.last.carried_bytes;
        let entered = counters.entered_packets - self.last.entered_packets;
        let lost = dropped(&counters) - dropped(&self.last);
        self.spread(bytes, now);
        if entered > 0 {
            // What is dropped now may have entered before.
            self.loss.push(Sample { at_s: at.as_secs_f64(), value: percent(lost, entered).min(100.0) });
        }
        (self.last, self.looked) = (counters, now);
    }

    /// Spreads what was carried since the last look over the intervals since then.
    fn spread(&mut self, bytes: u64, now: Duration) {
        let time = now.saturating_sub(self.looked);
        let mut from = self.looked;
        while from < now.min(self.duration) {
            let index = index(from, self.interval);
            let to = now.min(self.end(index));
            if self.bytes.len() <= index {
                self.bytes.resize(index + 1, 0.0);
            }
            self.bytes[index] += bytes as f64 * (to - from).as_secs_f64() / time.as_secs_f64();
            from = to;
        }
    }

    /// The end of an interval; the last one may be shorter than the others.
    fn end(&self, index: usize) -> Duration {
        let next = u32::try_from(index + 1).unwrap_or(u32::MAX);
        self.interval.saturating_mul(next).min(self.duration)
    }

    /// In Mbit/s, at the end of each interval.
    fn rate_series_mbps(&self) -> Vec<Sample> {
        let mut start = Duration::ZERO;
        let cells = self.bytes.iter().enumerate().map(|(index, bytes)| {
            let end = self.end(index);
            let time = (end - std::mem::replace(&mut start, end)).as_secs_f64();
            Sample { at_s: end.as_secs_f64(), value: bytes * 8.0 / 1e6 / time }
        });
        cells.collect()
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
            rate_mbps: self.bytes.iter().sum::<f64>() * 8.0 / 1e6 / self.duration.as_secs_f64(),
            rate_series_mbps: self.rate_series_mbps(),
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

/// What a path has carried, by intervals.
#[derive(Clone, Debug)]
pub struct PathSeries {
    result: PathResult,
    last: Option<(Duration, PathCounts)>,
}

/// What a path has done so far, as its first site says.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathCounts {
    /// Bytes sent.
    pub sent: u64,
    /// Bytes received.
    pub received: u64,
    /// The smoothed round-trip time in milliseconds, if one was measured.
    pub rtt_ms: Option<f64>,
}

impl PathSeries {
    /// Nothing yet, for each path of a tunnel.
    pub fn of_tunnel(tunnel: &Tunnel) -> impl Iterator<Item = Self> {
        tunnel.paths.iter().map(|path| {
            let result = PathResult {
                tunnel: tunnel.name.clone(),
                path: path.name.clone(),
                sent_series_mbps: Vec::new(),
                received_series_mbps: Vec::new(),
                rtt_series_ms: Vec::new(),
            };
            Self { result, last: None }
        })
    }

    /// The name of the tunnel.
    #[must_use]
    pub fn tunnel(&self) -> &str {
        &self.result.tunnel
    }

    /// The name of the path.
    #[must_use]
    pub fn path(&self) -> &str {
        &self.result.path
    }

    /// Takes down what it has done by `now`; the interval ended at `at`.
    pub fn add(&mut self, counts: PathCounts, at: Duration, now: Duration) {
        let at_s = at.as_secs_f64();
        if let Some((looked, last)) = self.last.replace((now, counts)) {
            let time = now.saturating_sub(looked);
            // A path that was made anew counts from zero.
            let rate = |now: u64, before: u64| Sample {
                at_s,
                value: mbps(now.checked_sub(before).unwrap_or(now), time),
            };
            self.result.sent_series_mbps.push(rate(counts.sent, last.sent));
            self.result.received_series_mbps.push(rate(counts.received, last.received));
        }
        let rtt = counts.rtt_ms.map(|value| Sample { at_s, value });
        self.result.rtt_series_ms.extend(rtt);
    }

    /// The result.
    #[must_use]
    pub fn into_result(self) -> PathResult {
        self.result
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    /// A run of 1.05 s with intervals of 100 ms.
    fn scenario() -> Scenario {
        let text = "[scenario]\nduration = '1050ms'\n[[link]]\nname = 'l'\nbetween = ['a', 'b']\n";
        Scenario::parse(text, Path::new("test.toml")).unwrap()
    }

    /// The result for a link that carries 1250 bytes a millisecond, which is 10 Mbit/s, and is looked at so much later
    /// than at the end of each interval, by turns.
    fn looked_at_late(late: [u64; 3]) -> LinkResult {
        let scenario = scenario();
        let mut carried = Carried::new(LinkCounters::default(), &scenario);
        for (at, late) in (100..1000).step_by(100).chain([1000, 1050]).zip(late.into_iter().cycle()) {
            let now = at + late;
            let counters =
                LinkCounters { carried_bytes: 1250 * now, entered_packets: now, ..LinkCounters::default() };
            carried.add(Duration::from_millis(at), Duration::from_millis(now), counters);
        }
        let [there, _] = Carried::results([carried.clone(), carried], &scenario, LinkId(0));
        there
    }

    #[test]
    fn late_looks_count_nothing_twice() {
        for late in [[0; 3], [10, 0, 30], [0, 150, 50], [40, 40, 40]] {
            let result = looked_at_late(late);
            assert_eq!(result.rate_series_mbps.len(), 11, "{late:?}");
            let rates = result.rate_series_mbps.iter().map(|sample| sample.value);
            assert!(rates.chain([result.rate_mbps]).all(|rate| (rate - 10.0).abs() < 1e-9), "{result:?}");
            let ends = result.rate_series_mbps.iter().map(|sample| (sample.at_s * 100.0).round());
            assert!(ends.eq([10.0, 20.0, 30.0, 40.0, 50.0, 60.0, 70.0, 80.0, 90.0, 100.0, 105.0]));
        }
    }
}
