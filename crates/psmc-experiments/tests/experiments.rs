//! `psmc-experiments matrix` and `psmc-experiments experiment`, as programs call them: what they print, on real packets. These tests
//! need root, for they make network namespaces.

#![expect(clippy::unwrap_used, reason = "a test that cannot read what it gets has failed")]

use std::process::{Command, Output};

use psmc_testbed::stalls::StallWatch;
use psmc_testbed::steadily::{Measured, steadily};
use serde_json::Value;

/// As docs/LAB.md has them, in alphabetical order.
const COLUMNS: [&str; 20] = [
    "better_link_mbps",
    "inner",
    "links_mbps",
    "mptcp_mbps",
    "of_better_link_pct",
    "of_better_link_suffices",
    "of_links_pct",
    "of_links_suffices",
    "path_a_mbps",
    "path_b_mbps",
    "ping_idle_ms",
    "ping_p50_ms",
    "ping_p99_ms",
    "profile",
    "psmc_mbps",
    "split_mbps",
    "split_of_udp_pct",
    "split_ping_p50_ms",
    "split_ping_p99_ms",
    "sum_mbps",
];

const EXPERIMENTS: [&str; 87] = [
    "psmc-table-3.1",
    "psmc-table-3.2",
    "psmc-table-3.4",
    "dns-secondaries",
    "psmc-table-3.5",
    "psmc-table-3.6",
    "psmc-table-3.8",
    "psmc-table-3.3",
    "psmc-table-3.7",
    "psmc-fig-4.2a",
    "psmc-fig-4.2b",
    "psmc-fig-4.3",
    "psmc-fig-4.4",
    "psmc-fig-4.5a",
    "psmc-fig-4.5b",
    "psmc-fig-4.6a",
    "psmc-fig-4.6b",
    "psmc-fig-4.7",
    "psmc-table-4.2",
    "psmc-table-4.3",
    "psmc-table-4.4",
    "psmc-table-4.5",
    "psmc-table-4.6a",
    "psmc-table-4.6b",
    "psmc-table-4.6c",
    "psmc-table-4.7",
    "psmc-video",
    "psmc-mirrors",
    "psmc-fig-3.8",
    "psmc-fig-3.9",
    "psmc-fig-5.7",
    "psmc-fig-5.8",
    "psmc-table-5.1",
    "qos-fig-5",
    "qos-fig-6",
    "qos-fig-7",
    "sla-segments",
    "qos-stripes",
    "qos-fig-9a",
    "qos-fig-9b",
    "qos-table-1",
    "qos-telnet",
    "qos-table-2",
    "qos-fig-10",
    "qos-fig-11",
    "qos-fig-10-real",
    "qos-fig-11-real",
    "unresponsive-rrul",
    "psmc-fig-6.2",
    "psmc-fig-6.3",
    "psmc-fig-6.4",
    "psmc-fig-6.5",
    "psmc-fig-6.6",
    "psmc-fig-6.7",
    "psmc-fig-6.8",
    "psmc-front-traffic",
    "psmc-front-disciplines",
    "psmc-front-step",
    "psmc-front-overload",
    "psmc-front-slow",
    "psmc-front-heavy-tailed",
    "psmc-front-real-overload",
    "psmc-front-real-ratios",
    "psmc-front-real-cost",
    "drain-fig-9",
    "drain-fig-10",
    "drain-fig-11a",
    "drain-fig-11b",
    "drain-fig-11c",
    "drain-shift",
    "router-table-2.1",
    "router-fig-2.4",
    "router-fig-2.6",
    "router-fig-2.7",
    "router-fig-2.8",
    "watson-table-4.4",
    "watson-table-4.6",
    "watson-table-4.8",
    "watson-table-4.10",
    "watson-table-4.2",
    "watson-table-4.12",
    "watson-table-4.14",
    "watson-table-4.16",
    "watson-table-4.18",
    "watson-table-4.20",
    "watson-table-4.22",
    "watson-table-4.24",
];

/// Runs the tool, with the daemon of this workspace beside it.
fn psmc_experiments(arguments: &[&str]) -> Output {
    psmc_testbed::programs::program("psmcd");
    Command::new(env!("CARGO_BIN_EXE_psmc-experiments")).args(arguments).output().unwrap()
}

/// The standard output of a call that must succeed, or only fall short of its criterion.
fn json(output: &Output) -> Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

/// The only row of a matrix of one profile and one kind of flow, with the columns that it must have.
fn row(arguments: &[&str]) -> Value {
    let output = psmc_experiments(&[&["matrix", "--seconds", "2", "--json"], arguments].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let list = json(&output);
    let [row] = list.as_array().unwrap().as_slice() else { panic!("not one row: {list}") };
    let columns: Vec<&String> = row.as_object().unwrap().keys().collect();
    assert_eq!(columns, COLUMNS);
    row.clone()
}

fn number(row: &Value, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("no {column}: {row}"))
}

/// The row of a matrix, each of whose paths alone carries most of its rate while the machine runs: at least this part of it.
/// Headers of IP and TCP take theirs, so that no path ever carries all, and both together carry as much as they do.
fn row_with_paths(arguments: &[&str], least: f64, rate: f64) -> Value {
    let watch = StallWatch::start().unwrap();
    let row = row(arguments);
    let stalls = watch.finish();
    let [a, b, sum] = ["path_a_mbps", "path_b_mbps", "sum_mbps"].map(|it| number(&row, it));
    assert!(a < rate && b < rate, "more than {rate}: {row}");
    // All three are rounded to two decimals.
    assert!((a + b - sum).abs() < 0.02, "{row}");
    assert!(a.min(b) >= stalls.left_of(least * rate), "not {least} of {rate}, with {stalls:?}: {row}");
    row
}

/// What goes over both links is more than nothing and no more than they can carry; pings take the way there and back.
fn assert_tunnel(row: &Value, rate: f64, round_trip: f64) {
    let goodput = number(row, "psmc_mbps");
    assert!(goodput > 0.0 && goodput < 2.0 * rate, "{row}");
    let [idle, median, worst] = ["ping_idle_ms", "ping_p50_ms", "ping_p99_ms"].map(|it| number(row, it));
    assert!(idle >= round_trip && median >= round_trip && worst >= median, "{row}");
    let (links, better) = (number(row, "links_mbps"), number(row, "better_link_mbps"));
    assert!(better < links && links < 2.0 * rate, "{row}");
    // Rounded, like what they are reckoned from.
    for (share, whole) in [("of_links_pct", links), ("of_better_link_pct", better)] {
        assert!((number(row, share) - 100.0 * goodput / whole).abs() < 0.2, "{share}: {row}");
    }
}

#[test]
fn the_matrix_compares_tcp_with_its_paths_and_with_mptcp() {
    steadily(Measured::Rate, || {
        let row = row_with_paths(&["--profile", "baseline", "--inner", "cubic"], 0.6, 50.0);
        assert_eq!((&row["profile"], &row["inner"]), (&"baseline".into(), &"cubic".into()));
        assert_tunnel(&row, 50.0, 20.0);
        let mptcp = number(&row, "mptcp_mbps");
        assert!(mptcp > 0.0 && mptcp < 100.0, "{row}");
    });
}

#[test]
fn quic_has_nothing_like_mptcp_to_be_compared_with() {
    steadily(Measured::Rate, || {
        let row = row_with_paths(&["--profile", "baseline", "--inner", "quic"], 0.3, 50.0);
        assert_eq!((&row["profile"], &row["inner"]), (&"baseline".into(), &"quic".into()));
        assert_eq!(row["mptcp_mbps"], Value::Null);
        assert_tunnel(&row, 50.0, 20.0);
    });
}

#[test]
fn a_peer_that_is_not_asked_for_is_null() {
    let row = row(&["--profile", "bw_4to1", "--inner", "cubic", "--peer", "mptcp"]);
    for column in ["path_a_mbps", "path_b_mbps", "sum_mbps"] {
        assert_eq!(row[column], Value::Null, "{row}");
    }
    assert!(number(&row, "mptcp_mbps") > 0.0, "{row}");
}

#[test]
fn all_experiments_are_listed() {
    let output = psmc_experiments(&["experiment", "--list"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let names: Vec<&str> = text.lines().skip(1).filter_map(|line| line.split_whitespace().next()).collect();
    assert_eq!(names, EXPERIMENTS);
}

#[test]
fn an_experiment_has_the_figures_of_the_seed_beside_ours() {
    steadily(Measured::Rate, || {
        let only = ["--only", "direct, 100 kB/s", "--seconds", "2", "--runs", "2"];
        let watch = StallWatch::start().unwrap();
        let output = psmc_experiments(&[&["experiment", "watson-table-4.4", "--json"], &only[..]].concat());
        let stalls = watch.finish();
        let report = json(&output);
        let keys: Vec<&String> = report.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["name", "rows", "runs"]);
        assert_eq!((&report["name"], &report["runs"]), (&"watson-table-4.4".into(), &2.into()));
        let [row] = report["rows"].as_array().unwrap().as_slice() else { panic!("not one row: {report}") };
        let keys: Vec<&String> = row.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["label", "ok", "ours", "range", "seed", "unit"]);
        assert_eq!((&row["label"], &row["unit"]), (&"direct, 100 kB/s".into(), &"kB/s".into()));
        assert!((80.0..=100.0).contains(&number(row, "seed")), "{row}");
        let ours = number(row, "ours");
        let [least, most] = [0, 1].map(|end| row["range"][end].as_f64().unwrap());
        assert!((least..=most).contains(&ours), "{row}");
        assert!((stalls.left_of(60.0)..=100.0).contains(&ours), "{stalls:?}: {row}");
        assert_eq!(row["ok"], ours >= 95.0, "{row}");
        // Programs see by the exit code whether the criterion is met.
        assert_eq!(output.status.code(), Some(if ours >= 95.0 { 0 } else { 1 }), "{output:?}");
    });
}

/// A short one of the ten minutes that docs/measurements/conditioning.md has.
#[test]
fn nobody_is_held_down_who_heeds_losses() {
    let only = ["--only", "20 Mb/s, 20 ms", "--seconds", "20"];
    let report =
        json(&psmc_experiments(&[&["experiment", "unresponsive-rrul", "--json"], &only[..]].concat()));
    let figure = |label: &str| {
        let mut rows = report["rows"].as_array().unwrap().iter();
        let row = rows.find(|row| row["label"] == format!("20 Mb/s, 20 ms, {label}").as_str());
        number(row.unwrap_or_else(|| panic!("no {label}: {report}")), "ours")
    };
    for direction in ["up", "down"] {
        let [times, packets] = ["held down", "held back"].map(|what| figure(&format!("{direction}: {what}")));
        assert_eq!((times, packets), (0.0, 0.0), "{direction}: {report}");
        assert!(figure(&format!("{direction}: dropped by the queue")) > 0.0, "the link is full: {report}");
        for stream in ["tcp-cubic", "tcp-reno", "tcp-bbr", "quic-cubic", "quic-bbr", "video"] {
            assert!(figure(&format!("{direction}: {stream}")) > 0.0, "{stream}: {report}");
        }
    }
}

#[test]
fn an_unknown_experiment_is_answered_with_those_there_are() {
    let output = psmc_experiments(&["experiment", "watson-table-9.9"]);
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(2), &b""[..]), "{output:?}");
    let text = String::from_utf8(output.stderr).unwrap();
    for name in ["watson-table-9.9"].iter().chain(&EXPERIMENTS) {
        assert!(text.contains(name), "no {name} in: {text}");
    }
}
