//! Real namespaces.

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use ipnet::IpNet;

use super::*;

const NEEDS_ROOT: &str = "this test needs root, for it makes network namespaces";

fn namespace() -> Namespace {
    Namespace::new().expect(NEEDS_ROOT)
}

fn echo_between(a: &Namespace, address_a: &str, b: &Namespace) {
    let server = a.run(|| UdpSocket::bind((address_a, 0))).unwrap();
    let client =
        b.run(|| UdpSocket::bind(if address_a.contains(':') { "[::]:0" } else { "0.0.0.0:0" })).unwrap();
    client.send_to(b"ping", server.local_addr().unwrap()).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let mut buffer = [0; 16];
    let (length, _) = server.recv_from(&mut buffer).unwrap();
    assert_eq!(&buffer[..length], b"ping");
}

#[test]
fn two_namespaces_reach_each_other() {
    let (a, b) = (namespace(), namespace());
    link_pair(&a, "left", &b, "right").unwrap();
    for (namespace, name, host) in [(&a, "left", 1), (&b, "right", 2)] {
        namespace.add_address(name, format!("10.0.0.{host}/24").parse().unwrap()).unwrap();
        namespace.add_address(name, format!("fd00::{host}/64").parse().unwrap()).unwrap();
    }
    echo_between(&a, "10.0.0.1", &b);
    echo_between(&a, "fd00::1", &b);
}

#[test]
fn routes_lead_through_a_router() {
    let (a, router, b) = (namespace(), namespace(), namespace());
    link_pair(&a, "up", &router, "to-a").unwrap();
    link_pair(&b, "up", &router, "to-b").unwrap();
    a.add_address("up", "10.0.1.2/24".parse().unwrap()).unwrap();
    b.add_address("up", "10.0.2.2/24".parse().unwrap()).unwrap();
    router.add_address("to-a", "10.0.1.1/24".parse().unwrap()).unwrap();
    router.add_address("to-b", "10.0.2.1/24".parse().unwrap()).unwrap();
    router.sysctl("net.ipv4.ip_forward", "1").unwrap();
    a.add_route("0.0.0.0/0".parse().unwrap(), "10.0.1.1".parse().unwrap()).unwrap();
    b.add_device_route("10.0.1.1/32".parse().unwrap(), "up").unwrap();
    b.add_route("10.0.1.0/24".parse().unwrap(), "10.0.2.1".parse().unwrap()).unwrap();
    echo_between(&b, "10.0.2.2", &a);
}

#[test]
fn loopback_is_up_and_private() {
    let (a, b) = (namespace(), namespace());
    let in_a = a.run(|| UdpSocket::bind("127.0.0.1:7")).unwrap();
    let in_b = b.run(|| UdpSocket::bind("127.0.0.1:7")).unwrap();
    in_a.send_to(b"x", "127.0.0.1:7").unwrap();
    in_a.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    in_b.set_nonblocking(true).unwrap();
    assert!(in_a.recv(&mut [0; 8]).is_ok());
    assert!(in_b.recv(&mut [0; 8]).is_err());
}

#[test]
fn a_child_lives_in_the_namespace_and_dies_with_it() {
    let namespace = namespace();
    let id_here = namespace.run(|| std::fs::read_link("/proc/thread-self/ns/net")).unwrap();
    let mut child = namespace.spawn(Command::new("sleep").arg("1000")).unwrap();
    let id_of_child = std::fs::read_link(format!("/proc/{}/ns/net", child.id())).unwrap();
    assert_eq!(id_here, id_of_child);
    drop(namespace);
    assert!(!child.wait().unwrap().success());
}

#[test]
fn a_process_is_found_by_its_namespace() {
    let (namespace, other) = (namespace(), namespace());
    let id = namespace.id().unwrap();
    assert_ne!(id.cookie, other.id().unwrap().cookie);
    let mut child = namespace.spawn(Command::new("sleep").arg("1000")).unwrap();
    assert_eq!(NamespaceId::of_process(child.id()).unwrap(), id);
    assert_ne!(NamespaceId::of_process(std::process::id()).unwrap(), id);
    drop(namespace);
    child.wait().unwrap();
    assert!(NamespaceId::of_process(child.id()).is_err());
}

#[test]
fn addresses_are_replaced() {
    let (a, b) = (namespace(), namespace());
    link_pair(&a, "left", &b, "right").unwrap();
    b.add_address("right", "10.0.0.2/24".parse().unwrap()).unwrap();
    for addresses in [&["10.0.0.1/24", "10.0.0.3/24", "fd00::1/64"][..], &["10.0.0.3/24"]] {
        let addresses: Vec<IpNet> = addresses.iter().map(|address| address.parse().unwrap()).collect();
        a.replace_addresses("left", &addresses).unwrap();
    }
    a.run(|| UdpSocket::bind("10.0.0.1:0")).unwrap_err();
    a.run(|| UdpSocket::bind("[fd00::1]:0")).unwrap_err();
    echo_between(&a, "10.0.0.3", &b);
}

#[test]
fn a_neighbour_that_is_named_is_not_asked() {
    let (a, b) = (namespace(), namespace());
    link_pair(&a, "left", &b, "right").unwrap();
    a.add_address("left", "10.0.0.1/24".parse().unwrap()).unwrap();
    b.add_address("right", "10.0.0.2/24".parse().unwrap()).unwrap();
    let [left, right] = [(&a, "left"), (&b, "right")].map(|(at, name)| at.hardware_address(name).unwrap());
    for _ in 0..2 {
        a.add_neighbour("left", "10.0.0.2".parse().unwrap(), &right).unwrap();
    }
    b.add_neighbour("right", "10.0.0.1".parse().unwrap(), &left).unwrap();
    for host in [&a, &b] {
        // Nobody answers.
        host.sysctl("net.ipv4.conf.all.arp_ignore", "8").unwrap();
    }
    echo_between(&a, "10.0.0.1", &b);
}

#[test]
fn a_second_route_stands_behind_the_first() {
    let (a, b) = (namespace(), namespace());
    for (link, subnet) in [("one", 1), ("two", 2)] {
        link_pair(&a, link, &b, link).unwrap();
        a.add_address(link, format!("10.0.{subnet}.1/24").parse().unwrap()).unwrap();
        b.add_address(link, format!("10.0.{subnet}.2/24").parse().unwrap()).unwrap();
    }
    for (metric, gateway) in [(0, "10.0.1.2"), (1, "10.0.2.2")] {
        a.add_route_with_metric("0.0.0.0/0".parse().unwrap(), gateway.parse().unwrap(), metric).unwrap();
    }
    let source = || {
        a.run(|| {
            let socket = UdpSocket::bind("0.0.0.0:0").unwrap();
            socket.connect("192.0.2.1:9").unwrap();
            socket.local_addr().unwrap().ip().to_string()
        })
    };
    assert_eq!(source(), "10.0.1.1");
    a.set_link("one", false).unwrap();
    assert_eq!(source(), "10.0.2.1");
}

#[test]
fn a_command_that_does_not_exist_is_an_error() {
    let mut command = Command::new("/nonexistent");
    assert_eq!(namespace().spawn(&mut command).unwrap_err().kind(), io::ErrorKind::NotFound);
    assert_eq!(command.get_program(), "/nonexistent");
}

#[test]
#[should_panic(expected = "in the closure")]
fn a_panic_comes_back() {
    namespace().run(|| panic!("in the closure"));
}

#[test]
fn a_shaped_link_is_as_slow_as_told() {
    let (a, b) = (namespace(), namespace());
    link_pair(&a, "left", &b, "right").unwrap();
    a.add_address("left", "10.0.0.1/24".parse().unwrap()).unwrap();
    b.add_address("right", "10.0.0.2/24".parse().unwrap()).unwrap();
    a.shape("left", 8_000_000, 3000, Queue::Bytes(1_000_000)).unwrap();
    a.shape("left", 8_000_000, 3000, Queue::Delay(Duration::from_millis(500))).unwrap();
    let server = b.run(|| UdpSocket::bind("10.0.0.2:9")).unwrap();
    server.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    let client = a.run(|| UdpSocket::bind("10.0.0.1:0")).unwrap();
    let start = std::time::Instant::now();
    for _ in 0..100 {
        client.send_to(&[0; 1000], "10.0.0.2:9").unwrap();
    }
    for _ in 0..100 {
        server.recv(&mut [0; 2000]).unwrap();
    }
    // A hundred kilobytes at a megabyte a second, less the burst.
    assert!(start.elapsed() > Duration::from_millis(80), "{:?}", start.elapsed());
}

#[test]
fn datagrams_to_one_port_are_swallowed_and_nothing_else_is() {
    let (a, b) = (namespace(), namespace());
    link_pair(&a, "left", &b, "right").unwrap();
    a.add_address("left", "10.0.0.1/24".parse().unwrap()).unwrap();
    b.add_address("right", "10.0.0.2/24".parse().unwrap()).unwrap();
    let bind = |host: &Namespace, address: &str| host.run(|| UdpSocket::bind(address).unwrap());
    let (client, swallowed, other) =
        (bind(&a, "10.0.0.1:9"), bind(&b, "10.0.0.2:5115"), bind(&b, "10.0.0.2:5116"));
    let listener = b.run(|| TcpListener::bind("10.0.0.2:5115").unwrap());
    b.swallow_udp(5115).unwrap();
    client.connect("10.0.0.2:5115").unwrap();
    client.send(b"one").unwrap();
    client.send_to(b"two", "10.0.0.2:5116").unwrap();
    let mut buffer = [0; 10];
    assert_eq!(other.recv(&mut buffer).unwrap(), 3);
    swallowed.set_nonblocking(true).unwrap();
    assert_eq!(swallowed.recv(&mut buffer).unwrap_err().kind(), std::io::ErrorKind::WouldBlock);
    client.set_nonblocking(true).unwrap();
    assert_eq!(client.recv(&mut buffer).unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "no ICMP");
    assert!(other.send_to(b"x", "10.0.0.1:5115").is_err(), "nor does it send any");
    a.run(|| TcpStream::connect("10.0.0.2:5115").unwrap());
    listener.accept().unwrap();
}

#[test]
fn a_namespace_without_ipv6_says_nothing_of_its_own() {
    let namespace = namespace();
    namespace.disable_ipv6().unwrap();
    link_pair(&namespace, "left", &namespace, "right").unwrap();
    let addresses = namespace.run(|| std::fs::read_to_string("/proc/thread-self/net/if_inet6")).unwrap();
    assert_eq!(addresses, "");
}

#[test]
fn an_interface_takes_its_mtu() {
    let (a, b) = (namespace(), namespace());
    link_pair(&a, "left", &b, "right").unwrap();
    a.set_mtu("left", 9000).unwrap();
    let mtu = a.block_on(|| async { psmc_net::netlink::Netlink::new().unwrap().link_mtu("left").await });
    assert_eq!(mtu.unwrap().unwrap(), 9000);
}

#[test]
fn without_arp_nobody_is_asked_for() {
    let (a, b) = (namespace(), namespace());
    b.disable_ipv6().unwrap();
    link_pair(&a, "left", &b, "right").unwrap();
    a.disable_ipv6().unwrap();
    a.add_address("left", "10.0.0.1/24".parse().unwrap()).unwrap();
    a.disable_arp("left").unwrap();
    let mut port = b.run(|| psmc_net::packet::PacketPort::open("right", 1514)).unwrap();
    a.run(|| UdpSocket::bind("10.0.0.1:0").unwrap().send_to(b"x", "10.0.0.2:9")).unwrap();
    let frame = port.recv().expect("the datagram, at once");
    assert_eq!(frame.bytes()[12..14], [8, 0]);
}

#[test]
fn errors_name_the_culprit() {
    let namespace = namespace();
    let error = namespace.shape("nowhere", 1_000_000, 3000, Queue::Bytes(9000)).unwrap_err();
    assert!(error.to_string().contains("dev nowhere"), "{error}");
    let error = namespace.set_link("nowhere", true).unwrap_err();
    assert!(format!("{error:?}").contains("nowhere"), "{error:?}");
    let error = namespace.sysctl("net.no.such", "1").unwrap_err();
    assert!(error.to_string().contains("net.no.such"), "{error}");
}
