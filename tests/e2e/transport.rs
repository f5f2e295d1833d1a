//! Networks that let no UDP through, and paths that travel in streams of TLS there.

use std::fs;
use std::time::{Duration, Instant};

use psmc_api::PathState;
use psmc_testbed::steadily::{Measured, steadily};

use crate::harness::{Bulk, Family, HQ, Plan, Tunnel, VAN, iperf, path_name, wait_for};

const PATIENCE: Duration = Duration::from_secs(20);

/// What a link carries, in Mbit/s.
const MBIT: u64 = 40;

/// How soon a path that UDP does not serve any more is served by a stream.
const SOON: Duration = Duration::from_secs(3);

/// How soon it is UDP's again.
const BACK: Duration = Duration::from_secs(30);

/// A tunnel over one link, whose path has this transport.
fn over_one_link(transport: &str) -> Tunnel {
    let tunnel = Tunnel::prepare(Plan { links: 1, mbit: Some(MBIT), ..Plan::default() });
    let file = tunnel.van.file("toml");
    let text = fs::read_to_string(&file).unwrap() + &format!("transport = \"{transport}\"\n");
    fs::write(&file, text).unwrap();
    tunnel
}

/// What becomes of UDP at the headquarters from now on.
fn treat_udp(tunnel: &Tunnel, verdict: &str) {
    let interface = HQ.link(1);
    let table = format!(
        "table inet hotel {{ chain in {{ type filter hook input priority 0; iif {interface} meta l4proto udp {verdict}; }}; \
         chain out {{ type filter hook output priority 0; oif {interface} meta l4proto udp drop; }}; }}"
    );
    tunnel.hq.run(&["nft", &table]);
}

fn let_udp_through(tunnel: &Tunnel) {
    tunnel.hq.run(&["nft", "delete table inet hotel"]);
}

#[test]
fn a_stream_of_tls_has_all_of_a_link_that_lets_no_udp_through() {
    steadily(Measured::Rate, || {
        let mut tunnel = over_one_link("tls");
        treat_udp(&tunnel, "drop");
        tunnel.hq.start();
        tunnel.van.start();
        tunnel.wait_until_up();
        tunnel.ping(Family::V4);
        tunnel.ping(Family::V6);
        for (from, to) in [(&tunnel.van, &tunnel.hq), (&tunnel.hq, &tunnel.van)] {
            let report = iperf(from, to, to.inner(Family::V4), &["--time", "5", "--omit", "1"]);
            println!("{:.1} of {MBIT} Mbit/s", report.mbps());
            assert!(report.mbps() > 0.8 * MBIT as f64, "{report:?}");
        }
        println!("{:#?}", tunnel.van.path(&path_name(VAN, 1)));
    });
}

/// A flow goes on over a stream when UDP is blocked, and by UDP when it is not any more.
fn a_flow_survives(verdict: &'static str) {
    let mut tunnel = over_one_link("auto");
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let (van, path) = (&tunnel.van, path_name(VAN, 1));
    let stream = format!("{path}-tls");
    assert!(van.path(&stream).is_none(), "UDP works");
    let bulk = Bulk::start(van, &tunnel.hq);
    bulk.wait_for_bytes(4_000_000, PATIENCE);
    treat_udp(&tunnel, verdict);
    let blocked = Instant::now();
    van.wait_for_path(&stream, &[PathState::Active], PATIENCE);
    let at = bulk.bytes();
    bulk.wait_for_bytes(at + 1_000_000, PATIENCE);
    let gap = bulk.longest_gap_since(blocked);
    println!("{verdict}: on TLS after {:.1?}, longest gap {gap:.1?}", blocked.elapsed());
    assert!(gap < SOON, "{gap:?}");
    let_udp_through(&tunnel);
    let restored = Instant::now();
    van.wait_for_path(&path, &[PathState::Active], BACK);
    wait_for("the end of the stream", BACK, || van.path(&stream).is_none().then_some(()));
    println!("by UDP alone after {:.1?}", restored.elapsed());
    let at = bulk.bytes();
    bulk.wait_for_bytes(at + 1_000_000, PATIENCE);
    bulk.finish();
    tunnel.ping(Family::V4);
}

#[test]
fn a_flow_survives_that_udp_is_dropped() {
    steadily(Measured::Time, || a_flow_survives("drop"));
}

#[test]
fn a_flow_survives_that_udp_is_rejected() {
    steadily(Measured::Time, || a_flow_survives("reject"));
}
