//! Sessions whose near end is in a tunnel.

use std::net::{Ipv4Addr, SocketAddrV4};

use psmc_wire::hop::{HopChallenge, INNER};

use super::*;

const FAR: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 2), 5115);
const OWN: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 1, 1, 1), 40_001);

fn tunnelled(world: &mut World) -> Added {
    let ticket = world.account.take_session().unwrap();
    let near_inside = Some(Inside { own: *OWN.ip(), peer: FAR });
    world.add(SessionSpec {
        ticket,
        rate: None,
        address: Some(Address::of(FAR.into())),
        far_site: None,
        far: Leg::Site,
        near_inside,
    })
}

/// Where the near end is when it comes through a tunnel from there.
fn through(end: Ipv4Addr, own: SocketAddrV4, peer: SocketAddrV4) -> Address {
    let local_ip = Some(Ipv4Addr::new(198, 51, 100, 9).into());
    Address { remote: own.into(), local_ip, tunnel: Some(Tunnel { end, peer }) }
}

#[test]
fn the_near_end_comes_and_is_answered_through_its_tunnel() {
    let mut world = World::new();
    let session = tunnelled(&mut world);
    let (mut near, mut far) =
        (Sender::new(&session.near, "10.1.1.1:1"), Sender::new(&session.far, "192.0.2.2:5115"));
    for end in [Ipv4Addr::new(198, 51, 100, 1), Ipv4Addr::new(198, 51, 100, 2)] {
        let way = through(end, OWN, FAR);
        let datagram = near.datagram(100);
        let bare = datagram[INNER].to_vec();
        assert_eq!(world.send(datagram, way), Some((far.address, bare)));
        // It is asked within its tunnel when that begins elsewhere, and answers there.
        let asked = world.across(&mut far, 80).into_iter().filter(|(to, _)| *to == way);
        let challenge = asked.filter_map(|(_, bytes)| HopChallenge::parse(&bytes).ok()).next();
        challenge.into_iter().for_each(|challenge| near.respond(challenge.token, way, &mut world));
        let answer = far.datagram(80);
        let bare = answer[INNER].to_vec();
        assert_eq!(world.send(answer, far.address), Some((way, bare)), "to where it came from last");
    }
    assert_eq!(world.relay.refusals, Refusals::default());
}

#[test]
fn nobody_is_reached_but_the_far_end_and_by_nobody_but_the_site() {
    let mut world = World::new();
    let session = tunnelled(&mut world);
    let mut near = Sender::new(&session.near, "10.1.1.1:1");
    let end = Ipv4Addr::new(198, 51, 100, 1);
    let other_peer = SocketAddrV4::new(*FAR.ip(), 53);
    let other_host = SocketAddrV4::new(Ipv4Addr::new(192, 0, 2, 3), 5115);
    let spoofed = SocketAddrV4::new(Ipv4Addr::new(10, 1, 1, 2), 40_001);
    for way in [
        through(end, OWN, other_peer),
        through(end, OWN, other_host),
        through(end, spoofed, FAR),
        Address::of(OWN.into()),
    ] {
        assert_eq!(world.send(near.datagram(100), way), None, "{way:?}");
    }
    let bare = world.session(None);
    let mut outside = Sender::new(&bare.near, "198.51.100.1:1000");
    assert_eq!(world.send(outside.datagram(100), through(end, OWN, FAR)), None, "it agreed on no tunnel");
    assert_eq!(world.relay.refusals, Refusals { misaddressed: 5, ..Refusals::default() });
    assert_eq!(world.status(session.id).unwrap().to_near.address, None);
    let forged = {
        let mut datagram = near.datagram(100);
        datagram[40] ^= 1;
        datagram
    };
    assert_eq!(world.send(forged, through(end, OWN, FAR)), None);
    assert_eq!(world.relay.refusals.forged, 1);
}
