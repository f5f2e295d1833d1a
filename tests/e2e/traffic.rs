//! Ordinary traffic gets through, whatever the scheduler and the addresses.

use std::net::IpAddr;

use crate::harness::{Family, Plan, Tunnel, download, iperf, udp_arrives};
use psmc_testbed::steadily::{Measured, steadily};

/// How much is downloaded, in bytes: some 190 000 packets, far more than any window, table or queue has room for.
const DOWNLOAD: usize = 1 << 28;

/// Far below what any machine carries, far above nothing, in bytes over one second.
const SOME: u64 = 1_000_000;

/// So many flows that chance, which gives each one of three paths, gives all of them the same one in three of 3^24 runs.
const FLOWS: usize = 24;

#[test]
fn wrr_carries_all_kinds_of_traffic() {
    steadily(Measured::Rate, || {
        carries_all_kinds("wrr");
    });
}

#[test]
fn earliest_carries_all_kinds_of_traffic() {
    steadily(Measured::Rate, || {
        carries_all_kinds("earliest");
    });
}

fn carries_all_kinds(scheduler: &'static str) {
    let tunnel = tunnel(scheduler);
    for family in [Family::V4, Family::V6] {
        tunnel.ping(family);
    }
    let inside = tunnel.hq.inner(Family::V4);
    tcp(&tunnel, inside, 1);
    tcp(&tunnel, inside, 8);
    udp(&tunnel, inside);
}

#[test]
fn wrr_carries_a_large_download() {
    steadily(Measured::Rate, || {
        carries_a_download("wrr");
    });
}

#[test]
fn earliest_carries_a_large_download() {
    steadily(Measured::Rate, || {
        carries_a_download("earliest");
    });
}

fn carries_a_download(scheduler: &'static str) {
    let tunnel = tunnel(scheduler);
    let took = download(&tunnel.van, &tunnel.hq, tunnel.hq.inner(Family::V4), DOWNLOAD);
    println!("{scheduler}: {} MiB in {took:.1?}", DOWNLOAD >> 20);
}

#[test]
fn flow_keeps_flows_apart_and_uses_several_paths() {
    steadily(Measured::Rate, || {
        let tunnel = tunnel("flow");
        tcp(&tunnel, tunnel.hq.inner(Family::V4), FLOWS);
        let used = sent_by_path(&tunnel).into_iter().filter(|&bytes| bytes > SOME / 10);
        assert!(used.count() >= 2, "{:?}", sent_by_path(&tunnel));
    });
}

#[test]
fn redundant_sends_everything_everywhere_and_delivers_it_once() {
    steadily(Measured::Rate, || {
        let tunnel = tunnel("redundant");
        tcp(&tunnel, tunnel.hq.inner(Family::V4), 1);
        udp(&tunnel, tunnel.hq.inner(Family::V4));
        let sent = sent_by_path(&tunnel);
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(least * 2 > *most, "{sent:?}");
    });
}

#[test]
fn ipv4_and_ipv6_travel_inside_ipv6() {
    steadily(Measured::Rate, || {
        let tunnel = Tunnel::start(Plan { family: Family::V6, ..Plan::default() });
        for family in [Family::V4, Family::V6] {
            tunnel.ping(family);
            tcp(&tunnel, tunnel.hq.inner(family), 1);
            udp(&tunnel, tunnel.hq.inner(family));
        }
    });
}

#[test]
fn ipv6_travels_inside_ipv4() {
    steadily(Measured::Rate, || {
        let tunnel = tunnel("earliest");
        tcp(&tunnel, tunnel.hq.inner(Family::V6), 1);
        udp(&tunnel, tunnel.hq.inner(Family::V6));
        download(&tunnel.hq, &tunnel.van, tunnel.van.inner(Family::V6), 16 << 20);
    });
}

fn tunnel(scheduler: &'static str) -> Tunnel {
    Tunnel::start(Plan { links: 3, scheduler, ..Plan::default() })
}

fn tcp(tunnel: &Tunnel, address: IpAddr, flows: usize) {
    let parallel = flows.to_string();
    let report = iperf(&tunnel.van, &tunnel.hq, address, &["--time", "1", "--parallel", &parallel]);
    println!("{}: {flows} TCP flows to {address}: {:.0} Mbit/s", tunnel.plan.scheduler, report.mbps());
    assert!(report.bytes() > SOME, "{report:?}");
    let by_flow = report.bytes_by_flow();
    assert_eq!(by_flow.len(), flows);
    assert!(by_flow.iter().all(|&bytes| bytes > 0), "{by_flow:?}");
}

/// At a rate that any machine carries, next to nothing may be lost.
fn udp(tunnel: &Tunnel, address: IpAddr) {
    udp_arrives(&tunnel.van, (&tunnel.hq, address), 1200, 1.0);
}

/// The bytes that the van has sent on each path.
fn sent_by_path(tunnel: &Tunnel) -> Vec<u64> {
    tunnel.van.peer().paths.iter().map(|path| path.tx_bytes).collect()
}
