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
            Metric::Rtt99 | Metric::Delay99 => traffic.latency.as_ref().map(|latency| latency.p99_ms),
            Metric::ExitStatus => None,
        };
    };
    match metric {
        Metric::Goodput => Some(window.mean_rate(&traffic.goodput_series_mbps)),
        Metric::Bytes => Some(window.bytes(&traffic.goodput_series_mbps)),
        Metric::Loss => mean(window.of(&traffic.loss_series_percent)),
        Metric::LongestGap => window.of(&traffic.gap_series_ms).reduce(f64::max),
        Metric::RttMedian => window.percentile(traffic.latency.as_ref()?, 50),
        Metric::Rtt99 | Metric::Delay99 => window.percentile(traffic.latency.as_ref()?, 99),
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
        (
            Metric::LongestGap | Metric::RttMedian | Metric::Rtt99 | Metric::Delay99 | Metric::ExitStatus,
            _,
        ) => None,
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
        | Metric::Rtt99
        | Metric::Delay99 => None,
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
mod tests {
    use std::path::Path;

    use super::*;
    use crate::results::{Mode, ProgramResult};

    /// Ten seconds with a value a second: the rate is the number of the second, and every fifth second is bad.
    fn results() -> Results {
        let series = |value: fn(u32) -> f64| -> Vec<Sample> {
            (1..=10).map(|second| Sample { at_s: f64::from(second), value: value(second) }).collect()
        };
        let stream = TrafficResult {
            name: "stream".to_owned(),
            kind: "udp".to_owned(),
            bytes: 6_875_000,
            goodput_mbps: 5.5,
            goodput_series_mbps: series(f64::from),
            longest_gap_ms: Some(200.0),
            gap_series_ms: series(|second| f64::from(second) * 20.0),
            sent: Some(100),
            loss_percent: Some(2.0),
            loss_series_percent: series(|second| if second.is_multiple_of(5) { 10.0 } else { 0.0 }),
            reordered_percent: None,
            latency: Some(Distribution {
                min_ms: 1.0,
                p50_ms: 5.0,
                p90_ms: 9.0,
                p99_ms: 10.0,
                max_ms: 10.0,
                samples_ms: series(f64::from),
            }),
            error: None,
        };
        Results {
            scenario: "checks".to_owned(),
            mode: Mode::Real,
            seed: 1,
            duration_s: 10.0,
            // One of each of the two kinds that checks tell apart.
            traffic: vec![stream.clone(), stream],
            links: ["a", "b"].map(|from| link(from, series(f64::from))).into(),
            paths: Vec::new(),
            sites: Vec::new(),
            programs: vec![ProgramResult {
                name: "web".to_owned(),
                exit_status: Some(3),
                log: String::new(),
                output: None,
            }],
            events: Vec::new(),
            checks: Vec::new(),
            stalls: None,
            warnings: Vec::new(),
        }
    }

    fn link(from: &str, rate: Vec<Sample>) -> LinkResult {
        LinkResult {
            name: "dsl".to_owned(),
            from: from.to_owned(),
            to: String::new(),
            packets: 1000,
            rate_mbps: if from == "a" { 5.5 } else { 0.5 },
            rate_series_mbps: rate,
            lost_percent: 1.0,
            dropped_percent: 2.0,
            loss_series_percent: Vec::new(),
        }
    }

    /// What a check measures, and whether it holds.
    fn check(text: &str) -> (Option<f64>, bool) {
        let scenario = format!(
            "[scenario]\nname = 'checks'\nduration = '10s'\nsample = '1s'\n\
             [[link]]\nname = 'dsl'\nbetween = ['a', 'b']\n\
             [[program]]\nname = 'web'\nhost = 'a'\ncommand = ['true']\n\
             [[traffic]]\nname = 'stream'\nkind = 'udp'\nrate = '1mbit'\nfrom = 'a'\nto = 'b'\n\
             [[traffic]]\nname = 'ping'\nkind = 'ping'\nfrom = 'a'\nto = 'b'\n\
             [[check]]\n{text}\n"
        );
        let scenario = Scenario::parse(&scenario, Path::new("checks.toml"));
        let scenario = scenario.unwrap_or_else(|error| panic!("{}", error.render(false)));
        let CheckResult { value, ok, .. } = evaluate(&scenario, &results()).remove(0);
        // What was computed from decimal fractions.
        (value.map(|value| (value * 1e6).round() / 1e6), ok)
    }

    /// The stream that has what a check is about.
    fn stream_of(check: &str) -> &'static str {
        if check.starts_with("rtt") { "ping" } else { "stream" }
    }

    #[test]
    fn the_whole_run_is_what_the_totals_say() {
        let cases = [
            ("goodput = { at_least = '5500kbit' }", 5.5, true),
            ("goodput = { at_least = '5600kbit' }", 5.5, false),
            ("bytes = { at_most = '1MB' }", 6_875_000.0, false),
            ("loss = { at_most = '2%' }", 2.0, true),
            ("longest_gap = { at_most = '199ms' }", 200.0, false),
            ("rtt_median = { between = ['4ms', '6ms'] }", 5.0, true),
            ("rtt_99 = { between = ['4ms', '6ms'] }", 10.0, false),
        ];
        for (text, value, ok) in cases {
            assert_eq!(
                check(&format!("traffic = '{}'\n{text}", stream_of(text))),
                (Some(value), ok),
                "{text}"
            );
        }
    }

    #[test]
    fn a_window_counts_as_far_as_it_goes() {
        let cases = [
            // The seconds that end at 3 and 4.
            ("goodput = { at_least = '3500kbit' }", "'2s', '4s'", 3.5),
            // Half of the third second and a quarter of the fifth.
            ("goodput = { at_least = '1mbit' }", "'2500ms', '4250ms'", (1.5 + 4.0 + 1.25) / 1.75),
            ("bytes = { at_least = '1B' }", "'2s', '4s'", 7.0 * 1e6 / 8.0),
            ("loss = { at_most = '100%' }", "'2s', '6s'", 2.5),
            ("longest_gap = { at_most = '1s' }", "'2s', '4s'", 80.0),
            ("rtt_median = { at_most = '1s' }", "'2s', '7s'", 5.0),
        ];
        for (text, window, value) in cases {
            let stream = stream_of(text);
            let (measured, ok) = check(&format!("traffic = '{stream}'\n{text}\nbetween = [{window}]"));
            assert!(ok && (measured.unwrap() - value).abs() < 1e-5, "{text}: {measured:?}");
        }
    }

    #[test]
    fn links_and_programs_are_looked_at_as_well() {
        assert_eq!(
            check("link = 'dsl'\ndirection = 'back'\ngoodput = { at_most = '1mbit' }"),
            (Some(0.5), true)
        );
        assert_eq!(
            check("link = 'dsl'\ndirection = 'forward'\nloss = { at_most = '1%' }"),
            (Some(3.0), false)
        );
        assert_eq!(check("program = 'web'\nexit_status = 0"), (Some(3.0), false));
        assert_eq!(check("program = 'web'\nexit_status = 3"), (Some(3.0), true));
    }

    #[test]
    fn what_was_not_measured_does_not_hold() {
        let link_in_window =
            "link = 'dsl'\ndirection = 'forward'\nloss = { at_most = '100%' }\nbetween = ['1s', '2s']";
        assert_eq!(check(link_in_window), (None, false));
    }
}
