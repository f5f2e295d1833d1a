//! Checks of results that were made up.

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
        assert_eq!(check(&format!("traffic = '{}'\n{text}", stream_of(text))), (Some(value), ok), "{text}");
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
    assert_eq!(check("link = 'dsl'\ndirection = 'back'\ngoodput = { at_most = '1mbit' }"), (Some(0.5), true));
    assert_eq!(check("link = 'dsl'\ndirection = 'forward'\nloss = { at_most = '1%' }"), (Some(3.0), false));
    assert_eq!(check("program = 'web'\nexit_status = 0"), (Some(3.0), false));
    assert_eq!(check("program = 'web'\nexit_status = 3"), (Some(3.0), true));
}

#[test]
fn what_was_not_measured_does_not_hold() {
    let link_in_window =
        "link = 'dsl'\ndirection = 'forward'\nloss = { at_most = '100%' }\nbetween = ['1s', '2s']";
    assert_eq!(check(link_in_window), (None, false));
}
