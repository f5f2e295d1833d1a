//! Datagrams through a relay, and through two in a row, the second of which is reached through the first.

use psmc_net::keys::PrivateKey;
use psmc_net::udp::{Ecn, Transmit, UdpBind, UdpPort};
use psmc_relay::status::Refused;
use psmc_testbed::poll::wait_for;
use psmc_wire::hop::{HOP_HEADER_LEN, HopChallenge};
use psmc_wire::relay::{Far, Message, Refusal, Reserve};
use socket2::SockRef;

use crate::harness::{End, PATIENCE, Relay, Site};

/// A relay, its site, and both ends of a session.
pub(crate) struct Session {
    pub(crate) relay: Relay,
    pub(crate) site: Site,
    pub(crate) near: End,
    pub(crate) far: End,
}

pub(crate) async fn session(settings: &str, allow: &str) -> Session {
    let key = PrivateKey::generate();
    let relay = Relay::start(settings, &[(&key, allow)]);
    let mut site = Site::connect(&key, &relay).await;
    let (mut near, mut far) = (End::new(relay.address), End::new(relay.address));
    let reserved = site.reserve(Far::Address(far.address())).await;
    near.use_hop(relay.address, &reserved.near);
    far.use_hop(relay.address, &reserved.far);
    Session { relay, site, near, far }
}

#[tokio::test]
async fn datagrams_go_both_ways_and_addresses_follow() {
    let Session { relay, mut near, mut far, .. } = session("", "").await;
    for (count, length) in (1u8..).zip([32, 100, 1200, 1400, 8000]) {
        let sent = near.send(length, count);
        assert_eq!(far.receive(), (sent, relay.address));
        let sent = far.send(length, count);
        assert_eq!(near.receive(), (sent, relay.address));
    }
    // The near end moves to another port, as behind a NAT that has forgotten it.
    let moved = End::new(relay.address);
    let datagram = near.datagram(100, 7);
    moved.send_raw(&datagram);
    far.receive();
    // It is asked whether it is there before it is believed, and gets what may be for it at once.
    let sent = far.send(100, 8);
    assert_eq!(near.receive().0, sent);
    let challenge = HopChallenge::parse(&moved.receive().0).expect("a challenge");
    assert_eq!(moved.receive().0, sent);
    moved.send_raw(&near.response(challenge.token));
    let new = Some(moved.address().to_string());
    wait_for("the leg to move", PATIENCE, || {
        (relay.status().sessions[0].to_near.address == new).then_some(())
    });
    let sent = far.send(100, 9);
    assert_eq!(moved.receive().0, sent);
    let status = relay.status();
    assert_eq!(status.refused, Refused::default());
    assert_eq!(status.sessions[0].to_far.datagrams, 6);
}

#[tokio::test]
async fn a_burst_arrives_whole_and_in_order() {
    let Session { relay, mut near, mut far, .. } = session("workers = 1", "").await;
    SockRef::from(&far.socket).set_recv_buffer_size(1 << 20).unwrap();
    far.send(100, 0);
    relay.wait_for("the far end's datagram", |status| status.datagrams.received == 1);
    // As many as fit into a socket's buffer of the usual size, with room to spare.
    let sent: Vec<_> = (0..60).map(|number| near.send(1200, number)).collect();
    relay.wait_for("the burst", |status| status.datagrams.sent >= 60);
    for datagram in sent {
        assert_eq!(far.receive().0, datagram);
    }
}

#[tokio::test]
async fn floods_are_counted_and_unanswered() {
    const FLOOD: u64 = 300;
    let Session { relay, mut near, far, .. } = session("", "").await;
    let good = near.datagram(100, 1);
    near.send_raw(&good);
    far.receive();
    let stranger = End::new(relay.address);
    let mut forged = near.datagram(100, 2);
    forged[40] ^= 1;
    let mut lost = forged.clone();
    lost[4] ^= 0xff;
    for _ in 0..FLOOD {
        stranger.send_raw(&good);
        stranger.send_raw(&forged);
        stranger.send_raw(&lost);
        stranger.send_raw(&good[..30]);
        // Not so fast that the socket's buffer overflows: what is not received is not counted.
        std::thread::sleep(std::time::Duration::from_micros(200));
    }
    let all = 4 * FLOOD + 1;
    let status = relay.wait_for("the flood", |status| status.datagrams.received == all);
    let refused = Refused {
        malformed: FLOOD,
        unknown_label: FLOOD,
        replayed: FLOOD,
        forged: FLOOD,
        ..Refused::default()
    };
    assert_eq!(status.refused, refused);
    assert_eq!(status.datagrams.sent, 1);
    stranger.hears_nothing();
    far.hears_nothing();
    near.send(100, 3);
    far.receive();
}

#[tokio::test]
async fn several_workers_share_the_sessions() {
    const SESSIONS: u8 = 6;
    let key = PrivateKey::generate();
    let relay = Relay::start("workers = 3", &[(&key, "")]);
    let mut site = Site::connect(&key, &relay).await;
    // All from one address, as a site with one uplink sends.
    let mut near = End::new(relay.address);
    for number in 0..SESSIONS {
        let mut far = End::new(relay.address);
        let reserved = site.reserve(Far::Address(far.address())).await;
        assert_eq!(u8::try_from(reserved.near.label.0 & 0xff).unwrap() % 3, number % 3);
        near.use_hop(relay.address, &reserved.near);
        far.use_hop(relay.address, &reserved.far);
        for _ in 0..20 {
            let sent = near.send(200, number);
            assert_eq!(far.receive(), (sent, relay.address));
            let sent = far.send(200, number);
            assert_eq!(near.receive(), (sent, relay.address));
        }
        let answer = site.ask(|request| Message::Refresh(request, reserved.session)).await;
        assert!(matches!(answer, Message::Done(_)), "{answer:?}");
    }
    let status = relay.status();
    assert_eq!(status.refused, Refused::default());
    assert_eq!((status.sessions.len(), status.datagrams.sent), (6, 240));
}

#[tokio::test]
async fn what_arrives_joined_reaches_the_worker_that_it_belongs_to() {
    let key = PrivateKey::generate();
    let relay = Relay::start("workers = 2", &[(&key, "")]);
    let mut site = Site::connect(&key, &relay).await;
    let mut ends = Vec::new();
    for _ in 0..2 {
        let (mut near, far) = (End::new(relay.address), End::new(relay.address));
        let reserved = site.reserve(Far::Address(far.address())).await;
        near.use_hop(relay.address, &reserved.near);
        ends.push((near, far));
    }
    // Both sessions' datagrams in turn, sent from one socket with one system call: the kernel joins them.
    let (mut joined, mut expected) = (Vec::new(), [Vec::new(), Vec::new()]);
    for number in 0..20 {
        for ((near, _), expected) in ends.iter_mut().zip(&mut expected) {
            let datagram = near.datagram(500, number);
            expected.push(datagram[HOP_HEADER_LEN..].to_vec());
            joined.extend(datagram);
        }
    }
    let port = UdpPort::bind(&UdpBind { address: "127.0.0.1:0".parse().unwrap(), interface: None }).unwrap();
    let segment_size = Some(HOP_HEADER_LEN + 500);
    let (remote, contents) = (relay.address, &joined[..]);
    port.try_send(&Transmit {
        remote,
        local_ip: None,
        ecn: Ecn::NotEct,
        segment_size,
        apart: false,
        contents,
    })
    .unwrap();
    for ((_, far), expected) in ends.iter().zip(expected) {
        for datagram in expected {
            assert_eq!(far.receive().0, datagram);
        }
    }
    let status = relay.status();
    assert_eq!((status.datagrams.sent, status.refused), (40, Refused::default()));
    assert_eq!((status.datagrams.strayed, status.datagrams.stray_drops), (20, 0));
}

#[tokio::test]
async fn a_session_that_is_not_used_is_forgotten() {
    let Session { relay, mut site, mut near, .. } = session("idle = 1", "").await;
    let id = u64::from_str_radix(&relay.status().sessions[0].id, 16).unwrap();
    relay.wait_for("the end of the session", |status| status.sessions.is_empty());
    near.send(100, 1);
    relay.wait_for("a late datagram", |status| status.refused.unknown_label == 1);
    let id = psmc_wire::relay::SessionId(id);
    let answer = site.ask(|request| Message::Refresh(request, id)).await;
    assert!(matches!(answer, Message::Refused(refused) if refused.reason == Refusal::UnknownSession));
    assert_eq!(relay.status().sites[0].sessions, 0);
}

#[tokio::test]
async fn a_session_outlives_its_connection_but_not_the_relay() {
    let key = PrivateKey::generate();
    let mut relay = Relay::start("", &[(&key, "")]);
    let mut site = Site::connect(&key, &relay).await;
    let (mut near, far) = (End::new(relay.address), End::new(relay.address));
    let reserved = site.reserve(Far::Address(far.address())).await;
    near.use_hop(relay.address, &reserved.near);
    drop(site);
    near.send(100, 1);
    far.receive();
    let mut again = Site::connect(&key, &relay).await;
    let answer = again.ask(|request| Message::Refresh(request, reserved.session)).await;
    assert!(matches!(answer, Message::Done(_)), "{answer:?}");

    relay.restart();
    let mut after = Site::connect(&key, &relay).await;
    let answer = after.ask(|request| Message::Refresh(request, reserved.session)).await;
    assert!(matches!(answer, Message::Refused(refused) if refused.reason == Refusal::UnknownSession));
    near.send(100, 2);
    relay.wait_for("a datagram of the old session", |status| status.refused.unknown_label == 1);
    let reserved = after.reserve(Far::Address(far.address())).await;
    near.use_hop(relay.address, &reserved.near);
    let sent = near.send(100, 3);
    assert_eq!(far.receive().0, sent);
}

#[tokio::test]
async fn a_session_carries_its_rate_and_no_more() {
    let Session { relay, mut near, far, .. } = session("", "session_rate = \"8mbit\"").await;
    // 400 datagrams of 1000 bytes: 0.4 s at that rate, of which the queue holds a part.
    let mut arrived = 0;
    for _ in 0..400 {
        near.send(980, 1);
        arrived += far.count_arrived();
    }
    relay.wait_for("all of them", |status| status.datagrams.received == 400);
    let arrived = std::cell::Cell::new(arrived);
    let status = relay.wait_for("the end of the queue", |status| {
        arrived.set(arrived.get() + far.count_arrived());
        status.sessions[0].to_far.waiting == 0
    });
    let way = &status.sessions[0].to_far;
    assert_eq!(way.datagrams + way.dropped.iter().sum::<u64>(), 400);
    assert!(way.dropped[0] > 0 && status.sessions[0].rate_bits_per_second == Some(8_000_000), "{way:?}");
    relay.wait_for("the last of them", |_| {
        arrived.set(arrived.get() + far.count_arrived());
        arrived.get() == way.datagrams
    });
    far.hears_nothing();
}

#[tokio::test]
async fn a_relay_leads_only_where_it_may() {
    let Session { relay: _relay, mut site, .. } = session("", "max_sessions = 2").await;
    let elsewhere = Far::Address("192.0.2.1:5115".parse().unwrap());
    let answer = site.ask(|request| Message::Reserve(Reserve { request, rate: None, far: elsewhere })).await;
    assert!(matches!(answer, Message::Refused(refused) if refused.reason == Refusal::NotAllowed));
    let here = || Far::Address("127.0.0.1:5115".parse().unwrap());
    site.reserve(here()).await;
    let answer = site.ask(|request| Message::Reserve(Reserve { request, rate: None, far: here() })).await;
    assert!(matches!(answer, Message::Refused(refused) if refused.reason == Refusal::Limit));
}

#[tokio::test]
async fn a_path_through_two_relays() {
    let key = PrivateKey::generate();
    let (one, two) = (Relay::start("", &[(&key, "")]), Relay::start("", &[(&key, "")]));
    let (mut near, mut far) = (End::new(one.address), End::new(two.address));

    let mut through = Site::connect(&key, &one).await;
    let answer = through.ask(|request| Message::Connect(request, Far::Address(two.address))).await;
    assert!(matches!(answer, Message::Connected(_)), "{answer:?}");
    let greeted = Site::greet_over(through.stream, &key, two.key.public(), None).await;
    let (mut at_two, answer) = greeted.unwrap();
    assert!(matches!(answer, Message::Welcome(_)), "{answer:?}");
    let last = at_two.reserve(Far::Address(far.address())).await;

    let mut at_one = Site::connect(&key, &one).await;
    let first = at_one.reserve(Far::Relay(two.address, last.near.clone())).await;
    let chain = at_two.ask(|request| Message::Chain(request, last.session, first.far.clone())).await;
    assert!(matches!(chain, Message::Done(_)), "{chain:?}");

    near.use_hop(one.address, &first.near);
    far.use_hop(two.address, &last.far);
    for number in 1..50 {
        let sent = near.send(1200, number);
        assert_eq!(far.receive(), (sent, two.address));
        let sent = far.send(1200, number);
        assert_eq!(near.receive(), (sent, one.address));
    }
    let (one, two) = (one.status(), two.status());
    assert_eq!((one.datagrams.sent, two.datagrams.sent), (98, 98));
    assert_eq!((one.refused, two.refused), Default::default());
}

#[tokio::test]
async fn a_stream_leads_only_where_the_relay_may() {
    let key = PrivateKey::generate();
    let relay = Relay::start("", &[(&key, "")]);
    let mut site = Site::connect(&key, &relay).await;
    let elsewhere = Far::Address("192.0.2.1:5115".parse().unwrap());
    let answer = site.ask(|request| Message::Connect(request, elsewhere)).await;
    assert!(matches!(answer, Message::Refused(refused) if refused.reason == Refusal::NotAllowed));
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let mut site = Site::connect(&key, &relay).await;
    let answer = site.ask(|request| Message::Connect(request, Far::Address(nobody))).await;
    assert!(matches!(answer, Message::Refused(refused) if refused.reason == Refusal::Unreachable));
}
