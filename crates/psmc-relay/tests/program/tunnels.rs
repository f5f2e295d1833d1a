//! Sites whose datagrams come in IP-in-IP. Needs root, for raw sockets, and fails without.

use std::future::poll_fn;
use std::net::{SocketAddr, SocketAddrV4};

use psmc_net::ipip::{TunnelBind, TunnelPort, Way};
use psmc_net::keys::PrivateKey;
use psmc_net::udp::{Ecn, Transmit};
use psmc_wire::relay::{Far, Message, Reserve, ReserveTunnel, Reserved};

use crate::harness::{End, PATIENCE, Relay, Site};

/// Who the site is within its tunnel; an address of the loopback network, which nobody has to have.
const OWN: SocketAddrV4 = SocketAddrV4::new(std::net::Ipv4Addr::new(127, 9, 9, 9), 40_001);

fn v4(address: SocketAddr) -> SocketAddrV4 {
    let SocketAddr::V4(v4) = address else { panic!("the tests are on 127.0.0.1") };
    v4
}

fn tunnel(local: SocketAddrV4, peer: SocketAddr) -> TunnelPort {
    let bind = TunnelBind { interface: None, source: None, local, way: Way::Relay(v4(peer)) };
    TunnelPort::open(bind).expect("run as root")
}

async fn send(port: &mut TunnelPort, relay: &Relay, datagram: &[u8]) {
    let transmit = Transmit {
        remote: relay.address,
        local_ip: None,
        ecn: Ecn::NotEct,
        segment_size: None,
        apart: false,
        contents: datagram,
    };
    port.try_send(&transmit).unwrap();
}

async fn receive(port: &mut TunnelPort) -> Vec<u8> {
    let mut received = None;
    while received.is_none() {
        let arrival = poll_fn(|cx| port.poll_recv(cx, |_, datagram| received = Some(datagram.to_vec())));
        tokio::time::timeout(PATIENCE, arrival).await.expect("a datagram arrives").unwrap();
    }
    received.unwrap()
}

async fn reserve(site: &mut Site, far: SocketAddr) -> Reserved {
    let wanted = |request| {
        let session = Reserve { request, rate: None, far: Far::Address(far) };
        Message::ReserveTunnel(ReserveTunnel { session, inside: *OWN.ip() })
    };
    let answer = site.ask(wanted).await;
    let Message::Reserved(reserved) = answer else { panic!("not reserved: {answer:?}") };
    reserved
}

#[tokio::test]
async fn a_session_in_a_tunnel_reaches_its_far_end_and_nobody_else() {
    let key = PrivateKey::generate();
    let relay = Relay::start("workers = 2", &[(&key, "")]);
    let mut site = Site::connect(&key, &relay).await;
    let (mut far, other) = (End::new(relay.address), End::new(relay.address));
    let session = reserve(&mut site, far.address()).await;
    let mut near = End::new(relay.address);
    near.use_hop(relay.address, &session.near);
    far.use_hop(relay.address, &session.far);

    let mut port = tunnel(OWN, far.address());
    let datagram = near.datagram(100, 1);
    send(&mut port, &relay, &datagram).await;
    let (heard, from) = far.receive();
    assert_eq!((&heard[..], from), (&datagram[20..], relay.address), "the far end sees the relay");
    let answer = far.send(1400, 2);
    assert_eq!(receive(&mut port).await, answer);

    // Whoever has the session may not send to others by it, or as somebody else, or in another way.
    let spoofed = SocketAddrV4::new([127, 9, 9, 8].into(), OWN.port());
    for mut wrong in [tunnel(OWN, other.address()), tunnel(spoofed, far.address())] {
        send(&mut wrong, &relay, &near.datagram(100, 3)).await;
    }
    near.send(100, 4);
    let status = relay.wait_for("refusals", |status| status.refused.misaddressed == 3);
    other.hears_nothing();
    far.hears_nothing();
    let way = &status.sessions[0].to_near;
    assert_eq!((way.address.as_deref(), way.datagrams), (Some("127.9.9.9:40001"), 1));
    assert_eq!(way.tunnel.as_deref(), Some("127.0.0.1"));
    assert_eq!(status.sessions[0].to_far.tunnel, None);

    // And it goes on where it may.
    send(&mut port, &relay, &near.datagram(100, 5)).await;
    far.receive();
}

#[tokio::test]
async fn strangers_in_tunnels_get_nowhere() {
    let key = PrivateKey::generate();
    let relay = Relay::start("", &[(&key, "")]);
    let mut site = Site::connect(&key, &relay).await;
    let far = End::new(relay.address);
    let session = reserve(&mut site, far.address()).await;
    let mut near = End::new(relay.address);
    near.use_hop(relay.address, &session.near);
    let mut port = tunnel(OWN, far.address());
    let mut forged = near.datagram(100, 1);
    forged[40] ^= 1;
    send(&mut port, &relay, &forged).await;
    send(&mut port, &relay, b"a datagram that is none of a hop, to a host that the relay reaches").await;
    relay.wait_for("both", |status| status.refused.forged == 1 && status.refused.malformed == 1);
    far.hears_nothing();
}
