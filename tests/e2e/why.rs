//! Whoever asks why a path is not used is told, by the status and by the log, in the same words and once.

use std::fs;
use std::time::Duration;

use psmc_api::{PathState, PeerState};
use psmc_net::keys::PrivateKey;

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
    for part in ["no UDP reply from", &endpoint, &VAN.link(1), "firewall", "relay"] {
        assert!(why.contains(part), "no {part} in {why}");
    }
    let said = || van.log().matches("path not in use").count();
    wait_for("a line of the log", PATIENCE, || (said() > 0).then_some(()));
    let output =
        van.psmc(&["path", "add", "hq", "later", "--interface", "nowhere0", "--endpoint", &endpoint]);
    let text = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && text.contains("waiting for interface nowhere0"), "{text}");
    let why = wait_for("another reason", PATIENCE, || van.path("later")?.why);
    assert!(why.contains("nowhere0"), "{why}");

    tunnel.hq.run(&["nft", "delete table inet firewall"]);
    van.wait_for_path(&path, &[PathState::Active], PATIENCE);
    assert_eq!(van.path(&path).unwrap().why, None);
    assert_eq!(van.log().matches("no UDP reply").count(), 1, "{}", van.log());
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
    assert_eq!(van.matches("rejects this site's key").count(), 1, "{van}");
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
    hq.run(&["sysctl", "-qw", "net.ipv4.ip_forward=1"]);
    assert!(!hq.check().contains("ip_forward"), "{}", hq.check());
    hq.run(&["sysctl", "-qw", "net.ipv4.ip_forward=0"]);
    let checked = hq.check();
    for part in ["on this machine", "192.168.10.0/24", "net.ipv4.ip_forward=1"] {
        assert!(checked.contains(part), "no {part} in {checked}");
    }
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

/// As when a laptop is closed: nobody says goodbye, and the connection stays.
#[test]
fn a_peer_that_stands_still_is_said_to_be_unheard() {
    let tunnel = Tunnel::start(Plan::default());
    let hq = &tunnel.hq;
    tunnel.van.while_stopped(|_| {
        // An idle peer is asked when it has been silent for a keepalive's time.
        let peer = wait_for("paths that are dead", PATIENCE, || {
            let peer = hq.try_status()?.peers.remove(0);
            peer.paths.iter().all(|path| path.state == PathState::Dead).then_some(peer)
        });
        assert_eq!((peer.state, peer.paths.len()), (PeerState::Down, 2));
        assert!(peer.heard_s > Some(3.0), "{peer:?}");
        for path in &peer.paths {
            let why = path.why.as_deref().unwrap_or_default();
            assert!(why.contains("nothing heard from"), "{path:?}");
        }
        let text = String::from_utf8(hq.psmc(&["status"]).stdout).unwrap();
        assert!(text.contains("peer van: down, nothing heard for "), "{text}");
    });
    tunnel.wait_until_up();
    tunnel.ping(Family::V4);
}

#[test]
fn two_hosts_with_one_key_are_found_out() {
    let tunnel = Tunnel::start(Plan { links: 1, ..Plan::default() });
    let twin = tunnel.start_twin_of_van();
    let said = "the same key is in use at";
    wait_for("a word of the called site", PATIENCE, || tunnel.hq.log().contains(said).then_some(()));
    let called = "another host calls the peer with this site's key";
    wait_for("a word of a calling site", PATIENCE, || {
        (tunnel.van.log().contains(called) || twin.log().contains(called)).then_some(())
    });
}

/// To whoever calls, a peer behind a NAT is a machine that drops everything.
#[test]
fn who_cannot_be_reached_at_all_is_said_to_need_a_relay() {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, ..Plan::default() });
    let nat =
        "table inet nat { chain in { type filter hook input priority 0; meta l4proto { tcp, udp } drop; }; }";
    tunnel.hq.run(&["nft", nat]);
    tunnel.hq.start();
    tunnel.van.start();
    let van = &tunnel.van;
    let error = wait_for("an error", PATIENCE, || {
        van.try_status()?.peers.remove(0).control.last_error.filter(|error| error.contains("timed out after"))
    });
    assert!(error.contains("firewall") && error.contains("NAT") && error.contains("relay"), "{error}");
    let text = String::from_utf8(van.psmc(&["status"]).stdout).unwrap();
    assert!(text.contains(&error), "{text}");
}
