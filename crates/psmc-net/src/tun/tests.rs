//! Real devices in namespaces.

use std::future::poll_fn;
use std::net::UdpSocket;
use std::time::Duration;

use psmc_wire::Checksum;
use psmc_wire::buf::{BufPool, PacketBuf};
use tokio::runtime::{Builder, Runtime};
use tokio::time::timeout;

use super::*;
use crate::udp::{Ecn, Transmit, UdpBind, UdpPort};
use psmc_testbed::netns::Namespace;

mod traffic;

const PATIENCE: Duration = Duration::from_secs(10);
const MTU: u16 = 1400;

/// A namespace whose only way out is a TUN device.
struct Host {
    namespace: Namespace,
    tun: Tun,
}

impl Host {
    /// Host `number` of 10.9.0.0/24 and fd09::/64, whose device belongs to `runtime`.
    fn new(number: u8, runtime: &Runtime) -> Self {
        let namespace = Namespace::new().expect("this test needs root, for it makes network namespaces");
        let addresses = [format!("10.9.0.{number}/24"), format!("fd09::{number}/64")];
        let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
        let config = TunConfig { name: None, mtu: MTU, addresses, routes_networks: true };
        let tun = namespace.run(|| runtime.block_on(Tun::create(config))).unwrap();
        Self { namespace, tun }
    }
}

fn runtime() -> Runtime {
    Builder::new_current_thread().enable_all().build().unwrap()
}

fn pool() -> BufPool {
    BufPool::new(MTU.into(), 1024)
}

#[test]
fn a_datagram_comes_out_as_its_packet() {
    let runtime = runtime();
    let mut host = Host::new(1, &runtime);
    let socket = host.namespace.run(|| UdpSocket::bind("10.9.0.1:5000")).unwrap();
    socket.send_to(b"hello", "10.9.0.2:6000").unwrap();
    let (mut pool, mut out) = (pool(), Vec::new());
    let mut packet = runtime.block_on(async {
        loop {
            let polled = timeout(PATIENCE, poll_fn(|cx| host.tun.poll_recv(cx, &mut pool, &mut out))).await;
            polled.expect("no packet came").unwrap();
            // The kernel also asks for IPv6 routers.
            if let Some(place) = out.iter().position(|packet| packet.packet()[0] >> 4 == 4) {
                return out.swap_remove(place);
            }
        }
    });
    assert_eq!(packet.checksum(), Checksum::Partial);
    packet.complete_checksum();
    let (_, segment) = header::parse(packet.packet()).unwrap();
    assert!(segment.unwrap().is_intact(packet.packet()));
    assert_eq!(
        &packet.packet()[12..28],
        [10, 9, 0, 1, 10, 9, 0, 2, 0x13, 0x88, 0x17, 0x70, 0, 13, packet.packet()[26], packet.packet()[27]]
    );
    assert_eq!(&packet.packet()[28..], b"hello");
}

#[test]
fn what_comes_while_nobody_reads_waits() {
    const COUNT: usize = 1900;
    let runtime = runtime();
    let mut host = Host::new(1, &runtime);
    let socket = host.namespace.run(|| UdpSocket::bind("10.9.0.1:5000")).unwrap();
    for _ in 0..COUNT {
        socket.send_to(b"hello", "10.9.0.2:6000").unwrap();
    }
    let (mut pool, mut out, mut came) = (pool(), Vec::new(), 0);
    runtime.block_on(async {
        while came < COUNT {
            let polled = timeout(PATIENCE, poll_fn(|cx| host.tun.poll_recv(cx, &mut pool, &mut out))).await;
            polled.unwrap_or_else(|_| panic!("{came} came")).unwrap();
            // The kernel also asks for IPv6 routers.
            came += out.iter().filter(|packet| packet.packet()[0] >> 4 == 4).count();
            out.drain(..).for_each(|packet| pool.put(packet));
        }
    });
}

/// Makes the host send `count` datagrams with this payload over IPv6, and returns their UDP checksums.
fn udp_checksums(host: &mut Host, runtime: &Runtime, count: usize, payload: [u8; 2]) -> Vec<[u8; 2]> {
    let bind = UdpBind { address: "[fd09::1]:5000".parse().unwrap(), interface: None };
    let socket = host.namespace.run(|| {
        let _guard = runtime.enter();
        UdpPort::bind(&bind).unwrap()
    });
    let transmit = Transmit {
        remote: "[fd09::2]:6000".parse().unwrap(),
        local_ip: None,
        ecn: Ecn::NotEct,
        segment_size: Some(2),
        apart: false,
        contents: &payload.repeat(count),
    };
    let (mut pool, mut out) = (pool(), Vec::new());
    runtime.block_on(async {
        socket.try_send(&transmit).unwrap();
        let is_udp = |packet: &PacketBuf| packet.packet()[6] == 17;
        while out.iter().filter(|packet| is_udp(packet)).count() < count {
            let polled = timeout(PATIENCE, poll_fn(|cx| host.tun.poll_recv(cx, &mut pool, &mut out))).await;
            polled.expect("no packet came").unwrap();
        }
        out.retain(is_udp);
        out.iter_mut().for_each(PacketBuf::complete_checksum);
    });
    out.iter().map(|packet| [packet.packet()[46], packet.packet()[47]]).collect()
}

#[test]
fn regression_a_udp_checksum_of_zero_is_spelt_as_all_ones() {
    let runtime = runtime();
    let mut host = Host::new(1, &runtime);
    for count in [1, 3] {
        // Beside its own checksum as payload nothing is left to add.
        let checksum = udp_checksums(&mut host, &runtime, 1, [0, 0])[0];
        let checksums = udp_checksums(&mut host, &runtime, count, checksum);
        assert_eq!(checksums, vec![[0xFF, 0xFF]; count]);
    }
}

/// A datagram with five bytes for port 6000 of host 1.
fn datagram() -> Vec<u8> {
    let mut bytes = vec![0x45, 0, 0, 33, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 2, 10, 9, 0, 1];
    bytes.extend([0x13, 0x88, 0x17, 0x70, 0, 13, 0, 0]);
    bytes.extend(b"hello");
    let sum = !tun_rs::checksum(&bytes[..20], 0);
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    bytes
}

fn filled(bytes: &[u8]) -> PacketBuf {
    let mut packet = PacketBuf::with_capacity(64);
    packet.fill(bytes);
    packet
}

#[test]
fn what_more_may_join_waits_for_it() {
    let runtime = runtime();
    let mut host = Host::new(1, &runtime);
    assert!(
        host.tun.device.get().udp_gso(),
        "this test needs Linux 6.2, for it has the device join datagrams"
    );
    let socket = host.namespace.run(|| UdpSocket::bind("10.9.0.1:6000")).unwrap();
    let mut bytes = datagram();
    // Without a checksum it would be left as it is; what it is to be the kernel computes.
    bytes[26] = 1;
    let joinable = || {
        let mut packet = filled(&bytes);
        packet.set_checksum(Checksum::Partial);
        packet
    };
    let mut packets = vec![filled(b"\x00garbage"), joinable(), joinable()];
    let mut pool = pool();
    let report = host.tun.send(&mut packets, &mut pool, true);
    assert_eq!((report, packets.len()), (SendReport { writes: 1, written: 0, dropped: 1 }, 2));
    packets.push(joinable());
    let report = host.tun.send(&mut packets, &mut pool, false);
    assert_eq!((report, packets.len()), (SendReport { writes: 1, written: 3, dropped: 0 }, 0));
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..3 {
        assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 5);
    }
}

#[test]
fn a_bad_packet_costs_no_other() {
    let runtime = runtime();
    let mut host = Host::new(1, &runtime);
    let socket = host.namespace.run(|| UdpSocket::bind("10.9.0.1:6000")).unwrap();
    let good = datagram();
    let mut packets: Vec<PacketBuf> = [&b"\x00garbage"[..], &good, b"", &good].map(filled).into();
    let mut pool = pool();
    assert_eq!(
        host.tun.send(&mut packets, &mut pool, false),
        SendReport { writes: 4, written: 2, dropped: 2 }
    );
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    for _ in 0..2 {
        assert_eq!(socket.recv(&mut [0; 64]).unwrap(), 5);
    }
}

#[test]
fn buffers_are_used_again() {
    let runtime = runtime();
    let mut host = Host::new(1, &runtime);
    let socket = host.namespace.run(|| UdpSocket::bind("10.9.0.1:0")).unwrap();
    let (mut pool, mut out) = (pool(), Vec::new());
    let mut free = Vec::new();
    for _ in 0..20 {
        socket.send_to(b"x", "10.9.0.2:1").unwrap();
        runtime.block_on(poll_fn(|cx| host.tun.poll_recv(cx, &mut pool, &mut out))).unwrap();
        host.tun.send(&mut out, &mut pool, false);
        free.push(pool.free());
    }
    assert_eq!(free[1], *free.last().unwrap(), "{free:?}");
}

#[test]
fn name_and_index_are_those_of_the_kernel() {
    let runtime = runtime();
    let host = Host::new(1, &runtime);
    assert_eq!(host.tun.name(), "psmc0");
    let index = host.namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/if_inet6")).unwrap();
    assert!(
        index
            .lines()
            .any(|line| line.ends_with("psmc0") && line.contains(&format!(" {:02x} ", host.tun.index())))
    );
}

#[test]
fn a_taken_name_is_an_error_that_says_so() {
    let runtime = runtime();
    let host = Host::new(1, &runtime);
    let config =
        TunConfig { name: Some("psmc0".to_owned()), mtu: MTU, addresses: Vec::new(), routes_networks: true };
    let error = host.namespace.run(|| runtime.block_on(Tun::create(config))).unwrap_err();
    assert!(matches!(&error, TunError::NameTaken { name, .. } if name == "psmc0"), "{error}");
    let config = TunConfig {
        name: Some("much-too-long-for-a-name".to_owned()),
        mtu: MTU,
        addresses: Vec::new(),
        routes_networks: true,
    };
    let error = host.namespace.run(|| runtime.block_on(Tun::create(config))).unwrap_err();
    assert!(matches!(error, TunError::Refused { .. }), "{error}");
}
