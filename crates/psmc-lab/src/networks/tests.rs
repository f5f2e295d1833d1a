use super::record::Record;
use super::*;
use crate::results::{Distribution, Mode, Results, TrafficResult};
use crate::scenario::Scenario;

/// A lab in which each seed has its figures: a tunnel gets less, and pings take longer, the larger the seed is.
struct Plausible {
    best: f64,
}

impl Runner for Plausible {
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results> {
        let [_, seed, what] = name.split('-').collect::<Vec<_>>()[..] else { return None };
        let number: f64 = seed.parse().ok()?;
        assert!(scenario.contains(&format!("seed = {seed}")));
        match (what, seed) {
            // This one fails.
            ("tunnel", "13") => None,
            ("tunnel", _) => Some(results(self.best - number, Some(20.0 + 8.0 * number))),
            _ => Some(results(20.0, None)),
        }
    }
}

fn results(goodput_mbps: f64, p99_ms: Option<f64>) -> Results {
    let latency = p99_ms.map(|p99_ms| Distribution {
        min_ms: 5.0,
        p50_ms: p99_ms / 2.0,
        p90_ms: p99_ms,
        p99_ms,
        max_ms: p99_ms,
        samples_ms: Vec::new(),
    });
    Results {
        scenario: String::new(),
        mode: Mode::Simulated,
        seed: 1,
        duration_s: 12.0,
        traffic: vec![stream("download", goodput_mbps, None), stream("ping", 0.0, latency)],
        links: Vec::new(),
        paths: Vec::new(),
        sites: Vec::new(),
        programs: Vec::new(),
        events: Vec::new(),
        checks: Vec::new(),
        stalls: None,
        warnings: Vec::new(),
    }
}

fn stream(name: &str, goodput_mbps: f64, latency: Option<Distribution>) -> TrafficResult {
    TrafficResult {
        name: name.to_owned(),
        kind: String::new(),
        bytes: 0,
        goodput_mbps,
        goodput_series_mbps: Vec::new(),
        longest_gap_ms: None,
        gap_series_ms: Vec::new(),
        sent: None,
        loss_percent: None,
        loss_series_percent: Vec::new(),
        reordered_percent: None,
        latency,
        error: None,
    }
}

fn plan(flow: Flow) -> Plan {
    Plan { source: Source::Drawn { seeds: (1..=14).collect(), wider: false }, flow, seconds: 10 }
}

fn record(flow: Flow, best: f64) -> Record {
    let plan = plan(flow);
    let networks =
        plan.numbers().iter().filter_map(|&seed| plan.measure(seed, &mut Plausible { best }, None));
    plan.record(networks.collect(), false)
}

#[test]
fn people_get_tables() {
    let (flow, flood) = (record(Flow::Tcp(Inner::Cubic), 28.0), record(Flow::Flood, 28.0));
    insta::assert_snapshot!(Report { record: &flow, other: None }.text());
    insta::assert_snapshot!(Report { record: &flood, other: None }.markdown());
    let ended = record(Flow::Split(Inner::Cubic), 28.0);
    insta::assert_snapshot!(Report { record: &ended, other: None }.text());
}

#[test]
fn two_builds_are_compared_seed_by_seed() {
    let [before, now] = [28.0, 30.0].map(|best| record(Flow::Tcp(Inner::Cubic), best));
    let mut before = before;
    // One that is not there, and one that was another network.
    before.networks.remove(3);
    before.networks[3].spec.clear();
    before.keep_common(&now);
    assert_eq!(before.len(), 11);
    insta::assert_snapshot!(Report { record: &now, other: Some(("before", &before)) }.text());
}

#[test]
fn a_network_of_which_a_run_failed_has_no_figures() {
    let record = record(Flow::Tcp(Inner::Reno), 28.0);
    assert_eq!(record.len(), 13);
    assert!(record.networks.iter().all(|network| network.seed != 13));
}

#[test]
fn a_record_is_read_again_only_beside_its_like() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("before.json");
    let record = record(Flow::Tcp(Inner::Cubic), 28.0);
    crate::report::write_json(&record, &path).unwrap();
    assert_eq!(plan(Flow::Tcp(Inner::Cubic)).record(Vec::new(), true).load_like(&path).unwrap(), record);
    let error = plan(Flow::Flood).record(Vec::new(), false).load_like(&path).unwrap_err().to_string();
    assert!(error.contains("cubic, 10 s") && error.contains("flood, 10 s"), "{error}");
    std::fs::write(&path, "{}").unwrap();
    let error = record.load_like(&path).unwrap_err().to_string();
    assert!(error.contains("before.json is no file that"), "{error}");
}

#[test]
fn programs_get_an_object() {
    let record = Record {
        networks: record(Flow::Tcp(Inner::Bbr), 28.0).networks[..1].to_vec(),
        ..record(Flow::Tcp(Inner::Bbr), 28.0)
    };
    insta::assert_snapshot!(serde_json::to_string_pretty(&record).unwrap());
}

#[test]
fn the_plot_shows_both_ratios_of_both_builds() {
    let record = record(Flow::Tcp(Inner::Cubic), 28.0);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("networks.svg");
    Report { record: &record, other: Some(("before", &record)) }.write_plot(&file).unwrap();
    let svg = std::fs::read_to_string(&file).unwrap();
    for words in ["of the best link alone, before", "of the sum of the links", "random networks, 13 of them"]
    {
        assert!(svg.contains(words), "{words}");
    }
}

#[test]
fn the_user_can_see_what_is_run() {
    let scenarios = |flow: Flow| plan(flow).case(1, None).unwrap().trials;
    let all = [Flow::Tcp(Inner::Cubic), Flow::Split(Inner::Cubic), Flow::Flood].map(scenarios);
    for trial in all.iter().flatten() {
        let scenario = Scenario::parse(&trial.scenario, Path::new("trial"));
        scenario.unwrap_or_else(|error| panic!("{}: {error}", trial.name));
    }
    insta::assert_snapshot!(scenarios(Flow::Tcp(Inner::Cubic))[1].scenario);
    insta::assert_snapshot!(scenarios(Flow::Flood)[0].scenario);
    let [ended, _, flood] = &scenarios(Flow::Split(Inner::Cubic))[..] else { panic!("three ways") };
    assert!(ended.scenario.contains("tcp = \"split\"") && !flood.scenario.contains("split"));
}

#[test]
fn so_many_scenarios_are_run_as_were_announced() {
    for flow in [Flow::Tcp(Inner::Cubic), Flow::Split(Inner::Bbr), Flow::Flood] {
        let plan = plan(flow);
        let cases = plan.numbers().iter().map(|&seed| plan.case(seed, None).unwrap().trials.len());
        assert_eq!(cases.sum::<usize>(), plan.scenarios());
    }
}

#[test]
fn each_item_has_its_outcome_in_its_place() {
    let items: Vec<u32> = (0..1000).collect();
    let squares: Vec<_> = items.iter().map(|item| item * item).collect();
    assert_eq!(map(&items, |item| item * item), squares);
    assert!(map(&[], |item: &u32| *item).is_empty());
}
