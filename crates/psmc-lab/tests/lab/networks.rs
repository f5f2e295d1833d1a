//! `psmc-lab networks`, as programs call it: what it simulates, writes and compares. These tests need no privileges.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

const KEYS: [&str; 11] = [
    "alone_mbps",
    "flood_mbps",
    "goodput_mbps",
    "nearest_ms",
    "one_mbps",
    "ping_max_ms",
    "ping_p50_ms",
    "ping_p99_ms",
    "seed",
    "spec",
    "sum_mbps",
];

fn networks(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_psmc-lab")).arg("networks").args(arguments).output().unwrap()
}

fn read(path: &Path) -> Value {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// What the networks of a record have; each of them has all there is.
fn entries(record: &Value) -> &Vec<Value> {
    let entries = record["networks"].as_array().unwrap();
    for entry in entries {
        assert_eq!(entry.as_object().unwrap().keys().collect::<Vec<_>>(), KEYS);
    }
    entries
}

fn number(entry: &Value, key: &str) -> f64 {
    entry[key].as_f64().unwrap_or_else(|| panic!("no {key}: {entry}"))
}

/// Two networks of 34 and 20 Mb/s, with headers.
#[test]
fn networks_are_simulated_written_and_compared() {
    let directory = tempfile::tempdir().unwrap();
    let [file, plot] = ["flow.json", "flow.svg"].map(|name| directory.path().join(name));
    let (json, svg) = (file.to_str().unwrap(), plot.to_str().unwrap());
    let what = ["--seeds", "1,4294967295", "--seconds", "2"];
    let output = networks(&[&what[..], &["--json", json, "--plot", svg]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record = read(&file);
    let [first, second] = entries(&record).as_slice() else { panic!("not two: {record}") };
    assert_eq!((&first["seed"], &second["seed"]), (&1.into(), &u32::MAX.into()));
    for (entry, rate) in [(first, 34.4), (second, 20.4)] {
        for key in ["goodput_mbps", "alone_mbps"] {
            assert!(number(entry, key) > 0.0 && number(entry, key) < rate, "{entry}");
        }
        assert!(number(entry, "ping_p99_ms") >= number(entry, "nearest_ms"), "{entry}");
    }
    assert!(fs::read_to_string(&plot).unwrap().contains("random networks, 2 of them"));
    // The same comes of the same.
    let output = networks(&[&what[..], &["--against", json]].concat());
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("against flow, which has 2 of them") && text.contains("1.0000"), "{text}");
    let output = networks(&["--seeds", "1", "--seconds", "3", "--against", json]);
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("cannot be compared"));
}

#[test]
fn recorded_networks_are_tried_alone_and_as_one() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("drive.csv");
    fs::write(&file, "window,second,wifi,cellular\n3,0,6,4\n3,1,2,8\n").unwrap();
    let drive = ["--drive", file.to_str().unwrap(), "--links", "wifi,cellular"];
    let output = networks(&[&drive[..], &["--seconds", "2", "--json", "-"]].concat());
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["source"], "windows of drive.csv over wifi, cellular");
    let [window] = entries(&record).as_slice() else { panic!("not one: {record}") };
    for (key, rate) in [("goodput_mbps", 10.0), ("one_mbps", 10.0), ("alone_mbps", 6.0)] {
        assert!(number(window, key) > 0.0 && number(window, key) < rate, "{key}: {window}");
    }
    assert!(number(window, "one_mbps") > number(window, "alone_mbps"), "{window}");
    let output = networks(&[&drive[..], &["--seconds", "3"]].concat());
    assert_eq!(output.status.code(), Some(1), "{output:?}");
    assert!(String::from_utf8(output.stderr).unwrap().contains("no window of 3 s"));
}

#[test]
fn the_flow_may_be_bbr() {
    let output = networks(&["--seeds", "1", "--seconds", "2", "--inner", "bbr", "--json", "-"]);
    assert_eq!(output.status.code(), Some(0), "{output:?}");
    let record: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(record["flow"], "bbr");
    assert!(number(&entries(&record)[0], "goodput_mbps") > 5.0, "{record}");
}
