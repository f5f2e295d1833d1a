//! What `psmc doctor` says about the addresses of uplinks.

use psmc_api::{PathState, PeerStatus};

use crate::harness::wait_for;

use super::world::At::{Hq, Van};
use super::world::{BRANCH_ADDRESS, ENDPOINT, PATIENCE, Report, World, sh};

/// Waits until all peers have said how they see both paths of the van.
fn wait_until_seen(world: &World) {
    wait_for("what the peers see", PATIENCE, || {
        let peers = world.van.try_status()?.peers;
        let is_seen = |peer: &PeerStatus| {
            peer.paths.len() == 2
                && peer.paths.iter().all(|path| path.state == PathState::Active && path.seen_as.is_some())
        };
        peers.iter().all(is_seen).then_some(())
    });
}

/// What is said of an uplink: the mapping, whether ports are kept, and by whom it is seen where.
fn of_uplink<'a>(report: &'a Report, uplink: &str) -> (&'a str, bool, &'a str) {
    let nats = report.json["nat"].as_array().unwrap().iter();
    let nat = nats.clone().find(|nat| nat["uplink"] == uplink).unwrap_or_else(|| panic!("{:#}", report.json));
    let from = nat["seen"][0]["from"].as_str().unwrap();
    let (address, _) = from.rsplit_once(':').unwrap();
    (nat["mapping"].as_str().unwrap(), nat["keeps_ports"].as_bool().unwrap(), address)
}

/// A NAT in a router.
fn masquerade(flags: &str) -> String {
    format!(
        "nft 'table ip nat {{ chain post {{ type nat hook postrouting priority 100; oifname hq meta l4proto udp masquerade {flags}; }}; }}'"
    )
}

#[test]
fn a_nat_is_told_from_none_and_one_that_keeps_ports_from_one_that_does_not() {
    let mut world = World::new();
    sh(&world.routers[1], &masquerade(""));
    world.start_and_wait(2);
    wait_until_seen(&world);
    let report = world.doctor(Van);
    assert_eq!(report.names("wrong"), Vec::<&str>::new(), "{:#}", report.json);
    assert_eq!(of_uplink(&report, "v1"), ("none", true, "10.1.1.1"));
    assert_eq!(of_uplink(&report, "v2"), ("unknown", true, "10.2.2.1"));
    let carrier = report.json["nat"][1]["carrier"].as_str().unwrap();
    assert!(carrier.contains("private, too"), "{carrier}");
    let of_hq = world.doctor(Hq);
    assert_eq!(of_hq.json["nat"], serde_json::json!([]), "the headquarters have opened no path");
}

#[test]
fn what_changes_ports_is_said_to() {
    let mut world = World::new();
    world.on_routers(&masquerade("fully-random"));
    world.start_and_wait(2);
    wait_until_seen(&world);
    let report = world.doctor(Van);
    assert_eq!(report.names("wrong"), Vec::<&str>::new(), "{:#}", report.json);
    for (uplink, nat) in [("v1", "10.2.1.1"), ("v2", "10.2.2.1")] {
        assert_eq!(of_uplink(&report, uplink), ("unknown", false, nat));
    }
}

#[test]
fn a_carriers_nat_is_named_by_its_addresses() {
    let mut world = World::new();
    for (n, router) in (1..).zip(&world.routers) {
        sh(router, &format!("ip addr add 100.64.{n}.1/24 dev van"));
        world.at(Van, &format!("ip addr del 10.1.{n}.1/24 dev v{n}; ip addr add 100.64.{n}.7/24 dev v{n}"));
        world.at(Van, &format!("ip route replace default via 100.64.{n}.1 dev v{n} metric {n}00"));
    }
    world.on_routers(&masquerade("").replace("meta l4proto udp ", ""));
    world.start_and_wait(2);
    wait_until_seen(&world);
    let report = world.doctor(Van);
    assert_eq!(report.names("wrong"), Vec::<&str>::new(), "{:#}", report.json);
    let carrier = report.json["nat"][0]["carrier"].as_str().unwrap();
    assert!(carrier.contains("carrier-grade NAT: 100.64.1.7"), "{carrier}");
}

/// What is said of the memory of an uplink's NAT: the longest rest after which a socket was reached, and the shortest after which
/// it was not.
fn memory(report: &Report, uplink: &str) -> (f64, Option<f64>) {
    let nats = report.json["nat"].as_array().unwrap().iter();
    let nat = nats.clone().find(|nat| nat["uplink"] == uplink).unwrap_or_else(|| panic!("{:#}", report.json));
    let memory = &nat["memory"];
    (memory["reached_s"].as_f64().unwrap_or_else(|| panic!("{:#}", report.json)), memory["lost_s"].as_f64())
}

/// Two peers, and what is said of an uplink behind such a NAT.
fn kind_of(flags: &str, endpoint: &str) -> Report {
    let mut world = World::new();
    world.on_routers(&masquerade(flags));
    let branch = world.start_branch(endpoint);
    world.start();
    wait_until_seen(&world);
    let report = world.doctor_with(Van, &["--nat=1s"], |_| ());
    assert_eq!(report.names("wrong"), Vec::<&str>::new(), "{:#}", report.json);
    drop(branch);
    report
}

#[test]
fn a_nat_that_has_one_mapping_for_all_peers_is_told() {
    let report = kind_of("", &format!("{BRANCH_ADDRESS}:5115"));
    for (uplink, nat) in [("v1", "10.2.1.1"), ("v2", "10.2.2.1")] {
        assert_eq!(of_uplink(&report, uplink), ("endpoint-independent", true, nat));
    }
}

#[test]
fn a_nat_that_has_a_mapping_for_each_peer_is_told() {
    let report = kind_of("fully-random", &format!("{BRANCH_ADDRESS}:5115"));
    for (uplink, nat) in [("v1", "10.2.1.1"), ("v2", "10.2.2.1")] {
        assert_eq!(of_uplink(&report, uplink), ("dependent", false, nat));
    }
}

#[test]
fn a_nat_that_has_a_mapping_for_each_port_of_an_address_is_told() {
    let report = kind_of("fully-random", &format!("{ENDPOINT}:6115"));
    for (uplink, nat) in [("v1", "10.2.1.1"), ("v2", "10.2.2.1")] {
        assert_eq!(of_uplink(&report, uplink), ("address-and-port-dependent", false, nat));
    }
}

/// The NAT of the second uplink remembers for six seconds; the first uplink has none.
fn with_a_short_memory(keepalive: &str) -> Report {
    let mut world = World::new();
    sh(&world.routers[1], &masquerade(""));
    let sysctl = "sysctl -qw net.netfilter.nf_conntrack_udp_timeout";
    sh(&world.routers[1], &format!("{sysctl}=6; {sysctl}_stream=6"));
    world.edit(Van, "endpoint = ", &format!("keepalive = \"{keepalive}\"\nendpoint = "));
    world.start_and_wait(2);
    wait_until_seen(&world);
    let report = world.doctor_with(Van, &["--nat=12s"], |_| ());
    let (reached_s, lost_s) = memory(&report, "v1");
    assert!(reached_s >= 12.0 && lost_s.is_none(), "{:#}", report.json);
    let (reached_s, lost_s) = memory(&report, "v2");
    // The kernel's six seconds lie between; a busy machine has the answer, or the last question, late.
    assert!((1.0..=7.0).contains(&reached_s), "{:#}", report.json);
    assert!(lost_s.is_some_and(|lost_s| lost_s >= 5.0), "{:#}", report.json);
    report
}

#[test]
fn a_nat_that_forgets_before_paths_are_kept_alive_is_wrong() {
    let report = with_a_short_memory("20s");
    assert_eq!((report.names("wrong"), report.status), (vec!["nat-forgets"], Some(1)), "{:#}", report.json);
    let findings = report.json["findings"].as_array().unwrap().iter();
    let about: Vec<_> = findings.filter(|it| it["name"] == "nat-forgets").map(|it| &it["about"]).collect();
    assert_eq!(about, ["v2"], "the other uplink has no NAT: {:#}", report.json);
}

#[test]
fn a_nat_that_forgets_later_than_paths_are_kept_alive_is_not() {
    let report = with_a_short_memory("3s");
    assert_eq!((report.names("wrong"), report.status), (vec![], Some(0)), "{:#}", report.json);
}

#[test]
fn an_uplink_that_fails_meanwhile_has_no_nat_that_forgets() {
    let mut world = World::new();
    world.start_and_wait(2);
    wait_until_seen(&world);
    let mut is_cut = false;
    let report = world.doctor_with(Van, &["--nat=12s"], |line| {
        if !is_cut && line.contains("v2") && line.contains("is still reached") {
            let drop_all = "chain forward_none { type filter hook forward priority 0; policy drop; }";
            sh(&world.routers[1], &format!("nft 'table ip cut {{ {drop_all}; }}'"));
            is_cut = true;
        }
    });
    assert!(is_cut, "{:#}", report.json);
    assert!(!report.names("wrong").contains(&"nat-forgets"), "{:#}", report.json);
    assert_eq!(memory(&report, "v1").1, None, "{:#}", report.json);
    assert_eq!(memory(&report, "v2").1, None, "{:#}", report.json);
    let unseen = report.json["unseen"].to_string();
    assert!(unseen.contains("v2: a socket has no answer any more"), "{unseen}");
}
