//! Networks that limit each flow, and paths that are spread over several.

use std::fs;
use std::time::Duration;

use psmc_api::PathState;
use psmc_testbed::steadily::{Measured, steadily};

use crate::harness::{Bulk, Family, HQ, Plan, Tunnel, VAN, iperf, path_name, wait_for};

const PATIENCE: Duration = Duration::from_secs(20);

/// What the link carries, in Mbit/s.
const MBIT: u64 = 40;

/// Over how many flows the path is spread.
const FLOWS: u16 = 4;

/// A tunnel over one link, whose path is spread over so many flows.
fn over(flows: u16) -> Tunnel {
    let mut tunnel = Tunnel::prepare(Plan { links: 1, mbit: Some(MBIT), ..Plan::default() });
    let file = tunnel.van.file("toml");
    let text = fs::read_to_string(&file).unwrap() + &format!("ports = {flows}\n");
    fs::write(&file, text).unwrap();
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    wait_for_flows(&tunnel, flows);
    tunnel
}

fn names(flows: u16) -> impl Iterator<Item = String> {
    let path = path_name(VAN, 1);
    (1..=flows).map(move |flow| if flow == 1 { path.clone() } else { format!("{path}-{flow}") })
}

fn wait_for_flows(tunnel: &Tunnel, flows: u16) {
    for site in [&tunnel.van, &tunnel.hq] {
        names(flows).for_each(|name| site.wait_for_path(&name, &[PathState::Active], PATIENCE));
    }
}

/// Has the network give each flow of UDP 8 Mbit/s in either direction, and drop the rest.
fn limit_flows(tunnel: &Tunnel) {
    let (interface, rate) = (HQ.link(1), "limit rate over 1 mbytes/second burst 100 kbytes");
    let set = |name| format!("set {name} {{ type inet_service . inet_service; flags dynamic; size 64; }};");
    let limit = |name| format!("meta l4proto udp update @{name} {{ udp sport . udp dport {rate} }} drop;");
    let table = format!(
        "table inet limiter {{ {} {} chain in {{ type filter hook input priority 0; iif {interface} {} }}; \
         chain out {{ type filter hook output priority 0; oif {interface} {} }}; }}",
        set("there"),
        set("back"),
        limit("there"),
        limit("back"),
    );
    tunnel.hq.run(&["nft", &table]);
}

#[test]
fn a_path_over_four_flows_has_four_shares_where_each_flow_is_limited() {
    steadily(Measured::Rate, || {
        let rates = [1, FLOWS].map(|flows| {
            let tunnel = over(flows);
            limit_flows(&tunnel);
            let inside = tunnel.hq.inner(Family::V4);
            let there = iperf(&tunnel.van, &tunnel.hq, inside, &["--time", "5", "--omit", "2"]).mbps();
            let back =
                iperf(&tunnel.van, &tunnel.hq, inside, &["--time", "5", "--omit", "2", "--reverse"]).mbps();
            println!("{flows} flows: {there:.1} Mbit/s there, {back:.1} back");
            [there, back]
        });
        for (alone, spread) in rates[0].iter().zip(rates[1]) {
            assert!(spread > 2.5 * alone, "{rates:?}");
        }
    });
}

/// Each has a port of its own, answers for itself, and follows the van by itself.
#[test]
fn every_flow_has_a_port_and_follows_when_the_address_changes() {
    let tunnel = over(FLOWS);
    let ports = |tunnel: &Tunnel| {
        let remotes = names(FLOWS).map(|name| tunnel.hq.path(&name).unwrap().remote.unwrap());
        remotes.collect::<std::collections::BTreeSet<_>>()
    };
    let before = ports(&tunnel);
    assert_eq!(before.len(), usize::from(FLOWS), "{before:?}");
    let bulk = Bulk::start(&tunnel.van, &tunnel.hq);
    bulk.wait_for_bytes(1_000_000, PATIENCE);
    let interface = VAN.link(1);
    tunnel.van.run(&["ip", "address", "add", "10.200.1.77/24", "dev", &interface]);
    tunnel.van.namespace.sysctl(&format!("net.ipv4.conf.{interface}.promote_secondaries"), "1").unwrap();
    tunnel.van.run(&["ip", "address", "del", "10.200.1.1/24", "dev", &interface]);
    wait_for("flows from the other address", PATIENCE, || {
        ports(&tunnel).iter().all(|remote| remote.starts_with("10.200.1.77:")).then_some(())
    });
    wait_for_flows(&tunnel, FLOWS);
    let at = bulk.bytes();
    bulk.wait_for_bytes(at + 1_000_000, PATIENCE);
    bulk.finish();
}

/// What the file says of flows is followed while the tunnel runs.
#[test]
fn flows_come_and_go_with_the_file() {
    let tunnel = over(1);
    let text = fs::read_to_string(tunnel.van.file("toml")).unwrap();
    tunnel.van.reload(&text.replacen("ports = 1", "ports = 3", 1), "");
    wait_for_flows(&tunnel, 3);
    tunnel.van.reload(&text.replacen("ports = 1", "ports = 2", 1), "");
    let third = names(3).last().unwrap();
    wait_for("the end of the third flow", PATIENCE, || tunnel.hq.path(&third).is_none().then_some(()));
    tunnel.ping(Family::V4);
}
