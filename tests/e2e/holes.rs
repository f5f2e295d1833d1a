//! Networks in which some datagrams vanish, by their size or by their marks, while probes pass.

use std::time::{Duration, Instant};

use psmc_api::{PathEcn, PathStatus};
use psmc_testbed::steadily::{Measured, steadily};

use crate::harness::{Bulk, Family, Plan, Site, Tunnel, VAN, path_name, udp_arrives, wait_for};

const PATIENCE: Duration = Duration::from_secs(20);

/// What the link carries, in Mbit/s.
const MBIT: u64 = 40;

/// The longest time without a byte over TCP when the hole appears.
const MAX_GAP: Duration = Duration::from_secs(3);

/// A network whose hosts send datagrams one by one, so that each is judged by itself.
fn tunnel() -> Tunnel {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, mbit: Some(MBIT), ..Plan::default() });
    for site in [&tunnel.van, &tunnel.hq] {
        site.namespace.disable_offloads(&site.end.link(1)).unwrap();
    }
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel
}

/// Drops and counts what arrives at the site by UDP and is like that.
fn swallow(site: &Site, what: &str) {
    let interface = site.end.link(1);
    let table = format!(
        "table inet hole {{ counter swallowed {{ }}; chain in {{ type filter hook input priority 0; \
         iif {interface} meta l4proto udp {what} counter name swallowed drop; }}; }}"
    );
    site.run(&["nft", &table]);
}

fn swallowed(site: &Site) -> u64 {
    let text = site.run(&["nft", "list", "counter", "inet", "hole", "swallowed"]);
    let count = text.split_once("packets ").unwrap().1.split_whitespace().next().unwrap();
    count.parse().unwrap()
}

/// A flow in either direction goes on when a hole appears, and for as long as it lasts.
fn flows_survive(what: &str, is_found: impl Fn(&Site) -> bool) {
    let tunnel = tunnel();
    let flows =
        [(&tunnel.van, &tunnel.hq), (&tunnel.hq, &tunnel.van)].map(|(from, to)| Bulk::start(from, to));
    flows.iter().for_each(|flow| flow.wait_for_bytes(2_000_000, PATIENCE));
    let appeared = Instant::now();
    for site in [&tunnel.van, &tunnel.hq] {
        swallow(site, what);
    }
    for site in [&tunnel.van, &tunnel.hq] {
        wait_for("the hole", PATIENCE, || is_found(site).then_some(()));
    }
    for flow in &flows {
        let at = flow.bytes();
        flow.wait_for_bytes(at + 4_000_000, PATIENCE);
        let gap = flow.longest_gap_since(appeared);
        println!("{what}: longest gap {gap:.1?}");
        assert!(gap < MAX_GAP, "{gap:?}");
    }
    let (before, at) = (swallowed(&tunnel.hq), flows[0].bytes());
    flows[0].wait_for_bytes(at + 4_000_000, PATIENCE);
    let lost = swallowed(&tunnel.hq) - before;
    assert!(lost < 100, "{lost} datagrams were lost of a hole that is known");
    flows.into_iter().for_each(Bulk::finish);
}

fn path(site: &Site) -> PathStatus {
    site.path(&path_name(VAN, 1)).unwrap()
}

#[test]
fn a_path_that_swallows_large_datagrams_is_used_with_smaller_ones() {
    for largest in [1400, 1000] {
        steadily(Measured::Time, || {
            let room = largest - 16..=largest;
            flows_survive(&format!("meta length > {largest}"), |site| {
                let path = path(site);
                path.narrower_than == Some(1500) && room.contains(&path.mtu)
            });
        });
    }
}

#[test]
fn a_path_that_swallows_what_can_be_marked_is_used_without_marks() {
    steadily(Measured::Time, || {
        flows_survive("ip ecn != not-ect", |site| path(site).ecn == PathEcn::Failed);
    });
}

/// What packets in the tunnel are marked with stays there.
#[test]
fn a_path_that_swallows_code_points_is_shown_none() {
    let tunnel = tunnel();
    for site in [&tunnel.van, &tunnel.hq] {
        swallow(site, "ip dscp != cs0");
    }
    let inside = tunnel.hq.inner(Family::V4);
    for class in ["0xb8", "0x28", "0x20"] {
        tunnel.van.run(&["ping", "-c", "10", "-i", "0.02", "-w", "10", "-Q", class, &inside.to_string()]);
    }
    udp_arrives(&tunnel.van, (&tunnel.hq, inside), 1200, 0.1);
    assert_eq!([&tunnel.van, &tunnel.hq].map(swallowed), [0, 0]);
}
