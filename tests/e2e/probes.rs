//! `psmc ping`, on real links.

use std::process::Command;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;

use crate::harness::{Plan, Site, Tunnel, VAN, path_name, wait_for};
use psmc_api::PathState;
use psmc_testbed::programs::program;

/// How long something may take that a user waits for.
const PATIENCE: Duration = Duration::from_secs(15);

/// Drops all datagrams that come by a link.
fn silence(site: &Site, link: u8) {
    let rule = format!(
        "table inet silent {{ chain in {{ type filter hook input priority 0; iifname {} meta l4proto udp drop; }}; }}",
        site.end.link(link)
    );
    site.run(&["nft", &rule]);
}

/// What `psmc ping` says in the end.
fn ping(site: &Site, args: &[&str]) -> Value {
    let output = site.psmc(&[&["ping", "hq", "--json"], args].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {output:?}"))
}

#[test]
fn each_path_is_pinged_by_itself_whatever_it_is_used_for() {
    const ROUNDS: u64 = 20;
    let tunnel = Tunnel::start(Plan::default());
    let names = [1, 2].map(|link| path_name(VAN, link));
    tunnel.van.psmc_ok(&["path", "set", "hq", &names[1], "--state", "standby"]);
    tunnel.hq.wait_for_path(&names[1], &[PathState::Standby], PATIENCE);
    let arrived = || [0, 1].map(|path: usize| tunnel.hq.path(&names[path]).expect("it is there").rx_packets);

    let before = arrived();
    let summary = ping(&tunnel.van, &["--count", &ROUNDS.to_string(), "--interval", "10ms"]);
    let challenged = std::iter::zip(arrived(), before).map(|(now, before)| now - before);
    assert!(challenged.min().is_some_and(|least| least >= ROUNDS), "each path has carried them");
    let paths = summary["paths"].as_array().unwrap();
    assert_eq!((&summary["peer"], &summary["rounds"]), (&"hq".into(), &ROUNDS.into()), "{summary:#}");
    assert_eq!(paths.len(), names.len(), "{summary:#}");
    for (path, name) in paths.iter().zip(&names) {
        let counts = [&path["sent"], &path["received"]];
        assert_eq!((&path["path"], counts), (&name.as_str().into(), [&ROUNDS.into(); 2]));
        let number = |key: &str| path[key].as_f64().unwrap();
        let [min, mean, max] = ["rtt_min_ms", "rtt_mean_ms", "rtt_max_ms"].map(number);
        assert!(0.0 < min && min <= mean && mean <= max, "{path:#}");
        assert!(number("rtt_mdev_ms") <= max - min, "{path:#}");
    }
    assert_eq!(paths[1]["state"], "standby");
    // Whoever is called pings as well.
    let output = tunnel.hq.psmc(&["ping", "van", "--count", "1"]);
    let text = String::from_utf8(output.stdout).unwrap();
    let is_timed = |name: &String| text.contains(&format!("{name}: round=1 time="));
    assert!(output.status.success() && names.iter().all(is_timed), "{text}");
}

#[test]
fn what_does_not_come_back_is_lost_and_a_summary_ends_it_all() {
    let tunnel = Tunnel::start(Plan::default());
    let names = [1, 2].map(|link| path_name(VAN, link));
    silence(&tunnel.hq, 2);
    let summary = ping(&tunnel.van, &["--count", "2", "--interval", "10ms", "--timeout", "300ms"]);
    let received: Vec<_> =
        summary["paths"].as_array().unwrap().iter().map(|path| &path["received"]).collect();
    assert_eq!(received, [&Value::from(2), &Value::from(0)], "{summary:#}");
    assert_eq!(summary["paths"][1]["loss_pct"], 100.0);

    // Until Ctrl-C.
    let mut command = Command::new(program("psmc"));
    command.arg("--socket").arg(tunnel.van.file("sock")).args([
        "ping",
        "hq",
        "--interval",
        "20ms",
        "--timeout",
        "50ms",
    ]);
    let log = tunnel.van.file("ping");
    let mut process = command.stdout(std::fs::File::create(&log).unwrap()).spawn().unwrap();
    let text = || std::fs::read_to_string(&log).unwrap();
    wait_for("some rounds", PATIENCE, || text().contains("round=3 ").then_some(()));
    kill(Pid::from_raw(i32::try_from(process.id()).unwrap()), Signal::SIGINT).unwrap();
    assert!(process.wait().unwrap().success(), "{}", text());
    let text = text();
    let summary = text.split("hq, rounds: ").nth(1).unwrap_or_else(|| panic!("no summary: {text}"));
    assert!(names.iter().all(|name| summary.contains(name)) && summary.contains("100.0 %"), "{text}");

    // Whoever asks for what there is not is told so.
    let output = tunnel.van.psmc(&["ping", "depot"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(
        !output.status.success() && error.contains("there is no peer `depot`; this site has: hq"),
        "{error}"
    );
}
