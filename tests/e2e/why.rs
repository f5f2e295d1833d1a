//! Whoever asks why a path is not used is told, by the status and by the log, in the same words and once.

use std::fs;
use std::time::Duration;

use psmc_net::keys::PrivateKey;
use psmcd::api::{PathState, PeerState};

use crate::harness::{Family, Plan, Tunnel, VAN, path_name, wait_for};

/// For what takes no time to speak of, and for what is said of a path only when it has been away for a while.
const PATIENCE: Duration = Duration::from_secs(20);

#[test]
fn a_firewall_that_drops_udp_is_suspected_and_an_interface_that_is_missing_named() {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, ..Plan::default() });
    let firewall =
        "table inet firewall { chain in { type filter hook input priority 0; udp dport 5115 drop; }; }";
    tunnel.hq.run(&["nft", firewall]);
    tunnel.hq.start();
    tunnel.van.start();
    let (van, path) = (&tunnel.van, path_name(VAN, 1));
    let why = wait_for("a reason", PATIENCE, || van.path(&path)?.why.filter(|why| why.contains("TCP works")));
    let endpoint = format!("{}:5115", tunnel.hq.end.outer(1, Family::V4));
    for part in ["no answer by UDP from", &endpoint, &VAN.link(1), "firewall", "relay"] {
        assert!(why.contains(part), "no {part} in {why}");
    }
    let said = || van.log().matches("the path is not used").count();
    wait_for("a line of the log", PATIENCE, || (said() > 0).then_some(()));
    let output =
        van.psmc(&["path", "add", "hq", "later", "--interface", "nowhere0", "--endpoint", &endpoint]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("an interface of the name nowhere0"), "{text}");
    let why = wait_for("another reason", PATIENCE, || van.path("later")?.why);
    assert!(why.contains("nowhere0"), "{why}");

    tunnel.hq.run(&["nft", "delete table inet firewall"]);
    van.wait_for_path(&path, &[PathState::Active], PATIENCE);
    assert_eq!(van.path(&path).unwrap().why, None);
    assert_eq!(van.log().matches("no answer by UDP").count(), 1, "{}", van.log());
    assert!(van.log().contains(&format!("path=\"{path}\"")), "names, no numbers: {}", van.log());
}

#[test]
fn a_key_that_is_not_known_is_spoken_of_once_at_either_end() {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, ..Plan::default() });
    let text = fs::read_to_string(tunnel.hq.file("toml")).unwrap();
    let (known, other) = (tunnel.van.key.public().to_string(), PrivateKey::generate().public().to_string());
    tunnel.hq.configure(&text.replace(&known, &other));
    tunnel.hq.start();
    tunnel.van.start();
    wait_for("some calls", PATIENCE, || {
        (tunnel.hq.try_status()?.counters["control_unknown_key"] >= 5).then_some(())
    });
    let (van, hq) = (tunnel.van.log(), tunnel.hq.log());
    assert_eq!(van.matches("refuses this site's key").count(), 1, "{van}");
    assert_eq!(hq.matches(&known).count(), 1, "ready to be pasted: {hq}");

    // The mistake is mended, and nothing is restarted.
    tunnel.hq.configure(&text);
    tunnel.hq.psmc_ok(&["reload"]);
    tunnel.wait_until_up();
    tunnel.ping(Family::V4);
    assert_eq!(tunnel.hq.peer().state, PeerState::Connected);
}

#[test]
fn a_network_behind_a_site_that_forwards_nothing_is_found_out() {
    let tunnel = Tunnel::start(Plan { links: 1, ..Plan::default() });
    let (van, hq) = (&tunnel.van, &tunnel.hq);
    hq.run(&["ip", "addr", "add", "192.168.10.1/24", "dev", &hq.end.link(1)]);
    hq.run(&["sysctl", "-qw", "net.ipv4.ip_forward=0"]);
    let text = fs::read_to_string(van.file("toml")).unwrap();
    van.configure(&text.replace("[\"10.77.0.1/32\"", "[\"192.168.10.0/24\", \"10.77.0.1/32\""));
    van.psmc_ok(&["reload"]);
    let ping = |address: &str| van.try_run(&["ping", "-c", "1", "-W", "1", address]);
    // Its own address there needs no forwarding.
    assert!(ping("192.168.10.1").status.success());
    let notice = wait_for("a word of the status", PATIENCE, || {
        ping("192.168.10.7");
        hq.try_status()?.site.notices.pop()
    });
    assert!(notice.contains("192.168.10.7") && notice.contains("net.ipv4.ip_forward"), "{notice}");
    assert!(hq.log().contains("net.ipv4.ip_forward"), "{}", hq.log());
}
