//! What daemons tell Prometheus, and what is said of that elsewhere: `docs/METRICS.md`, the board and the rules in
//! `packaging/monitoring`.
//!
//! The table in `docs/METRICS.md` is made of what the daemons have: `UPDATE_METRICS=1 cargo test --test metrics` writes it anew.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use psmc_service::metrics::{Kind, Metric, Set};

/// What all names begin with.
const PREFIX: &str = "psmc";

/// One metric of a daemon.
struct Row {
    /// Its whole name.
    name: String,
    kind: Kind,
    labels: &'static [&'static str],
    help: &'static str,
}

/// The metrics of each daemon.
fn daemons() -> [(&'static str, Vec<Row>); 6] {
    [
        ("psmcd", rows(psmcd::daemon::metrics::METRICS)),
        ("psmc-relay", rows(psmc_relay::status::METRICS)),
        ("psmc-guard", rows(psmc_guard::status::METRICS)),
        ("psmc-coordinator", rows(psmc_coordinator::status::METRICS)),
        ("psmc-shed", rows(psmc_shed::status::METRICS)),
        ("psmc-front", rows(psmc_front::status::METRICS)),
    ]
}

fn rows<S>(set: Set<S>) -> Vec<Row> {
    let row = |metric: &Metric<S>| Row {
        name: format!("{}_{}", set.prefix, metric.name),
        kind: metric.kind(),
        labels: metric.labels,
        help: metric.help,
    };
    set.metrics.iter().map(row).collect()
}

fn names() -> BTreeSet<String> {
    daemons().into_iter().flat_map(|(_, rows)| rows).map(|row| row.name).collect()
}

fn file(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// The names of metrics that a text speaks of.
fn spoken_of(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    words.filter(|word| word.starts_with(PREFIX) && word.contains('_')).map(str::to_owned).collect()
}

#[test]
fn names_are_those_of_openmetrics() {
    for (daemon, rows) in daemons() {
        let mut families = BTreeSet::new();
        for Row { name, kind, labels, help } in rows {
            let family = match kind {
                Kind::Counter => name.strip_suffix("_total"),
                Kind::Info => name.strip_suffix("_info"),
                Kind::Gauge => Some(name.as_str()),
            };
            let family = family.unwrap_or_else(|| panic!("{daemon}: {name} is a {}", kind.name()));
            assert!(families.insert(family.to_owned()), "{daemon}: {name} is there twice");
            let is_plain = |name: &str| name.bytes().all(|b| b.is_ascii_lowercase() || b == b'_');
            assert!(is_plain(&name) && labels.iter().all(|label| is_plain(label)), "{daemon}: {name}");
            assert!(help.ends_with('.') && !help.contains(['\n', '|']), "{daemon}: {name}: {help}");
        }
    }
}

#[test]
fn the_documentation_has_them_all() {
    let text = documentation();
    let path = file("docs/METRICS.md");
    if std::env::var_os("UPDATE_METRICS").is_some() {
        fs::write(&path, &text).expect("docs/METRICS.md is writable");
    }
    let stored = fs::read_to_string(&path).expect("docs/METRICS.md is here");
    assert_eq!(stored, text, "docs/METRICS.md is out of date: see the top of tests/metrics.rs");
}

fn documentation() -> String {
    let mut text = INTRODUCTION.to_owned();
    for (daemon, rows) in daemons() {
        let head = "| name | type | labels | meaning |\n|---|---|---|---|\n";
        // Writing to a string does not fail.
        let _ = write!(text, "\n## {daemon}\n\n{head}");
        for Row { name, kind, labels, help } in rows {
            let labels: Vec<_> = labels.iter().map(|label| format!("`{label}`")).collect();
            let _ = writeln!(text, "| `{name}` | {} | {} | {help} |", kind.name(), labels.join(", "));
        }
    }
    text
}

const INTRODUCTION: &str = "# Metrics

What the daemons tell Prometheus, in the text format of OpenMetrics 1.0, at `/metrics` of the address that their configuration
names: `listen` of `[metrics]` for psmcd, `metrics` for the others. Without it nothing listens. Units are base units and stand
in the names: seconds, bytes, shares of 1 (`_ratio`). Counters start at 0 with the daemon.

How many time series psmcd has is bounded by its peers, their classes and their paths: about 60 per peer and 11 per path.
2048 paths have series of their own at most, those of the first peers of the file; how many have none is `psmcd_paths_untold`.
So a thousand peers with 64 paths each have some 70,000. Strangers add none. Paths that are being removed have none. Both sites may
call one of their paths the same: `opened_by` is `site` or `peer`. `event` and `reason` are the words of `psmc status --json`.

`packaging/monitoring` has rules for alerts (`psmc.rules.yml`) and a Grafana board (`psmc-sites.json`).

<!-- Made by tests/metrics.rs: UPDATE_METRICS=1 cargo test --test metrics -->
";

#[test]
fn the_board_and_the_rules_ask_for_what_there_is() {
    let names = names();
    for (name, least) in [("psmc.rules.yml", 10), ("psmc-sites.json", 15)] {
        let text = fs::read_to_string(file("packaging/monitoring").join(name)).expect(name);
        let spoken_of = spoken_of(&text);
        let unknown: Vec<_> = spoken_of.difference(&names).collect();
        assert!(unknown.is_empty(), "{name}: {unknown:?}");
        assert!(spoken_of.len() >= least, "{name}: {spoken_of:?}");
    }
}

#[test]
fn the_board_is_one_of_grafana() {
    let text = fs::read_to_string(file("packaging/monitoring/psmc-sites.json")).expect("the board is here");
    let board: serde_json::Value = serde_json::from_str(&text).expect("it is JSON");
    let panels = board["panels"].as_array().expect("it has panels");
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have the same id");
    for panel in panels {
        let targets = panel["targets"].as_array().expect("a panel has targets");
        assert!(targets.iter().all(|target| target["expr"].is_string()), "{panel}");
    }
}
