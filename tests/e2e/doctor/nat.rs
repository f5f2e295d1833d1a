//! What `psmc doctor` says about the addresses of uplinks.

use crate::harness::wait_for;

use super::world::At::{Hq, Van};
use super::world::{PATIENCE, Report, World, sh};

/// Waits until the headquarters have said how they see both paths of the van.
fn wait_until_seen(world: &World) {
    wait_for("what the headquarters see", PATIENCE, || {
        let peer = world.van.try_status()?.peers.pop()?;
        peer.paths.iter().all(|path| path.seen_as.is_some()).then_some(())
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
