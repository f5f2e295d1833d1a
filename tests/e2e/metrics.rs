//! What Prometheus is told, as its own tools see it.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::harness::{Family, Plan, Tunnel, VAN, path_name, wait_for};

/// Where the van's metrics are.
const METRICS: &str = "127.0.0.1:9115";

const PATIENCE: Duration = Duration::from_secs(10);

fn tunnel() -> Tunnel {
    let mut tunnel = Tunnel::prepare(Plan::default());
    let text = std::fs::read_to_string(tunnel.van.file("toml")).unwrap();
    tunnel.van.configure(&format!("{text}\n[metrics]\nlisten = \"{METRICS}\"\n"));
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel
}

/// What is told at present, with what `curl` is given besides.
fn scrape(tunnel: &Tunnel, options: &[&str]) -> String {
    let address = format!("http://{METRICS}/metrics");
    tunnel.van.run(&[&["curl", "-sS", "--fail", &address], options].concat())
}

/// The value of a series.
fn value(text: &str, series: &str) -> Option<f64> {
    text.lines().find_map(|line| line.strip_prefix(series)?.strip_prefix(' ')?.parse().ok())
}

#[test]
fn prometheus_reads_what_a_site_tells() {
    let tunnel = tunnel();
    tunnel.ping(Family::V4);
    let path = path_name(VAN, 1);
    let of_path = |name: &str| format!("psmcd_path_{name}{{peer=\"hq\",path=\"{path}\",opened_by=\"site\"}}");
    let text = wait_for("a path that was measured", PATIENCE, || {
        let text = scrape(&tunnel, &[]);
        let is_measured = value(&text, &of_path("rtt_seconds")).is_some_and(|rtt| rtt > 0.0 && rtt < 1.0);
        is_measured.then_some(text)
    });
    for series in ["psmcd_peer_state{peer=\"hq\"}", "psmcd_peer_control_connected{peer=\"hq\"}"] {
        assert!(value(&text, series).is_some_and(|value| value > 0.0), "{series}: {text}");
    }
    assert_eq!(value(&text, &of_path("state")), Some(4.0), "{text}");
    assert!(value(&text, "psmcd_peer_sent_packets_total{peer=\"hq\"}").is_some_and(|sent| sent >= 1.0));
    assert!(text.ends_with("\n# EOF\n"), "{text}");
    let head = scrape(&tunnel, &["--head"]);
    assert!(head.contains("application/openmetrics-text; version=1.0.0; charset=utf-8"), "{head}");
    promtool(&["check", "metrics"], &before_openmetrics(&text));

    // Prometheus' own parser of OpenMetrics, which wants times where it makes blocks of samples.
    let file = tunnel.van.file("metrics");
    std::fs::write(&file, with_times(&text)).unwrap();
    let [file, blocks] = [file, tunnel.van.file("blocks")].map(|path| path.to_str().unwrap().to_owned());
    promtool(&["tsdb", "create-blocks-from", "openmetrics", &file, &blocks], "");
}

/// With a time for each value.
fn with_times(text: &str) -> String {
    let line =
        |line: &str| if line.starts_with('#') { format!("{line}\n") } else { format!("{line} 1700000000\n") };
    text.lines().map(line).collect()
}

/// As the text format before OpenMetrics has it, which is what `promtool check metrics` reads: types belong to names with their
/// suffixes, and there are no texts and units.
fn before_openmetrics(text: &str) -> String {
    let mut out = String::new();
    let mut help = "";
    for line in text.lines() {
        let words: Vec<_> = line.splitn(4, ' ').collect();
        match words[..] {
            ["#", "HELP", _, said] => help = said,
            ["#", "TYPE", name, kind] => {
                let (suffix, kind) = match kind {
                    "counter" => ("_total", kind),
                    "info" => ("_info", "gauge"),
                    _ => ("", kind),
                };
                out += &format!("# HELP {name}{suffix} {help}\n# TYPE {name}{suffix} {kind}\n");
            }
            ["#", ..] => {}
            _ => out += &format!("{line}\n"),
        }
    }
    out
}

#[test]
fn prometheus_reads_the_rules() {
    let rules = concat!(env!("CARGO_MANIFEST_DIR"), "/packaging/monitoring/psmc.rules.yml");
    promtool(&["check", "rules", rules], "");
}

/// Runs `promtool`, which must find no fault.
fn promtool(arguments: &[&str], input: &str) {
    let mut command = Command::new("promtool");
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().expect("promtool is installed (Debian: prometheus)");
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    let output = child.wait_with_output().unwrap();
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8(said).unwrap()).concat();
    assert!(output.status.success(), "promtool {arguments:?}: {said}\n{input}");
}
