use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use psmc_testbed::netns::{Namespace, link_pair};

use super::*;

const PATIENCE: Duration = Duration::from_secs(5);

/// A host, a router whose link to the far host is narrow, and that host.
fn world() -> [Namespace; 3] {
    let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap(), Namespace::new().unwrap()];
    let [near, router, far] = &hosts;
    link_pair(near, "out", router, "in").unwrap();
    link_pair(router, "out", far, "in").unwrap();
    for (host, name, addresses) in [
        (near, "out", ["10.1.0.1/24", "fd00:1::1/64"]),
        (router, "in", ["10.1.0.2/24", "fd00:1::2/64"]),
        (router, "out", ["10.2.0.1/24", "fd00:2::1/64"]),
        (far, "in", ["10.2.0.2/24", "fd00:2::2/64"]),
    ] {
        for address in addresses {
            host.add_address(name, address.parse().unwrap()).unwrap();
        }
    }
    for (host, network, gateway) in [
        (near, "10.2.0.0/24", "10.1.0.2"),
        (far, "10.1.0.0/24", "10.2.0.1"),
        (near, "fd00:2::/64", "fd00:1::2"),
        (far, "fd00:1::/64", "fd00:2::1"),
    ] {
        host.add_route(network.parse().unwrap(), gateway.parse().unwrap()).unwrap();
    }
    router.sysctl("net.ipv4.ip_forward", "1").unwrap();
    router.sysctl("net.ipv6.conf.all.forwarding", "1").unwrap();
    router.set_mtu("out", 1300).unwrap();
    hosts
}

fn probe(remote: IpAddr, length: u16) -> Probe {
    Probe { interface: Some("out".to_owned()), local: None, remote: SocketAddr::new(remote, 9), length }
}

#[test]
fn whoever_does_not_pass_a_datagram_on_is_named() {
    let [near, _router, far] = world();
    let ip = |text: &str| text.parse::<IpAddr>().unwrap();
    for (remote, router) in [(ip("10.2.0.2"), ip("10.1.0.2")), (ip("fd00:2::2"), ip("fd00:1::2"))] {
        let ask = |hops, length| {
            near.block_on(|| async move { send(&probe(remote, length), hops, PATIENCE).await })
                .unwrap()
                .unwrap()
        };
        let said = |from, kind| Some(IcmpError { from: Some(from), kind });
        assert_eq!(ask(Some(1), 100), said(router, IcmpKind::Expired));
        assert_eq!(ask(None, 100), said(remote, IcmpKind::NoPort));
        assert_eq!(ask(None, 1400), said(router, IcmpKind::TooBig(1300)));
    }
    // Whoever listens says nothing.
    let _listener = far.run(|| std::net::UdpSocket::bind("10.2.0.2:9")).unwrap();
    let walk =
        near.block_on(|| async { walk(&probe(ip("10.2.0.2"), 100), 4, Duration::from_millis(300)).await });
    assert_eq!(walk.unwrap().unwrap(), Walk { hops: vec![(1, ip("10.1.0.2"))], end: None });
}

#[test]
fn what_cannot_be_sent_is_told_at_once() {
    let [near, ..] = world();
    // Of an interface that is named the kernel assumes that everybody is on its link.
    let nowhere = Probe { interface: None, ..probe("192.0.2.1".parse().unwrap(), 100) };
    let outcome = near.block_on(|| async move { send(&nowhere, None, PATIENCE).await });
    assert_eq!(outcome.unwrap().unwrap_err().kind(), io::ErrorKind::NetworkUnreachable);
}
