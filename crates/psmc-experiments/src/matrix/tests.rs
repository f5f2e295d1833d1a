use super::*;
use psmc_lab::bench::Spread;
use psmc_lab::results::{Distribution, Mode, Results, TrafficResult};
use psmc_lab::scenario::Scenario;

/// A lab in which a flow over both paths gets most of their rates, and each run a little more than the one before.
struct Plausible;

impl Runner for Plausible {
    fn run(&mut self, name: &str, _: &str) -> Option<Results> {
        let (name, run) = name.rsplit_once('-')?;
        let profile = PROFILES.into_iter().find(|profile| name.starts_with(profile.name))?;
        let [a, b] = profile.paths.map(|path| f64::from(path.mbps));
        let rate = if name.ends_with("path-a") {
            a
        } else if name.ends_with("path-b") {
            b
        } else if name.ends_with("mptcp") {
            (a + b) * 0.8
        } else if name.ends_with("split") {
            (a + b) * 0.94
        } else {
            (a + b) * 0.9
        };
        Some(results(rate + run.parse::<f64>().ok()? / 10.0))
    }
}

fn results(goodput_mbps: f64) -> Results {
    Results {
        scenario: String::new(),
        mode: Mode::Real,
        seed: 1,
        duration_s: 10.0,
        traffic: vec![stream("flow", goodput_mbps, None), ping("idle", 20.5), ping("loaded", 31.25)],
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

fn ping(name: &str, p50_ms: f64) -> TrafficResult {
    let (p90_ms, p99_ms, max_ms) = (p50_ms + 1.0, p50_ms + 2.0, p50_ms + 3.0);
    let latency = Distribution { min_ms: 20.0, p50_ms, p90_ms, p99_ms, max_ms, samples_ms: Vec::new() };
    stream(name, 0.0, Some(latency))
}

fn stream(name: &str, goodput_mbps: f64, latency: Option<Distribution>) -> TrafficResult {
    TrafficResult {
        name: name.to_owned(),
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
        latency,
        error: None,
    }
}

fn plan(profiles: &[&str], runs: u32) -> Plan {
    Plan {
        profiles: profiles.iter().map(|name| Profile::find(name).unwrap()).collect(),
        inners: Inner::ALL.to_vec(),
        peers: Peer::ALL.to_vec(),
        seconds: 10,
        runs,
    }
}

#[test]
fn people_get_a_table() {
    let matrix = plan(&["baseline", "fiber_lte"], 3).measure(&mut Plausible);
    insta::assert_snapshot!(matrix.text());
    insta::assert_snapshot!(matrix.markdown());
}

#[test]
fn what_is_less_than_the_links_should_give_is_marked() {
    let row = |profile| Row::new(Profile::find(profile).unwrap(), Inner::Cubic, &[]);
    let with = |psmc: f64| Row { psmc: Spread::of([psmc]), ..row("baseline") };
    // Of 100 Mb/s, 92.07 are payload.
    let shares =
        |psmc| [with(psmc).of_links(), with(psmc).of_better_link()].map(|share| share.unwrap().suffices());
    assert_eq!([shares(83.0), shares(82.8), shares(45.1)], [[true, true], [false, true], [false, false]]);
    assert_eq!([row("baseline").of_links(), row("baseline").of_better_link()], [None, None]);
}

#[test]
fn programs_get_a_list_of_objects() {
    let matrix = plan(&["bw_4to1"], 1).measure(&mut Plausible);
    insta::assert_snapshot!(serde_json::to_string_pretty(&matrix.json()).unwrap());
}

#[test]
fn what_was_not_asked_for_is_null() {
    let plan = Plan { peers: vec![Peer::Mptcp], inners: vec![Inner::Cubic], ..plan(&["baseline"], 1) };
    let json = serde_json::to_value(plan.measure(&mut Plausible).json()).unwrap();
    assert!(json[0]["path_a_mbps"].is_null() && json[0]["sum_mbps"].is_null());
    assert!(json[0]["mptcp_mbps"].is_f64() && json[0]["psmc_mbps"].is_f64());
}

#[test]
fn ways_alternate_within_a_profile() {
    let plan = Plan { inners: vec![Inner::Cubic, Inner::Quic], ..plan(&["baseline"], 2) };
    let names: Vec<_> = plan.trials().iter().map(Trial::name).collect();
    insta::assert_debug_snapshot!(names);
}

#[test]
fn the_user_can_see_what_was_run() {
    let trial = |inner, way| Trial { profile: Profile::find("dual_lte").unwrap(), inner, way, run: 1 };
    insta::assert_snapshot!(trial(Inner::Bbr, Way::Psmc).scenario(10));
    insta::assert_snapshot!(trial(Inner::Cubic, Way::Mptcp).scenario(10));
    insta::assert_snapshot!(trial(Inner::Quic, Way::PathB).scenario(10));
}

#[test]
fn every_scenario_is_right() {
    for trial in plan(&PROFILES.map(|profile| profile.name), 2).trials() {
        let scenario = Scenario::parse(&trial.scenario(10), Path::new("trial"));
        scenario.unwrap_or_else(|error| panic!("{}: {error}", trial.name()));
    }
}

#[test]
fn the_plot_has_a_panel_for_each_kind_of_flow() {
    let matrix = plan(&["baseline", "rtt_40"], 2).measure(&mut Plausible);
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("matrix.svg");
    matrix.write_plot(&file).unwrap();
    let svg = std::fs::read_to_string(&file).unwrap();
    for word in
        ["TCP with CUBIC", "TCP with BBR", "QUIC with CUBIC", "rtt_40", "goodput (Mbit/s)", "PSMC, TCP ended"]
    {
        assert!(svg.contains(word), "{word}");
    }
    let bars = |colour: &str| svg.matches(&format!("fill=\"{colour}\"")).count();
    // A bar in each of ten groups, and the legend's; MPTCP has none for QUIC and UDP.
    assert_eq!([bars("#CC79A7"), bars("#0072B2"), bars("#D55E00")], [11, 11, 7]);
}
