use std::path::Path;

use super::*;
use crate::results::{Mode, TrafficResult};
use crate::scenario::Scenario;

/// A lab in which every download gets the same, in kB/s, whatever the network.
struct Same {
    kilobytes: f64,
    asked: Vec<String>,
}

impl Runner for Same {
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results> {
        Scenario::parse(scenario, Path::new(name)).unwrap_or_else(|error| panic!("{name}: {error}"));
        self.asked.push(name.to_owned());
        Some(results(self.kilobytes * 8.0 / 1000.0))
    }
}

/// A lab in which nothing works.
struct Broken;

impl Runner for Broken {
    fn run(&mut self, _: &str, _: &str) -> Option<Results> {
        None
    }
}

fn results(goodput_mbps: f64) -> Results {
    let download = TrafficResult {
        name: "download".to_owned(),
        kind: "tcp".to_owned(),
        bytes: 0,
        goodput_mbps,
        goodput_series_mbps: Vec::new(),
        longest_gap_ms: None,
        gap_series_ms: Vec::new(),
        sent: None,
        loss_percent: None,
        loss_series_percent: Vec::new(),
        reordered_percent: None,
        latency: None,
        error: None,
    };
    Results {
        scenario: String::new(),
        mode: Mode::Real,
        seed: 1,
        duration_s: 10.0,
        traffic: vec![download],
        links: Vec::new(),
        paths: Vec::new(),
        programs: Vec::new(),
        events: Vec::new(),
        checks: Vec::new(),
        warnings: Vec::new(),
    }
}

fn run(name: &str, runner: &mut dyn Runner, only: &[&str]) -> Report {
    let only = only.iter().map(|&part| part.to_owned()).collect();
    Experiment::find(name).unwrap().run(&mut Setup { runner, seconds: None, only })
}

fn labels(report: &Report) -> Vec<&str> {
    report.rows.iter().map(|row| row.label.as_str()).collect()
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = EXPERIMENTS.iter().map(|experiment| experiment.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), EXPERIMENTS.len());
}

#[test]
fn every_cell_of_a_table_is_a_row() {
    let mut lab = Same { kilobytes: 100.0, asked: Vec::new() };
    let rows = |name: &str, lab: &mut Same| run(name, lab, &[]).rows.len();
    let names = ["watson-table-4.4", "watson-table-4.6", "watson-table-4.8", "watson-table-4.10"];
    assert_eq!(names.map(|name| rows(name, &mut lab)), [14, 7, 70, 35]);
    assert_eq!(lab.asked.len(), 14 + 7 + 70 + 70);
}

#[test]
fn ours_must_reach_the_limit_and_not_suffer_from_the_buffer() {
    let mut lab = Same { kilobytes: 96.0, asked: Vec::new() };
    let report =
        run("watson-table-4.8", &mut lab, &["1 node, 100 kB/s", "2 nodes, 50 kB/s, buffer", "2 nodes, 100"]);
    insta::assert_snapshot!(report.text());
    insta::assert_snapshot!(report.markdown());
}

#[test]
fn programs_get_one_object() {
    let mut lab = Same { kilobytes: 19.3, asked: Vec::new() };
    let report = run("watson-table-4.4", &mut lab, &[", 20 kB/s", "direct, 50 kB/s"]);
    insta::assert_snapshot!(serde_json::to_string_pretty(&report.json()).unwrap());
    assert!(!report.is_ok());
}

#[test]
fn what_is_not_asked_for_is_not_run() {
    let mut lab = Same { kilobytes: 20.0, asked: Vec::new() };
    let report = run("watson-table-4.8", &mut lab, &["3 nodes, 20 kB/s, no buffer"]);
    assert_eq!(labels(&report), ["3 nodes, 20 kB/s, no buffer"]);
    assert_eq!(lab.asked, ["nodes-3-20-off", "nodes-3-20-deadline"]);
    assert!(!run("watson-table-4.4", &mut lab, &["nonsense"]).is_ok(), "no row is no proof");
}

#[test]
fn a_run_that_fails_is_not_ok() {
    let report = run("watson-table-4.4", &mut Broken, &["direct, 20 kB/s"]);
    assert_eq!(report.rows[0].ours, None);
    assert!(!report.is_ok());
}

#[test]
fn the_list_has_every_experiment() {
    insta::assert_snapshot!(list());
}
