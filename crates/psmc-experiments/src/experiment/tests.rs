use std::path::Path;
use std::time::Duration;

use super::*;
use psmc_lab::measure::PathSeries;
use psmc_lab::results::{Mode, Sample, TrafficResult};
use psmc_lab::scenario::{Scenario, Traffic};

/// A lab in which every stream gets the same, in kB/s, whatever the network.
struct Same {
    kilobytes: f64,
    asked: Vec<String>,
}

impl Runner for Same {
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results> {
        let scenario = Scenario::parse(scenario, Path::new(name));
        let scenario = scenario.unwrap_or_else(|error| panic!("{name}: {}", error.render(false)));
        self.asked.push(name.to_owned());
        Some(results(&scenario, self.kilobytes * 8.0 / 1000.0))
    }
}

/// A lab in which every stream gets as many kB/s as its scenario's seed says, tenfold.
struct BySeed {
    asked: Vec<String>,
}

impl Runner for BySeed {
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results> {
        let mut lab = Same { kilobytes: 0.0, asked: Vec::new() };
        let seed = Scenario::parse(scenario, Path::new(name)).ok()?.seed;
        lab.kilobytes = 10.0 * f64::from(u32::try_from(seed).ok()?);
        self.asked.push(name.to_owned());
        lab.run(name, scenario)
    }
}

/// A lab in which nothing works.
struct Broken;

impl Runner for Broken {
    fn run(&mut self, _: &str, _: &str) -> Option<Results> {
        None
    }
}

fn results(scenario: &Scenario, goodput_mbps: f64) -> Results {
    let ends = (1..=scenario.duration.as_secs()).map(|second| Duration::from_secs(second).as_secs_f64());
    let series: Vec<_> = ends.map(|at_s| Sample { at_s, value: goodput_mbps }).collect();
    let stream = |traffic: &Traffic| TrafficResult {
        name: traffic.name.clone(),
        kind: traffic.kind.name().to_owned(),
        bytes: 0,
        goodput_mbps,
        goodput_series_mbps: series.clone(),
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
        traffic: scenario.traffic.iter().map(stream).collect(),
        links: Vec::new(),
        paths: scenario.tunnels.iter().flat_map(PathSeries::of_tunnel).map(PathSeries::into_result).collect(),
        sites: Vec::new(),
        programs: Vec::new(),
        events: Vec::new(),
        checks: Vec::new(),
        stalls: None,
        warnings: Vec::new(),
    }
}

fn run(name: &str, runner: &mut dyn Runner, only: &[&str]) -> Report {
    let only = only.iter().map(|&part| part.to_owned()).collect();
    let mut setup = Setup { only, ..Setup::new(runner) };
    Experiment::find(name).unwrap().run(&mut setup, Some(1))
}

fn labels(report: &Report) -> Vec<&str> {
    report.rows.iter().map(|row| row.label.as_str()).collect()
}

#[test]
fn names_are_unique() {
    let mut names: Vec<_> = experiments().map(|experiment| experiment.name).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), experiments().count());
}

#[test]
fn every_experiment_writes_scenarios_that_can_be_read() {
    for experiment in experiments().filter(|experiment| !experiment.is_computed()) {
        let mut lab = Same { kilobytes: 100.0, asked: Vec::new() };
        assert!(!run(experiment.name, &mut lab, &[]).rows.is_empty(), "{}", experiment.name);
        assert!(!lab.asked.is_empty(), "{}", experiment.name);
    }
}

#[test]
fn rates_over_paths_count_whole_packets() {
    // 1372 bytes of payload in packets of 1400.
    let mut lab = Same { kilobytes: 245.0, asked: Vec::new() };
    insta::assert_snapshot!(run("psmc-table-4.6a", &mut lab, &["1 path", "2 paths"]).text());
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
fn what_is_measured_several_times_is_the_median() {
    let mut lab = BySeed { asked: Vec::new() };
    let mut setup = Setup { only: vec!["direct, 20 kB/s".to_owned()], ..Setup::new(&mut lab) };
    let report = Experiment::find("watson-table-4.4").unwrap().run(&mut setup, Some(3));
    insta::assert_snapshot!(report.text());
    insta::assert_snapshot!(serde_json::to_string_pretty(&report.json()).unwrap());
    assert_eq!(lab.asked, ["direct-20-1", "direct-20-2", "direct-20-3"]);
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
fn a_row_that_is_compared_with_others_brings_their_runs() {
    let mut lab = Same { kilobytes: 20.0, asked: Vec::new() };
    let report = run("psmc-fig-4.5a", &mut lab, &["(1, 1/8), buffer"]);
    assert_eq!(labels(&report), ["(1, 1/8), buffer"]);
    assert_eq!(lab.asked, ["uneven-1-0-deadline", "uneven-1-625-off", "uneven-1-625-deadline"]);
}

#[test]
fn selections_are_compared_without_a_lab() {
    let quality = run("psmc-fig-5.8", &mut Broken, &["20(10), the sound objective"]);
    assert_eq!(quality.rows.len(), 9);
    assert!(quality.is_ok(), "{}", quality.text());
    let growth = run("psmc-fig-5.7", &mut Broken, &["growth"]);
    assert!(growth.is_ok(), "{}", growth.text());
    let real = run("psmc-table-5.1", &mut Broken, &["result"]);
    assert!(real.is_ok(), "{}", real.text());
}

#[test]
fn large_networks_are_simulated_without_a_lab() {
    for (name, rows) in [("psmc-fig-3.8", 8), ("psmc-fig-3.9", 7)] {
        let report = run(name, &mut Broken, &["200 nodes"]);
        assert!(report.is_ok() && report.rows.len() == rows, "{}", report.text());
    }
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

#[test]
fn attacks_are_seen_without_a_lab() {
    for (name, rows) in [("qos-fig-5", 15), ("qos-fig-6", 19), ("qos-fig-7", 26)] {
        let report = run(name, &mut Broken, &[]);
        println!("{}", report.text());
        assert!(report.is_ok() && report.rows.len() == rows, "{}", report.text());
    }
}

#[test]
fn a_bad_segment_is_named_without_a_lab() {
    insta::assert_snapshot!(run("sla-segments", &mut Broken, &[]).text());
}

#[test]
fn stripes_are_near_to_their_bound_without_a_lab() {
    let report = run("qos-stripes", &mut Broken, &["20, 6, 8, "]);
    println!("{}", report.text());
    assert!(report.is_ok() && report.rows.len() == 6, "{}", report.text());
}

/// A short run: UDP that is lost further on leaves its room to TCP only where it is held down, and still fills its bottleneck.
#[test]
fn unresponsive_flows_are_held_down_without_a_lab() {
    let only = ["2 Mb/s, no control, TCP", "2 Mb/s, our control, TCP", "2 Mb/s, our control, UDP"];
    let only = only.into_iter().chain(["1 Mb/s, BBR, our control, TCP"]).map(str::to_owned).collect();
    let mut lab = Broken;
    let mut setup = Setup { only, seconds: Some(5), ..Setup::new(&mut lab) };
    let report = Experiment::find("qos-fig-10").unwrap().run(&mut setup, Some(1));
    println!("{}", report.text());
    let rates: Vec<f64> = report.rows.iter().filter_map(|row| row.ours).collect();
    let [without, tcp, udp, bbr, ..] = rates[..] else { panic!("four rows at least") };
    assert!((4.5..5.5).contains(&without), "{without}");
    assert!(tcp >= 7.5 && udp >= 1.8, "{tcp} and {udp} of 8 and 2");
    assert!(bbr >= 8.4, "{bbr} of 9: nobody takes it for unresponsive");
}

/// A short run: in three domains of 250 flows no bottleneck lies idle, however packets are marked, and whether TCP is Reno or BBR.
#[test]
fn conditioners_keep_bottlenecks_full_without_a_lab() {
    let only = ["50 flows, ours", "50 flows, FQ-CoDel", "50 flows of BBR, ours"].map(str::to_owned).into();
    let mut lab = Broken;
    let mut setup = Setup { only, seconds: Some(5), ..Setup::new(&mut lab) };
    let report = Experiment::find("qos-table-1").unwrap().run(&mut setup, Some(1));
    println!("{}", report.text());
    let used = report.rows.iter().filter(|row| row.label.ends_with("used")).filter_map(|row| row.ours);
    let used: Vec<f64> = used.collect();
    assert!(used.len() == 3 && used.iter().all(|used| (85.0..101.0).contains(used)), "{used:?}");
}

/// A short run: what an overloaded server would drop is dropped before it fills the links, and others gain by that.
#[test]
fn shedding_upstream_frees_links_without_a_lab() {
    let mut lab = Broken;
    let only = vec!["400 connections".to_owned()];
    let mut setup = Setup { only, seconds: Some(20), ..Setup::new(&mut lab) };
    let report = Experiment::find("drain-fig-10").unwrap().run(&mut setup, Some(1));
    assert!(report.is_ok() && report.rows.len() == 6, "{}", report.text());
}

#[test]
fn servers_follow_shifts_of_demand_without_a_lab() {
    let report = run("drain-shift", &mut Broken, &[]);
    assert!(report.is_ok() && report.rows.len() == 10, "{}", report.text());
    let idle = |label: &str| report.rows.iter().find(|row| row.label == label).and_then(|row| row.ours);
    let seeds = idle("the seed's, idle from 1 to 2 s after it").unwrap();
    assert!(seeds > 50.0, "the network is one in which a server can be left idle: {seeds}");
}

/// Short runs: where precedence alone would do more than is asked for, the ratio is what is asked for.
#[test]
fn ratios_of_response_times_are_held_without_a_lab() {
    let report = run("psmc-fig-6.6", &mut Broken, &["load 90 %"]);
    assert!(report.is_ok() && report.rows.len() == 12, "{}", report.text());
    let ours = |label: &str| report.rows.iter().find(|row| row.label == label).and_then(|row| row.ours);
    let [seed, ours] =
        ["eq. 6.4", "ours, idling"].map(|name| ours(&format!("load 90 %, {name}, spread")).unwrap());
    assert!(seed > 3.0 * ours, "the seed's spread is a multiple of ours: {seed} and {ours}");
}

#[test]
fn at_twice_what_a_server_can_do_the_first_class_is_served_without_a_lab() {
    let report = run("psmc-front-overload", &mut Broken, &["eight processors"]);
    assert!(report.is_ok() && report.rows.len() == 15, "{}", report.text());
}
