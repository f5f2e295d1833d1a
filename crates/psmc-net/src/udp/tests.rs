//! Real sockets over loopback.

#![expect(clippy::cast_possible_truncation, reason = "the bytes of test data may be anything")]

use std::future::poll_fn;
use std::time::Duration;

use tokio::time::timeout;

use super::*;
use psmc_testbed::netns::{Namespace, link_pair};

const PATIENCE: Duration = Duration::from_secs(5);

fn port(address: &str) -> UdpPort {
    UdpPort::bind(&UdpBind { address: address.parse().unwrap(), interface: None }).unwrap()
}

fn to(remote: SocketAddr, contents: &[u8]) -> Transmit<'_> {
    Transmit { remote, local_ip: None, ecn: Ecn::NotEct, segment_size: None, apart: false, contents }
}

/// Sends all of it, waiting where the socket asks to.
async fn send(port: &mut UdpPort, transmit: &Transmit<'_>) -> Result<(), SendFailure> {
    let mut rest = transmit.clone();
    loop {
        let Err(error) = port.try_send(&rest) else {
            return Ok(());
        };
        let SendFailure::WouldBlock = error.failure else {
            return Err(error.failure);
        };
        rest.contents = &rest.contents[error.sent..];
        poll_fn(|cx| port.poll_writable(cx)).await.unwrap();
    }
}

async fn receive(port: &UdpPort, count: usize) -> Vec<(RecvMeta, Vec<u8>)> {
    let mut batch = RecvBatch::new();
    let mut received = Vec::new();
    while received.len() < count {
        let polled = timeout(PATIENCE, poll_fn(|cx| port.poll_recv(cx, &mut batch))).await;
        let announced = polled.expect("datagrams were lost").unwrap();
        let before = received.len();
        received.extend(batch.datagrams().map(|(meta, bytes)| (meta, bytes.to_vec())));
        assert_eq!(received.len() - before, announced);
    }
    received
}

async fn segments_arrive(from: &str, at: &str, target: &str) {
    let (mut sender, receiver) = (port(from), port(at));
    let remote = SocketAddr::new(target.parse().unwrap(), receiver.local_addr().port());
    let contents: Vec<u8> = (0..64 * 1400 + 123).map(|i: usize| (i / 1400 % 256) as u8).collect();
    let transmit = Transmit { segment_size: Some(1400), ecn: Ecn::Ect0, ..to(remote, &contents) };
    send(&mut sender, &transmit).await.unwrap();

    let received = receive(&receiver, 65).await;
    assert_eq!(received.len(), 65);
    for ((meta, bytes), sent) in received.iter().zip(contents.chunks(1400)) {
        assert_eq!(bytes, sent);
        assert_eq!(meta.ecn, Ecn::Ect0);
        assert_eq!(meta.remote.port(), sender.local_addr().port());
        assert_eq!(meta.remote.ip(), remote.ip());
        assert_eq!(meta.local_ip, Some(remote.ip()));
    }
}

#[tokio::test]
async fn segments_arrive_over_ipv4() {
    segments_arrive("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1").await;
}

#[tokio::test]
async fn segments_arrive_over_ipv6() {
    segments_arrive("[::1]:0", "[::1]:0", "::1").await;
}

/// Over loopback what the kernel gets as one arrives as one.
#[tokio::test]
async fn joining_can_be_left_at_either_end() {
    let (mut sender, receiver) = (port("127.0.0.1:0"), port("127.0.0.1:0"));
    let contents = [7; 10_000];
    for (apart, joins) in [(false, true), (true, true), (false, false), (false, true)] {
        receiver.set_joins_arriving(joins).unwrap();
        let transmit = Transmit { segment_size: Some(1000), apart, ..to(receiver.local_addr(), &contents) };
        send(&mut sender, &transmit).await.unwrap();
        let received = receive(&receiver, 10).await;
        let is_right =
            |(meta, bytes): &(RecvMeta, Vec<u8>)| meta.was_joined == (joins && !apart) && bytes.len() == 1000;
        assert!(received.len() == 10 && received.iter().all(is_right), "{apart} {joins}: {received:?}");
    }
}

#[tokio::test]
async fn a_dual_stack_socket_speaks_both_and_shows_canonical_addresses() {
    segments_arrive("[::]:0", "[::]:0", "127.0.0.1").await;
    segments_arrive("[::]:0", "[::]:0", "::1").await;
    segments_arrive("127.0.0.1:0", "[::]:0", "127.0.0.1").await;
}

#[tokio::test]
async fn the_local_address_can_be_chosen() {
    for sender in ["0.0.0.0:0", "[::]:0"] {
        let (mut sender, receiver) = (port(sender), port("127.0.0.1:0"));
        let local_ip = "127.0.0.9".parse().unwrap();
        send(&mut sender, &Transmit { local_ip: Some(local_ip), ..to(receiver.local_addr(), b"x") })
            .await
            .unwrap();
        assert_eq!(receive(&receiver, 1).await[0].0.remote.ip(), local_ip);
    }
}

#[tokio::test]
async fn a_local_address_that_is_gone_spoils_nothing_else() {
    let (mut sender, receiver) = (port("[::]:0"), port("127.0.0.1:0"));
    let contents = [7; 3000];
    let good = Transmit { segment_size: Some(1000), ecn: Ecn::Ce, ..to(receiver.local_addr(), &contents) };
    let bad = Transmit { local_ip: Some("192.0.2.1".parse().unwrap()), ..good.clone() };
    let failure = send(&mut sender, &bad).await.unwrap_err();
    assert!(matches!(failure, SendFailure::Unreachable(_)), "{failure:?}");
    send(&mut sender, &good).await.unwrap();
    let received = receive(&receiver, 3).await;
    assert!(received.iter().all(|(meta, bytes)| meta.ecn == Ecn::Ce && bytes.len() == 1000));
    assert!(received.iter().all(|(meta, _)| meta.was_joined), "offload goes on after EINVAL");
}

/// Where a device cannot compute checksums, for which older kernels refuse offload (EIO), datagrams leave one by one; by another
/// device those of the same socket leave joined.
#[tokio::test]
async fn a_device_without_offload_costs_no_other_its_own() {
    let (a, b) = (Namespace::new().expect("this test needs root"), Namespace::new().unwrap());
    for (link, net) in [("first", 1), ("second", 2)] {
        link_pair(&a, link, &b, link).unwrap();
        for (host, last) in [(&a, 1), (&b, 2)] {
            host.add_address(link, format!("10.0.{net}.{last}/24").parse().unwrap()).unwrap();
        }
    }
    a.disable_offloads("first").unwrap();
    let [mut sender, receiver] = [&a, &b].map(|host| host.run(|| port("0.0.0.0:0")));
    let contents = [7; 10_000];
    for (net, joined) in [(1, false), (2, true), (1, false), (2, true)] {
        let remote = SocketAddr::from(([10, 0, net, 2], receiver.local_addr().port()));
        let transmit = Transmit { segment_size: Some(1000), ..to(remote, &contents) };
        send(&mut sender, &transmit).await.unwrap();
        let received = receive(&receiver, 10).await;
        let is_right = |(meta, bytes): &(RecvMeta, Vec<u8>)| meta.was_joined == joined && bytes.len() == 1000;
        assert!(received.len() == 10 && received.iter().all(is_right), "{net}: {received:?}");
    }
}

#[tokio::test]
async fn icmp_errors_do_not_stop_receiving() {
    let mut port = port("127.0.0.1:0");
    let nobody = "127.0.0.1:1".parse().unwrap();
    for _ in 0..20 {
        send(&mut port, &to(nobody, b"x")).await.unwrap();
    }
    let mut other = super::tests::port("127.0.0.1:0");
    send(&mut other, &to(port.local_addr(), b"y")).await.unwrap();
    assert_eq!(receive(&port, 1).await[0].1, b"y");
}

#[tokio::test]
async fn a_new_socket_sends_at_once() {
    let port = port("127.0.0.1:0");
    port.try_send(&to(port.local_addr(), b"x")).unwrap();
    assert_eq!(receive(&port, 1).await[0].1, b"x");
}

#[test]
fn failures_are_told_apart() {
    let (a, b) = (Namespace::new().expect("this test needs root"), Namespace::new().unwrap());
    link_pair(&a, "left", &b, "right").unwrap();
    a.add_address("left", "10.0.0.1/24".parse().unwrap()).unwrap();
    let neighbour = "10.0.0.2:9".parse().unwrap();
    let takes = |last| a.run(move || route_mtu(Ipv4Addr::new(10, 0, last, 2)));
    assert_eq!(takes(0).unwrap(), 1500);
    assert!(takes(1).is_err(), "there is no route");
    let (too_big, no_route, bound) = a
        .block_on(|| async {
            let mut port = port("0.0.0.0:0");
            let too_big = send(&mut port, &to(neighbour, &[0; 1473])).await;
            let many = [0; 4500];
            let too_big_segments = Transmit { segment_size: Some(1500), ..to(neighbour, &many) };
            assert!(matches!(send(&mut port, &too_big_segments).await, Err(SendFailure::TooBig)));
            let no_route = send(&mut port, &to("192.0.2.1:9".parse().unwrap(), b"x")).await;
            let bound = UdpBind { address: "0.0.0.0:0".parse().unwrap(), interface: Some("left".into()) };
            let bound =
                send(&mut UdpPort::bind(&bound).unwrap(), &to("192.0.2.1:9".parse().unwrap(), b"x")).await;
            (too_big, no_route, bound)
        })
        .unwrap();
    assert!(matches!(too_big, Err(SendFailure::TooBig)), "{too_big:?}");
    assert!(matches!(no_route, Err(SendFailure::Unreachable(_))), "{no_route:?}");
    // Bound to an interface, a datagram needs no route: whoever has the address is asked for on the link.
    assert!(bound.is_ok(), "{bound:?}");
}

#[tokio::test]
async fn bind_errors_name_the_culprit() {
    let taken = port("127.0.0.1:0");
    let again = UdpBind { address: taken.local_addr(), interface: None };
    let error = UdpPort::bind(&again).unwrap_err();
    assert!(error.to_string().contains(&taken.local_addr().to_string()), "{error}");
    let nowhere = UdpBind { address: "[::]:0".parse().unwrap(), interface: Some("nowhere".into()) };
    let error = UdpPort::bind(&nowhere).unwrap_err();
    assert!(error.to_string().contains("interface nowhere"), "{error}");
}
