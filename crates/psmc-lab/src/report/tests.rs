use std::fs;

use super::*;
use crate::results::{
    CheckResult, Distribution, EventResult, LinkResult, Mode, PathResult, ProgramResult, Sample,
    TrafficResult,
};

/// Ten seconds over two links, one of which is cut in the middle.
fn results() -> Results {
    Results {
        scenario: "fibre and LTE".to_owned(),
        mode: Mode::Real,
        seed: 7,
        duration_s: 10.0,
        traffic: vec![
            TrafficResult {
                kind: "tcp".to_owned(),
                bytes: 61_234_567,
                goodput_mbps: 48.987,
                goodput_series_mbps: series(|at| if (5.0..8.0).contains(&at) { 28.0 } else { 57.0 }),
                longest_gap_ms: Some(62.5),
                ..silent("download")
            },
            TrafficResult {
                kind: "ping".to_owned(),
                sent: Some(100),
                loss_percent: Some(2.0),
                reordered_percent: Some(0.0),
                latency: Some(distribution()),
                ..silent("ping")
            },
            TrafficResult { error: Some("nobody listens at 10.0.0.1".to_owned()), ..silent("upload") },
        ],
        links: vec![link("fibre", 29.5, 0.0), link("lte", 19.1, 0.53)],
        paths: vec![path("fibre", 30.0, Some(5.0..8.0)), path("lte", 28.5, None)],
        sites: Vec::new(),
        programs: vec![
            ProgramResult {
                name: "web".to_owned(),
                exit_status: None,
                log: "logs/web.log".to_owned(),
                output: None,
            },
            ProgramResult {
                name: "curl".to_owned(),
                exit_status: Some(0),
                log: "logs/curl.log".to_owned(),
                output: None,
            },
        ],
        events: vec![event(5.0, "cut fibre"), event(8.0, "restore fibre")],
        checks: vec![
            CheckResult {
                what: "download: goodput at least 45 Mbit/s".to_owned(),
                value: Some(48.987),
                ok: true,
            },
            CheckResult { what: "ping: p99 at most 40 ms".to_owned(), value: None, ok: false },
        ],
        stalls: None,
        warnings: vec!["the emulator was late by up to 3.2 ms".to_owned()],
    }
}

fn silent(name: &str) -> TrafficResult {
    TrafficResult {
        name: name.to_owned(),
        kind: "quic".to_owned(),
        bytes: 0,
        goodput_mbps: 0.0,
        goodput_series_mbps: Vec::new(),
        longest_gap_ms: None,
        gap_series_ms: Vec::new(),
        sent: None,
        loss_percent: None,
        loss_series_percent: Vec::new(),
        reordered_percent: None,
        latency: None,
        error: None,
    }
}

fn series(value: impl Fn(f64) -> f64) -> Vec<Sample> {
    let times = (1..=20).map(|tick| f64::from(tick) / 2.0);
    times.map(|at_s| Sample { at_s, value: value(at_s - 0.25) }).collect()
}

fn distribution() -> Distribution {
    let samples_ms = series(|at| 20.0 + (at * 7.0) % 5.0);
    Distribution { min_ms: 20.0, p50_ms: 22.25, p90_ms: 24.0, p99_ms: 24.75, max_ms: 24.8, samples_ms }
}

fn link(name: &str, rate_mbps: f64, lost_percent: f64) -> LinkResult {
    LinkResult {
        name: name.to_owned(),
        from: "van".to_owned(),
        to: "hq".to_owned(),
        packets: 25_000,
        rate_mbps,
        rate_series_mbps: series(|_| rate_mbps),
        lost_percent,
        dropped_percent: 1.25,
        loss_series_percent: Vec::new(),
    }
}

fn path(name: &str, mbps: f64, gone: Option<std::ops::Range<f64>>) -> PathResult {
    let is_gone = |at: f64| gone.as_ref().is_some_and(|gone| gone.contains(&at));
    PathResult {
        tunnel: "office".to_owned(),
        path: name.to_owned(),
        sent_series_mbps: series(|at| if is_gone(at) { 0.0 } else { mbps }),
        received_series_mbps: series(|_| 0.5),
        rtt_series_ms: series(|at| 20.0 + at),
    }
}

fn event(at_s: f64, what: &str) -> EventResult {
    EventResult { at_s, happened_s: at_s + 0.0012, what: what.to_owned() }
}

#[test]
fn people_get_tables() {
    insta::assert_snapshot!(table(&results()));
}

#[test]
fn what_was_not_measured_takes_no_room() {
    let nothing = Results { programs: Vec::new(), checks: Vec::new(), paths: Vec::new(), ..results() };
    let table = table(&nothing);
    assert!(!table.contains("PROGRAM") && !table.contains("CHECK") && !table.contains("TUNNEL"), "{table}");
}

#[test]
fn programs_get_back_what_was_measured() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("results.json");
    write_json(&results(), &file).unwrap();
    let read: Results = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    assert_eq!(read, results());
}

#[test]
fn a_file_that_cannot_be_written_is_named() {
    let error = write_json(&results(), Path::new("/nowhere/results.json")).unwrap_err();
    assert_eq!(error.to_string(), "cannot write /nowhere/results.json");
}

#[test]
fn everything_with_a_series_is_drawn() {
    let directory = tempfile::tempdir().unwrap();
    let files = write_plots(&results(), &directory.path().join("plots")).unwrap();
    let names: Vec<_> = files.iter().map(|file| file.file_name().unwrap().to_str().unwrap()).collect();
    assert_eq!(names, ["goodput.svg", "links.svg", "rtt.svg", "latency-cdf.svg", "paths-office.svg"]);
    for file in &files {
        let svg = fs::read_to_string(file).unwrap();
        assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"), "{}", file.display());
    }
}

#[test]
fn a_plot_says_what_it_shows() {
    let figures = figures::of(&results());
    let words: Vec<_> = figures.iter().map(|(name, figure)| (name, words(&figure.svg().unwrap()))).collect();
    insta::assert_debug_snapshot!(words);
}

#[test]
fn the_edges_of_stacked_paths_are_their_sums() {
    let figures = figures::of(&results());
    let (_, paths) = figures.iter().find(|(name, _)| name == "paths-office.svg").unwrap();
    let heights = |at: f64| {
        let at_time = |series: &plot::Series| series.points.iter().find(|point| point.0 > at).unwrap().1;
        paths.series.iter().map(at_time).collect::<Vec<_>>()
    };
    assert_eq!([heights(1.0), heights(6.0), heights(9.0)], [[30.0, 58.5], [0.0, 28.5], [30.0, 58.5]]);
}

#[test]
fn results_without_any_series_give_no_plots() {
    let nothing = Results { traffic: Vec::new(), links: Vec::new(), paths: Vec::new(), ..results() };
    assert_eq!(figures::of(&nothing), Vec::new());
}

/// The texts of a drawing that are no numbers.
fn words(svg: &str) -> Vec<String> {
    let lines = svg.lines().filter(|line| !line.starts_with('<') && line.parse::<f64>().is_err());
    lines.filter(|line| !line.is_empty()).map(str::to_owned).collect()
}
