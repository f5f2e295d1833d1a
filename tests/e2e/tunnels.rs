//! Paths by IP-in-IP: the real daemons, with the real relay and with an ordinary end of a tunnel.

use std::net::Ipv4Addr;
use std::time::Duration;

use psmc_net::packet::{ETHERNET_HEADER, PacketPort};
use psmcd::api::PathState;

use crate::harness::{Bulk, Family, Relayed, Site, van_interface, wait_for};

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(15);

/// The longest time without a byte over TCP when one of two relays is killed: far more than it takes, which is printed.
const MAX_GAP: Duration = Duration::from_secs(2);

/// What a link to a relay carries, in Mbit/s.
const MBIT: u64 = 20;

/// What an ordinary end of a tunnel calls the van.
const INSIDE: Ipv4Addr = Ipv4Addr::new(10, 9, 0, 2);

const LARGEST_FRAME: usize = 2048;

/// Protocol numbers.
const IPIP: u8 = 4;
const UDP: u8 = 17;

fn is_active(site: &Site, path: &str) {
    site.wait_for_path(path, &[PathState::Active], PATIENCE);
}

/// How many of the IPv4 packets that wait at an interface have this protocol number.
fn count(tap: &mut PacketPort, protocol: u8) -> (u64, u64) {
    let (mut all, mut matching) = (0, 0);
    while let Some(frame) = tap.recv() {
        let packet = &frame.bytes()[ETHERNET_HEADER..];
        if packet.first().is_some_and(|first| first >> 4 == 4) {
            all += 1;
            matching += u64::from(packet[9] == protocol);
        }
    }
    (all, matching)
}

#[test]
fn tcp_goes_over_a_relay_by_udp_and_one_by_ip_in_ip_and_goes_on_when_that_is_killed() {
    let mut world = Relayed::prepare(2, Some(MBIT));
    let van = &world.tunnel.van.namespace;
    let mut taps =
        [0, 1].map(|relay| van.run(|| PacketPort::open(&van_interface(relay), LARGEST_FRAME)).unwrap());
    world.start("", &(Relayed::path(&[0]) + &Relayed::wrapped_path(1)));
    for path in ["r0", "r1"] {
        is_active(&world.tunnel.van, path);
        is_active(&world.tunnel.hq, path);
    }
    let bulk = Bulk::start(&world.tunnel.van, &world.tunnel.hq);
    for path in ["r0", "r1"] {
        wait_for("bytes on both paths", PATIENCE, || {
            world.tunnel.van.path(path).filter(|path| path.tx_bytes > 2 << 20)
        });
    }
    let [by_udp, by_ipip] = &mut taps;
    assert_eq!((count(by_udp, IPIP).1, count(by_ipip, UDP).1), (0, 0), "each in its own way only");
    world.kill(1);
    let gap = bulk.longest_gap_in(Duration::from_secs(1), PATIENCE);
    println!("the relay by IP-in-IP was killed: {gap:.0?} without a byte");
    assert!(gap < MAX_GAP, "{gap:?}");
    world.tunnel.van.wait_for_path("r1", &[PathState::Dead], PATIENCE);
    let sent = world.tunnel.van.path("r1").unwrap().tx_bytes;
    world.restart(1);
    is_active(&world.tunnel.van, "r1");
    wait_for("bytes through the relay that is back", PATIENCE, || {
        world.tunnel.van.path("r1").filter(|path| path.tx_bytes > sent + (1 << 20))
    });
    bulk.finish();
    let [udp, ipip] = ["r0", "r1"].map(|path| world.tunnel.van.path(path).unwrap());
    assert_eq!(ipip.relay_error, None);
    println!("payload per datagram: {} by UDP, {} by IP-in-IP", udp.mtu, ipip.mtu);
}

#[test]
fn an_ordinary_end_of_a_tunnel_will_do_for_a_relay() {
    let mut world = Relayed::prepare(2, None);
    let end = world.make_tunnel_end(1, INSIDE);
    world.start("", &(Relayed::path(&[0]) + &Relayed::path_by_tunnel_end(1, INSIDE)));
    is_active(&world.tunnel.van, "end");
    is_active(&world.tunnel.hq, "end");
    let path = world.tunnel.van.path("end").unwrap();
    assert_eq!(path.relays, ["end"]);
    world.tunnel.van.psmc_ok(&["path", "remove", "hq", "r0"]);
    wait_for("one path left", PATIENCE, || world.tunnel.van.path("r0").is_none().then_some(()));
    world.tunnel.ping(Family::V4);
    let bulk = Bulk::start(&world.tunnel.van, &world.tunnel.hq);
    bulk.wait_for_bytes(1 << 20, PATIENCE);
    bulk.finish();
    let (unwrapped, wrapped) = end.moved();
    println!("the tunnel's end has unwrapped {unwrapped} packets and wrapped {wrapped}");
    assert!(unwrapped > 500 && wrapped > 50, "{unwrapped}, {wrapped}");
    let hq = world.tunnel.hq.peer();
    let remotes: Vec<_> = hq.paths.iter().filter_map(|path| path.remote.clone()).collect();
    assert!(remotes.iter().any(|remote| remote.starts_with(&INSIDE.to_string())), "{remotes:?}");
}
