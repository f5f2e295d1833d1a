//! `psmc select` on the examples of docs/SELECTION.md, and on files that are wrong.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

fn example(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/selection").join(name)
}

fn select(file: &Path, arguments: &[&str]) -> Output {
    let mut tool = Command::new(env!("CARGO_BIN_EXE_psmc"));
    tool.arg("select").arg(file).args(arguments).output().unwrap()
}

/// What it prints for an example.
fn printed(name: &str, arguments: &[&str]) -> String {
    let output = select(&example(name), &[&["--steps", "100000"], arguments].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Why it refuses a network in TOML.
fn refused(text: &str, arguments: &[&str]) -> String {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("network.toml");
    fs::write(&file, text).unwrap();
    let output = select(&file, arguments);
    assert_eq!((output.status.code(), output.stdout.len()), (Some(1), 0), "{text}");
    let complaint = String::from_utf8(output.stderr).unwrap();
    complaint.replace(&file.display().to_string(), "FILE")
}

#[test]
fn relays_are_selected() {
    insta::assert_snapshot!(printed("van.toml", &[]));
    insta::assert_snapshot!(printed(
        "van.toml",
        &["--per-provider", "1", "--forbid", "ams", "--forbid", "direct"]
    ));
    insta::assert_snapshot!(printed("van.hops", &["--objective", "bandwidth"]));
}

#[test]
fn all_algorithms_know_the_example() {
    for algorithm in ["best", "exact", "local", "genetic"] {
        let text = printed("van.toml", &["--algorithm", algorithm, "--objective", "bandwidth"]);
        assert!(text.contains("90.0 Mbit/s of at most 90.0 Mbit/s"), "{algorithm}: {text}");
    }
    assert!(printed("van.toml", &["--algorithm", "greedy"]).contains("not proven"));
}

#[test]
fn paths_through_the_whole_network_are_found() {
    let any = |arguments: &[&str]| printed("van.toml", &[&["--routes", "any"], arguments].concat());
    insta::assert_snapshot!(any(&["--objective", "bandwidth"]));
    insta::assert_snapshot!(any(&["--objective", "latency", "--disjoint", "nodes", "--paths", "2"]));
    assert!(any(&["--algorithm", "k-best", "--paths", "2"]).contains("2 paths"));
    assert!(any(&["--algorithm", "min-number", "--disjoint", "links"]).contains("2 paths"));
    assert!(any(&["--objective", "jointness"]).contains("proven to be optimal"));
}

#[test]
fn what_runs_is_changed_only_if_it_must() {
    assert!(printed("van.toml", &["--running", "fra,direct"]).contains("keep what runs"));
    let text = printed("van.toml", &["--running", "fra,gone"]);
    assert!(text.contains("add: direct\n") && text.contains("remove: gone\n"), "{text}");
}

#[test]
fn programs_get_one_object_and_graphviz_gets_a_graph_that_can_be_read_again() {
    let json: serde_json::Value = serde_json::from_str(&printed("van.toml", &["--json"])).unwrap();
    assert_eq!(json["proven_optimal"], true);
    assert_eq!(json["paths"].as_array().map(Vec::len), Some(2));
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("van.dot");
    fs::write(&file, printed("van.toml", &["--dot"])).unwrap();
    let output = select(&file, &["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn networks_by_chance_can_be_selected_in() {
    for model in ["transit-stub", "waxman"] {
        let mut tool = Command::new(env!("CARGO_BIN_EXE_psmc"));
        let made = tool.args(["topology", model, "--nodes", "60", "--relays", "6"]).output().unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("network.toml");
        fs::write(&file, made.stdout).unwrap();
        let output = select(&file, &["--steps", "100000"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(text.contains("of 6 candidates") && text.contains("proven to be optimal"), "{model}: {text}");
    }
}

#[test]
fn wrong_networks_are_refused_with_a_reason() {
    let network = |relay: &str, link: &str| {
        format!(
            "source = 's'\ndestination = 'd'\n[[relay]]\nname = '{relay}'\n\
             [[link]]\nfrom = 's'\nto = 'r'\nbandwidth_mbps = 1\nlatency_ms = 1\n[[link]]\n{link}\n"
        )
    };
    let good = "from = 'r'\nto = 'd'\nbandwidth_mbps = 1\nlatency_ms = 1";
    let complaints = [
        refused(&network("r", "from = 'x'\nto = 'd'\nbandwidth_mbps = 1\nlatency_ms = 1"), &[]),
        refused(&network("r", &good.replace("mbps = 1", "mbps = -1")), &[]),
        refused(&network("r", &good.replace("ms = 1", "ms = nan")), &[]),
        refused(&network("r'\n[[relay]]\nname = 'r", good), &[]),
        refused(&network("d", good), &[]),
        refused(&network("r", good), &["--destination", "s"]),
        refused(&network("r", good), &["--source", "nobody"]),
        refused(&network("r", good), &["--paths", "2"]),
        refused(&network("r", good), &["--require", "q"]),
        refused(&network("r", good), &["--routes", "any", "--objective", "bandwidth", "--max-price", "1"]),
        refused(&network("r", good), &["--alpha", "nan"]),
        refused("source = ", &[]),
    ];
    insta::assert_snapshot!(complaints.join("\n"));
}
