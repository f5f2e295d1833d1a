//! `psmc demo`, as the README tells people to run it. Needs root: one test gives its privileges up.

#![expect(clippy::unwrap_used, reason = "a test that cannot run the demonstration has failed")]

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

const NOBODY: u32 = 65534;

/// A directory that the demonstration may use, and must leave empty.
struct Scratch(TempDir);

impl Scratch {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn demo(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.args(["demo", "--json"]).env("TMPDIR", self.0.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn is_empty(&self) -> bool {
        fs::read_dir(self.0.path()).unwrap().next().is_none()
    }
}

fn psmc() -> PathBuf {
    env!("CARGO_BIN_EXE_psmc").into()
}

fn assert_good(output: &Output) {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(report["hash_ok"], true, "{report}");
    assert_eq!(report["links_mbps"].as_array().unwrap().len(), 3, "{report}");
    let number = |key: &str| report[key].as_f64().unwrap();
    // How close it comes to the sum is for a machine that does nothing else to show.
    assert!(number("aggregate_mbps") > number("best_single_mbps"), "{report}");
    assert!(number("gap_ms") < 1000.0, "{report}");
    let used = |path: &Value| path["bytes"].as_u64() > Some(1_000_000);
    assert!(report["paths"].as_array().unwrap().iter().all(used), "{report}");
}

#[test]
fn root_sees_links_added_up_and_a_cut_survived() {
    let scratch = Scratch::new();
    assert_good(&scratch.demo(&psmc()).output().unwrap());
    assert!(scratch.is_empty());
}

#[test]
fn relays_join_sites_that_nothing_else_joins_and_one_may_be_killed() {
    let scratch = Scratch::new();
    let output = scratch.demo(&psmc()).args(["--relays", "3"]).output().unwrap();
    assert_good(&output);
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["cut"], &report["cut_link"]), (&"killed".into(), &"fra1".into()));
    assert!(report["recovered_ms"].is_number(), "the relay that was started again is not used: {report}");
    assert!(scratch.is_empty());
}

#[test]
fn clients_of_a_flooded_service_go_around_by_themselves() {
    let scratch = Scratch::new();
    let output = scratch.demo(&psmc()).arg("--attack").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    let number = |key: &str| report[key].as_f64().unwrap_or_else(|| panic!("no {key}: {report}\n{stderr}"));
    assert_eq!(report["hash_ok"], true, "{report}");
    assert!(number("flood_mbps") > 5.0 * number("line_mbps"), "{report}");
    // The line is lost to them; what the relays carry is more than it did.
    assert!(number("goodput_under_attack_mbps") > 0.7 * number("goodput_before_mbps"), "{report}");
    let [found, published, around, back] =
        ["detect_ms", "published_ms", "route_up_ms", "back_ms"].map(number);
    assert!(found > 0.0 && published > 0.0 && around > 0.0 && back > 0.0, "{report}");
    // Both clients have paths over another relay in the place of the one that was killed, and of the one that only those can
    // know to fail who go through it, and never were without data until then.
    for failure in ["relay_failure", "relay_swallows"] {
        let number = |key: &str| {
            report[failure][key].as_f64().unwrap_or_else(|| panic!("no {failure}: {key}: {report}"))
        };
        assert!(number("replaced_ms") <= number("first_path_ms"), "{report}");
        assert!(number("gap_ms") < number("last_path_ms"), "{report}");
    }
    assert_ne!(report["relay_failure"]["relay"], report["relay_swallows"]["relay"], "{report}");
    let hidden = &report["hidden_lines"];
    let count = |key: &str| hidden[key].as_u64().unwrap_or_else(|| panic!("no {key}: {report}"));
    assert_eq!(count("found"), 0, "{report}");
    assert!(count("frames") > 10_000 && count("missed") * 100 < count("frames"), "{report}");
    assert!(count("files") > 8, "{report}");
    assert!(count("seen_at_relays") > 1000, "the relays do know: {report}");
    let times_to_live = hidden["times_to_live"].as_object().unwrap();
    let used: BTreeSet<_> =
        times_to_live.values().filter_map(|seen| seen.as_array()).flatten().map(Value::as_u64).collect();
    // That of every Linux host after one router, and not that of the service.
    assert_eq!(used, BTreeSet::from([Some(63)]), "{report}");
    assert!(scratch.is_empty());
}

#[test]
fn resolvers_go_on_to_ask_a_flooded_root_name_server() {
    let scratch = Scratch::new();
    let output = scratch.demo(&psmc()).arg("--root").output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["route_up_ms"].is_number() && report["back_ms"].is_number(), "{report}\n{stderr}");
    let resolvers = report["resolvers"].as_array().unwrap();
    let without = resolvers.iter().find(|resolver| resolver["routes"] == false).unwrap();
    let flooded_ms = without["under_attack"]["median_ms"].as_f64().unwrap_or(f64::INFINITY);
    for resolver in resolvers {
        let number = |when: &str, what: &str| resolver[when][what].as_f64();
        let share = |when: &str| number(when, "per_s").unwrap() / number("before", "per_s").unwrap();
        let is_whole = |share: f64| (0.8..1.25).contains(&share);
        let median = |when: &str| number(when, "median_ms").unwrap_or(f64::INFINITY);
        let is_spared = is_whole(share("under_attack")) && median("under_attack") < flooded_ms / 3.0;
        assert_eq!(is_spared, resolver["routes"] == true, "{report}\n{stderr}");
        assert!(is_whole(share("after")), "{report}\n{stderr}");
    }
    assert!(scratch.is_empty());
}

#[test]
fn an_ordinary_user_sees_the_same() {
    let (scratch, shared) = (Scratch::new(), tempfile::tempdir().unwrap());
    chown(scratch.0.path(), Some(NOBODY), Some(NOBODY)).unwrap();
    fs::set_permissions(shared.path(), Permissions::from_mode(0o755)).unwrap();
    // Nobody else can look into root's target directory.
    let program = shared.path().join("psmc");
    fs::copy(psmc(), &program).unwrap();
    let mut demo = scratch.demo(&program);
    assert_good(&demo.uid(NOBODY).gid(NOBODY).output().expect("this test needs root"));
    assert!(scratch.is_empty());
}

#[test]
fn an_interrupted_demo_leaves_nothing_behind() {
    let scratch = Scratch::new();
    let demo = scratch.demo(&psmc()).spawn().unwrap();
    while scratch.is_empty() {
        sleep(Duration::from_millis(10));
    }
    interrupt(&demo);
    let output = demo.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("stopped"));
    assert!(scratch.is_empty());
}

/// What ^C does.
fn interrupt(program: &Child) {
    let kill = Command::new("kill").arg("-INT").arg(program.id().to_string()).status();
    assert!(kill.unwrap().success());
}
