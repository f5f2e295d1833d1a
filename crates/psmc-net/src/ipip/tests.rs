//! Real packets between network namespaces.

use std::future::poll_fn;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

use psmc_wire::ip::TunnelledUdp;
use tokio::time::timeout;

use super::*;
use crate::udp::{Ecn, SendFailure, Transmit};
use psmc_testbed::netns::{Namespace, link_pair};

const PATIENCE: Duration = Duration::from_secs(5);

const NEAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
const FAR: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);
/// Beyond the tunnel; no host here has it.
const PEER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(198, 51, 100, 7), 5115);
const LOCAL: SocketAddrV4 = SocketAddrV4::new(NEAR, 40_001);

/// Two hosts and a link between them.
fn hosts() -> [Arc<Namespace>; 2] {
    let hosts = [Namespace::new().unwrap(), Namespace::new().unwrap()];
    link_pair(&hosts[0], "link", &hosts[1], "link").unwrap();
    for (host, address) in hosts.iter().zip([NEAR, FAR]) {
        host.add_address("link", ipnet::Ipv4Net::new_assert(address, 24).into()).unwrap();
    }
    hosts.map(Arc::new)
}

fn open_at(host: &Namespace, way: Way, local: SocketAddrV4) -> TunnelPort {
    let runtime = tokio::runtime::Handle::current();
    host.run(|| {
        let _entered = runtime.enter();
        TunnelPort::open(TunnelBind { interface: Some("link".to_owned()), source: None, local, way })
    })
    .unwrap()
}

/// What a tunnel's end brings until there are `count` datagrams.
async fn receive(port: &mut TunnelPort, count: usize) -> Vec<(SocketAddr, Vec<u8>)> {
    let mut received = Vec::new();
    while received.len() < count {
        let deliver = |cx: &mut Context<'_>| {
            port.poll_recv(cx, |meta, datagram| received.push((meta.remote, datagram.to_vec())))
        };
        timeout(PATIENCE, poll_fn(deliver)).await.expect("packets were lost").unwrap();
    }
    received
}

async fn send(port: &mut TunnelPort, remote: SocketAddr, segment: usize, contents: &[u8]) {
    let transmit = Transmit {
        remote,
        local_ip: None,
        ecn: Ecn::NotEct,
        segment_size: Some(segment),
        apart: false,
        contents,
    };
    port.try_send(&transmit).unwrap();
}

#[tokio::test]
async fn datagrams_come_through_a_tunnel_both_ways_and_nothing_else_does() {
    let [near, far] = hosts();
    // The far end plays the peer: what is for it within the tunnel is for this port.
    let mut one = open_at(&near, Way::Plain(FAR), LOCAL);
    let mut other = open_at(&far, Way::Plain(NEAR), PEER);
    let mut stranger = open_at(&far, Way::Plain(NEAR), SocketAddrV4::new(*PEER.ip(), 9));
    let contents: Vec<u8> = (0u32..70 * 1000 + 5).map(|index| (index / 1000).to_be_bytes()[3]).collect();
    send(&mut one, PEER.into(), 1000, &contents).await;
    let received = receive(&mut other, 71).await;
    for ((remote, datagram), sent) in received.iter().zip(contents.chunks(1000)) {
        assert_eq!((*remote, &datagram[..]), (LOCAL.into(), sent));
    }
    send(&mut stranger, LOCAL.into(), 99, b"from another address: not refused, but told").await;
    send(&mut other, SocketAddrV4::new(NEAR, 40_002).into(), 99, b"for another port").await;
    send(&mut other, LOCAL.into(), 99, b"answer").await;
    let answers = receive(&mut one, 2).await;
    assert_eq!(answers[0].0.port(), 9);
    assert_eq!(answers[1], (PEER.into(), b"answer".to_vec()));
}

#[tokio::test]
async fn through_a_relay_the_remote_address_is_the_relays() {
    let [near, far] = hosts();
    let relay: SocketAddr = SocketAddrV4::new(FAR, 5115).into();
    let mut site = open_at(&near, Way::Relay(PEER), LOCAL);
    let mut end = open_at(&far, Way::Plain(NEAR), PEER);
    send(&mut site, relay, 99, b"question").await;
    assert_eq!(receive(&mut end, 1).await, [(LOCAL.into(), b"question".to_vec())]);
    send(&mut end, LOCAL.into(), 99, b"answer").await;
    assert_eq!(receive(&mut site, 1).await, [(relay, b"answer".to_vec())]);
}

#[tokio::test]
async fn what_is_larger_than_the_interface_takes_is_refused_and_the_rest_is_sent() {
    let [near, far] = hosts();
    let mut one = open_at(&near, Way::Plain(FAR), LOCAL);
    let mut other = open_at(&far, Way::Plain(NEAR), PEER);
    let contents = vec![7; 2 * 1453];
    let mut transmit = Transmit {
        remote: PEER.into(),
        local_ip: None,
        ecn: Ecn::NotEct,
        segment_size: Some(1453),
        apart: false,
        contents: &contents,
    };
    let error = one.try_send(&transmit).unwrap_err();
    assert!(matches!(error.failure, SendFailure::TooBig) && error.sent == 0, "{error:?}");
    // With both headers of IPv4 and that of UDP 1500 bytes: what the interface takes.
    transmit.segment_size = Some(1452);
    transmit.contents = &contents[..1452];
    one.try_send(&transmit).unwrap();
    assert_eq!(receive(&mut other, 1).await[0].1.len(), 1452);
}

#[tokio::test]
async fn a_packet_goes_where_its_header_says() {
    let [near, far] = hosts();
    let runtime = tokio::runtime::Handle::current();
    let mut other = open_at(&far, Way::Plain(NEAR), PEER);
    let port = near.run(|| {
        let _entered = runtime.enter();
        IpIpPort::open(None).unwrap()
    });
    let mut batch = SendBatch::new();
    for (number, tunnel_destination) in (0u8..).zip([FAR, Ipv4Addr::new(10, 9, 9, 9), FAR]) {
        let addresses = TunnelledUdp {
            tunnel_source: Ipv4Addr::UNSPECIFIED,
            tunnel_destination,
            source: LOCAL,
            destination: PEER,
        };
        batch.push(&addresses.headers(&[number]).unwrap(), &[number]);
    }
    let refused = port.try_send(&batch, 0).unwrap_err();
    assert!(matches!(refused.failure, SendFailure::Unreachable(_)) && refused.packet == 1, "{refused:?}");
    port.try_send(&batch, 2).unwrap();
    let received = receive(&mut other, 2).await;
    assert_eq!(received.iter().map(|(_, datagram)| datagram[0]).collect::<Vec<_>>(), [0, 2]);
}
