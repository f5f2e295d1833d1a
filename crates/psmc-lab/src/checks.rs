//! What must hold at the end, and whether it does: by the results alone, so that a run and a simulation are judged alike.

use std::time::Duration;

use crate::measure::percentile;
use crate::results::{CheckResult, Distribution, LinkResult, Results, Sample, TrafficResult};
use crate::scenario::{Bound, Check, Metric, Scenario, Subject};

/// Whether the checks of a scenario hold.
#[must_use]
pub fn evaluate(scenario: &Scenario, results: &Results) -> Vec<CheckResult> {
    let evaluate = |check: &Check| {
        let value = measured(check, scenario, results);
        let ok = value.is_some_and(|value| holds(check.bound, value));
        CheckResult { what: scenario.check_in_words(check), value, ok }
    };
    scenario.checks.iter().map(evaluate).collect()
}

fn holds(bound: Bound, value: f64) -> bool {
    match bound {
        Bound::AtLeast(least) => value >= least,
        Bound::AtMost(most) => value <= most,
        Bound::Between(least, most) => (least..=most).contains(&value),
    }
}

/// What a check is about; `None` if nothing of the kind was measured.
fn measured(check: &Check, scenario: &Scenario, results: &Results) -> Option<f64> {
    let window = check.window.map(|window| Window::new(window, scenario.sample_interval));
    match check.subject {
        Subject::Traffic(id) => of_traffic(results.traffic.get(id.0)?, check.metric, window),
        // Both directions of each link follow each other.
        Subject::Link(id, direction) => {
            let link = results.links.get(2 * id.0 + direction)?;
            of_link(link, check.metric, window, results.duration_s)
        }
        Subject::Program(id) => of_program(results.programs.get(id.0)?.exit_status, check.metric),
    }
}

fn of_traffic(traffic: &TrafficResult, metric: Metric, window: Option<Window>) -> Option<f64> {
    let Some(window) = window else {
        return match metric {
            Metric::Goodput => Some(traffic.goodput_mbps),
            Metric::Bytes => Some(traffic.bytes as f64),
            Metric::Loss => traffic.loss_percent,
            Metric::LongestGap => traffic.longest_gap_ms,
            Metric::RttMedian => traffic.latency.as_ref().map(|latency| latency.p50_ms),
            Metric::Rtt99 => traffic.latency.as_ref().map(|latency| latency.p99_ms),
            Metric::ExitStatus => None,
        };
    };
    match metric {
        Metric::Goodput => Some(window.mean_rate(&traffic.goodput_series_mbps)),
        Metric::Bytes => Some(window.bytes(&traffic.goodput_series_mbps)),
        Metric::Loss => mean(window.of(&traffic.loss_series_percent)),
        Metric::LongestGap => window.of(&traffic.gap_series_ms).reduce(f64::max),
        Metric::RttMedian => window.percentile(traffic.latency.as_ref()?, 50),
        Metric::Rtt99 => window.percentile(traffic.latency.as_ref()?, 99),
        Metric::ExitStatus => None,
    }
}

fn of_link(link: &LinkResult, metric: Metric, window: Option<Window>, duration_s: f64) -> Option<f64> {
    match (metric, window) {
        (Metric::Goodput, None) => Some(link.rate_mbps),
        (Metric::Goodput, Some(window)) => Some(window.mean_rate(&link.rate_series_mbps)),
        (Metric::Bytes, None) => Some(link.rate_mbps * duration_s * 1e6 / 8.0),
        (Metric::Bytes, Some(window)) => Some(window.bytes(&link.rate_series_mbps)),
        (Metric::Loss, None) => Some(link.lost_percent + link.dropped_percent),
        (Metric::Loss, Some(window)) => mean(window.of(&link.loss_series_percent)),
        (Metric::LongestGap | Metric::RttMedian | Metric::Rtt99 | Metric::ExitStatus, _) => None,
    }
}

fn of_program(exit_status: Option<i32>, metric: Metric) -> Option<f64> {
    match metric {
        Metric::ExitStatus => exit_status.map(f64::from),
        Metric::Goodput
        | Metric::Bytes
        | Metric::Loss
        | Metric::LongestGap
        | Metric::RttMedian
        | Metric::Rtt99 => None,
    }
}

/// A part of the run, in seconds, and the interval of all series.
#[derive(Clone, Copy, Debug)]
struct Window {
    from: f64,
    to: f64,
    interval: f64,
}

impl Window {
    fn new([from, to]: [Duration; 2], interval: Duration) -> Self {
        Self { from: from.as_secs_f64(), to: to.as_secs_f64(), interval: interval.as_secs_f64() }
    }

    /// The mean of a rate, in Mbit/s; it is 0 where the series says nothing.
    fn mean_rate(self, series: &[Sample]) -> f64 {
        self.megabits(series) / (self.to - self.from)
    }

    fn bytes(self, series: &[Sample]) -> f64 {
        self.megabits(series) * 1e6 / 8.0
    }

    fn megabits(self, series: &[Sample]) -> f64 {
        let overlap = |sample: &Sample| {
            let (start, end) = (sample.at_s - self.interval, sample.at_s);
            (end.min(self.to) - start.max(self.from)).max(0.0)
        };
        series.iter().map(|sample| sample.value * overlap(sample)).sum()
    }

    /// The values of the intervals that end in it.
    fn of(self, series: &[Sample]) -> impl Iterator<Item = f64> {
        series
            .iter()
            .filter(move |sample| self.from < sample.at_s && sample.at_s <= self.to)
            .map(|it| it.value)
    }

    fn percentile(self, latency: &Distribution, share: usize) -> Option<f64> {
        let mut values: Vec<_> = self.of(&latency.samples_ms).collect();
        values.sort_unstable_by(f64::total_cmp);
        (!values.is_empty()).then(|| percentile(&values, share))
    }
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, count) = values.fold((0.0, 0_u32), |(sum, count), value| (sum + value, count + 1));
    (count > 0).then(|| sum / f64::from(count))
}

#[cfg(test)]
mod tests;
