//! The programs, as a person meets them.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;
use std::time::Duration;

use serde_json::Value;

use crate::harness::{Plan, Site, Tunnel, wait_for};
use psmc_testbed::programs::program;

#[test]
fn status_as_json_has_all_that_is_documented() {
    let tunnel = Tunnel::start(Plan::default());
    let output = tunnel.van.psmc(&["status", "--json"]);
    assert!(output.status.success(), "{output:?}");
    let status: Value = serde_json::from_slice(&output.stdout).unwrap();
    has(&status, &["site", "peers", "counters"]);
    has(&status["site"], &["name", "public_key", "interface", "addresses", "listen", "uptime_s", "version"]);
    let peer = &status["peers"][0];
    has(
        peer,
        &[
            "name",
            "public_key",
            "state",
            "control",
            "allowed_ips",
            "scheduler",
            "key_age_s",
            "epoch",
            "tx_bytes",
            "rx_bytes",
            "tx_packets",
            "rx_packets",
            "drops",
            "reorder",
            "repair",
            "classes",
            "paths",
        ],
    );
    has(&peer["control"], &["connected", "since_s"]);
    let classes = ["name", "queued_packets", "queued_bytes", "tx_packets", "marked_packets", "drops"];
    has(&peer["classes"][0], &classes);
    has(
        &peer["paths"][0],
        &[
            "name",
            "id",
            "state",
            "local",
            "remote",
            "interface",
            "weight",
            "rtt_ms",
            "rtt_var_ms",
            "loss_pct",
            "tx_bytes",
            "rx_bytes",
            "tx_packets",
            "rx_packets",
            "lost_packets",
            "undelivered",
        ],
    );
    assert_eq!(peer["state"], "connected");
    assert_eq!(peer["paths"][0]["state"], "active");
    assert_eq!(peer["paths"].as_array().unwrap().len(), 2);
}

#[test]
fn what_is_logged_can_be_changed_at_run_time() {
    let tunnel = Tunnel::start(Plan::default());
    let said = |what: &str| {
        wait_for(what, Duration::from_secs(10), || tunnel.hq.log().contains(what).then_some(()));
    };
    tunnel.hq.psmc_ok(&["log", "psmc_net=debug,info"]);
    said("log filter changed");
    // Strangers are told of in detail only.
    let address = tunnel.hq.status().site.listen;
    let port = address.rsplit(':').next().unwrap();
    tunnel.hq.run(&["bash", "-c", &format!("exec 3<>/dev/tcp/127.0.0.1/{port}")]);
    said("no control connection");
    tunnel.hq.psmc_ok(&["log", "--reset"]);
    said("filter=\"as at the start\"");
    let output = tunnel.hq.psmc(&["log", "loud=shout"]);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && error.contains("is not a log filter"), "{error}");
}

fn has(object: &Value, fields: &[&str]) {
    for field in fields {
        assert!(!object[field].is_null(), "no {field} in {object:#}");
    }
}

#[test]
fn status_for_people_names_the_peer_and_its_paths() {
    let tunnel = Tunnel::start(Plan::default());
    let output = tunnel.van.psmc(&["status"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for word in ["hq", "connected", "van-link1", "van-link2", "active"] {
        assert!(text.contains(word), "no {word} in {text}");
    }
}

#[test]
fn the_control_socket_is_for_its_owner_only() {
    let tunnel = running();
    let mode = fs::metadata(tunnel.van.file("sock")).unwrap().permissions().mode();
    assert_eq!(mode & 0o7777, 0o600);
}

#[test]
fn a_second_daemon_on_the_same_control_socket_refuses() {
    let tunnel = running();
    complains(&psmcd(&tunnel.van), "another daemon is using");
    assert!(tunnel.van.try_status().is_some(), "the first one goes on");
}

#[test]
fn a_second_daemon_on_the_same_port_refuses_and_leaves_nothing_behind() {
    let tunnel = running();
    let other = tunnel.van.file("second");
    let text = fs::read_to_string(tunnel.van.file("toml")).unwrap();
    tunnel.van.configure(&text.replace("van.sock", "van.second"));
    complains(&psmcd(&tunnel.van), "5115");
    assert!(!other.exists(), "the second control socket is removed");
    assert!(tunnel.van.try_status().is_some(), "the first one goes on");
}

#[test]
fn a_wrong_configuration_is_complained_about_with_line_and_remedy() {
    let tunnel = Tunnel::prepare(Plan::default());
    let text = fs::read_to_string(tunnel.van.file("toml")).unwrap();
    tunnel.van.configure(&text.replace("\"earliest\"", "\"earlyest\""));
    let output = psmcd(&tunnel.van);
    complains(&output, "earlyest");
    complains(&output, "van.toml:5");
    complains(&output, "earliest");
}

#[test]
fn a_configuration_that_others_can_read_is_complained_about() {
    let tunnel = Tunnel::prepare(Plan::default());
    fs::set_permissions(tunnel.van.file("toml"), Permissions::from_mode(0o644)).unwrap();
    complains(&psmcd(&tunnel.van), "chmod 600");
}

#[test]
fn a_daemon_without_privileges_says_what_it_lacks() {
    let tunnel = Tunnel::prepare(Plan::default());
    let (program, file) = (program("psmcd"), tunnel.van.file("toml"));
    let output = tunnel.van.try_run(&[
        "setpriv",
        "--bounding-set=-all",
        program.to_str().unwrap(),
        "--config",
        file.to_str().unwrap(),
    ]);
    complains(&output, "root");
    assert!(!tunnel.van.file("sock").exists());
}

#[test]
fn the_tool_without_a_daemon_says_so() {
    let tunnel = Tunnel::prepare(Plan::default());
    complains(&tunnel.van.psmc(&["status"]), "is it running?");
}

/// A tunnel of which only the van runs.
fn running() -> Tunnel {
    let mut tunnel = Tunnel::prepare(Plan::default());
    tunnel.van.start();
    wait_for("the daemon's answer", Duration::from_secs(10), || tunnel.van.try_status());
    tunnel
}

/// Runs a daemon that should not come up.
fn psmcd(site: &Site) -> Output {
    let (program, file) = (program("psmcd"), site.file("toml"));
    site.try_run(&[program.to_str().unwrap(), "--config", file.to_str().unwrap()])
}

/// The program has failed with this in its complaint.
fn complains(output: &Output, what: &str) {
    let text = String::from_utf8_lossy(&output.stderr);
    println!("{text}");
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(text.contains(what), "no {what:?} in {text}");
}
