//! Paths by IP-in-IP: the real daemons, with the real relay and with an ordinary end of a tunnel.

use std::io::Read;
use std::net::{Ipv4Addr, SocketAddrV4};
use std::time::Duration;

use psmc_api::PathState;
use psmc_net::packet::{ETHERNET_HEADER, PacketPort};
use psmc_testbed::netns::Namespace;
use socket2::{Domain, Protocol, Socket, Type};

use crate::harness::{
    Bulk, Family, Relayed, Site, allow, hq_address, met_address, seen_address, van_address, van_interface,
    wait_for,
};
use psmc_testbed::steadily::{Measured, steadily};

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
    steadily(Measured::Time, || {
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
    });
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
    let (unwrapped, wrapped) = wait_for("packets both ways through the tunnel's end", PATIENCE, || {
        Some(end.moved()).filter(|&(unwrapped, wrapped)| unwrapped > 500 && wrapped > 50)
    });
    bulk.finish();
    println!("the tunnel's end has unwrapped {unwrapped} packets and wrapped {wrapped}");
    let hq = world.tunnel.hq.peer();
    let remotes: Vec<_> = hq.paths.iter().filter_map(|path| path.remote.clone()).collect();
    assert!(remotes.iter().any(|remote| remote.starts_with(&INSIDE.to_string())), "{remotes:?}");
}

/// From 10.1.0.9 to 10.2.0.9: an IPv4 header with a TTL of 64, and an empty datagram of UDP.
const INNER: [u8; 28] =
    [0x45, 0, 0, 28, 0, 1, 0, 0, 64, 17, 0x66, 0xbc, 10, 1, 0, 9, 10, 2, 0, 9, 0, 9, 0, 9, 0, 8, 0, 0];

/// A socket of an ordinary end of a tunnel.
fn plain_end(host: &Namespace) -> Socket {
    let socket =
        host.run(|| Socket::new(Domain::IPV4, Type::RAW, Some(Protocol::from(i32::from(IPIP))))).unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

#[test]
fn a_plain_tunnel_ends_where_a_daemon_has_registered_beside_its_sessions() {
    let mut world = Relayed::prepare(1, None);
    let [van_key, hq_key] = [&world.tunnel.van, &world.tunnel.hq].map(|site| site.key.public());
    let tunnel = format!(
        "[[tunnel]]\nname = \"north\"\nleft = \"{}\"\nleft_inside = [\"10.1.0.0/24\"]\n\
         right_site = \"hq\"\nright_inside = [\"10.2.0.0/24\"]\n",
        van_address(0)
    );
    world.serve("", &(allow("van", &van_key, "") + &allow("hq", &hq_key, "gateway = true\n") + &tunnel));
    let (left, mut right) = (plain_end(&world.tunnel.van.namespace), plain_end(&world.tunnel.hq.namespace));
    let send = || left.send_to(&INNER, &SocketAddrV4::new(met_address(0), 0).into()).unwrap();
    send();
    wait_for("a packet for an end that is nowhere", PATIENCE, || {
        (world.status(0).tunnel_packets.no_end == 1).then_some(())
    });
    world.start_hidden("", "", &Relayed::hidden_path(&[0]));
    is_active(&world.tunnel.van, "r0");
    let end = world.status(0).tunnels[0].to_right.address.clone();
    assert_eq!(end, Some(hq_address(0).to_string()));
    send();
    let mut packet = [0; 128];
    let length = right.read(&mut packet).unwrap();
    let (outer, inner) = packet[..length].split_at(20);
    assert_eq!(
        (&outer[12..16], &outer[16..20]),
        (&seen_address(0).octets()[..], &hq_address(0).octets()[..])
    );
    assert_eq!((inner[8], &inner[12..]), (INNER[8] - 1, &INNER[12..]));
    world.tunnel.ping(Family::V4);
    world.tunnel.hq.kill();
    wait_for("an end that is nowhere", PATIENCE, || {
        world.status(0).tunnels[0].to_right.address.is_none().then_some(())
    });
}
