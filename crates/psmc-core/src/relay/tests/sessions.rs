//! Who is believed, where datagrams go, and how long a session lives.

use psmc_wire::hop::{HopChallenge, HopHeader, HopKey, INNER, MAX_HOPS, replace_hop_header};
use psmc_wire::relay::SessionId;
use psmc_wire::{Label, PathId};

use super::*;
use crate::relay::session::{Passages, Session};
use crate::replay::HOP_WORDS;

#[test]
fn datagrams_go_both_ways_without_their_hop_headers() {
    let mut world = World::new();
    let session = world.session(None);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let mut far = Sender::new(&session.far, "192.0.2.2:5115");

    let datagram = near.marked(200, 2);
    let mut bare = datagram[INNER].to_vec();
    bare[1] = 2 << 1;
    assert_eq!(world.send(datagram, near.address), Some((far.address, bare)));
    let datagram = far.datagram(100);
    let bare = datagram[INNER].to_vec();
    assert_eq!(world.send(datagram, far.address), Some((near.address, bare)));

    let status = world.status(session.id).unwrap();
    assert_eq!((status.to_far.datagrams, status.to_far.bytes), (1, 200));
    assert_eq!((status.to_near.datagrams, status.to_near.bytes), (1, 100));
    assert_eq!(world.relay.refusals, Refusals::default());
}

#[test]
fn what_comes_for_a_gateway_waits_until_that_shows_where_it_is() {
    let mut world = World::new();
    let session = world.session_to(None, None, Leg::Site);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let mut gateway = Sender::new(&session.far, "203.0.113.9:4000");
    let early: Vec<_> = (0..3).map(|_| near.datagram(100)).collect();
    for datagram in &early {
        assert_eq!(world.send(datagram.clone(), near.address), None);
    }
    assert!(world.waiting().is_empty());
    world.pass(Duration::from_millis(60));
    let (to, _) = world.send(gateway.datagram(100), gateway.address).unwrap();
    assert_eq!(to, near.address);
    // In their order, whatever comes behind them.
    let late = near.datagram(100);
    assert_eq!(world.send(late.clone(), near.address), None);
    let expected: Vec<_> =
        early.iter().chain([&late]).map(|datagram| (gateway.address, datagram[INNER].to_vec())).collect();
    assert_eq!(world.waiting(), expected);
    let (to, _) = world.send(near.datagram(100), near.address).unwrap();
    assert_eq!(to, gateway.address);
    world.pass(Duration::from_secs(1));
    assert!(world.waiting().is_empty());
    assert_eq!(world.relay.refusals, Refusals::default());
}

#[test]
fn whoever_does_not_show_where_it_is_gets_nothing() {
    let mut world = World::new();
    let session = world.session_to(None, None, Leg::Site);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    for _ in 0..100 {
        assert_eq!(world.send(near.datagram(100), near.address), None);
    }
    let waiting = u64::from(world.status(session.id).unwrap().to_far.waiting);
    assert!((1..100).contains(&waiting), "{waiting} wait");
    assert_eq!(world.relay.refusals.no_address, 100 - waiting);
    world.pass(Duration::from_secs(1));
    assert!(world.waiting().is_empty());
    assert_eq!(world.relay.refusals.no_address, 100);
    assert_eq!(world.status(session.id).unwrap().to_far.waiting, 0);
    // It may still come, and nothing old is sent to it then.
    let mut gateway = Sender::new(&session.far, "203.0.113.9:4000");
    world.send(gateway.datagram(100), gateway.address).unwrap();
    assert!(world.waiting().is_empty());
}

#[test]
fn addresses_follow_authentic_datagrams_only() {
    let mut world = World::new();
    let session = world.session(None);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let mut far = Sender::new(&session.far, "192.0.2.2:5115");
    let held_back = near.datagram(100);
    let replayed = near.datagram(100);
    world.send(replayed.clone(), near.address).unwrap();
    let elsewhere = address("203.0.113.66:6");
    let mut forged = near.datagram(100);
    forged[30] ^= 1;
    assert_eq!(world.send(forged, elsewhere), None);
    assert_eq!(world.send(replayed, elsewhere), None);
    world.send(held_back, elsewhere).expect("it is authentic, but not the newest");
    assert_eq!(world.send(far.datagram(100), far.address).unwrap().0, near.address);
    assert!(world.waiting().is_empty(), "nothing to ask");
    // The newest one moves it, but only once it has answered there.
    world.send(near.datagram(100), elsewhere).unwrap();
    let sent = world.across(&mut far, 100);
    assert_eq!(sent.iter().map(|(to, _)| *to).collect::<Vec<_>>(), [near.address, elsewhere, elsewhere]);
    assert_eq!(sent[2].1, sent[0].1, "the same datagram, for whom it is of use");
    let challenge = HopChallenge::parse(&sent[1].1).unwrap();
    assert_eq!((challenge.path, challenge.label), (PathId(0), Label(0)));
    assert!(HopChallenge::is_authentic(&sent[1].1, &near.hop));
    near.respond(challenge.token, elsewhere, &mut world);
    assert_eq!(world.across(&mut far, 100).iter().map(|(to, _)| *to).collect::<Vec<_>>(), [elsewhere]);
}

#[test]
fn a_leg_moves_for_nobody_who_cannot_answer_there() {
    let mut world = World::new();
    let session = world.session(None);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let mut far = Sender::new(&session.far, "192.0.2.2:5115");
    let (elsewhere, third) = (address("203.0.113.66:6"), address("203.0.113.67:7"));
    world.send(near.datagram(100), near.address).unwrap();
    // Somebody on the way sends the newest one on from an address of his own.
    world.send(near.datagram(100), elsewhere).unwrap();
    let token = HopChallenge::parse(&world.across(&mut far, 100)[1].1).unwrap().token;
    // What he makes up, what comes from where nobody was asked, and a key that is not the end's.
    near.respond([7; 8], elsewhere, &mut world);
    near.respond(token, third, &mut world);
    near.respond(token, near.address, &mut world);
    let mut stranger = Sender::new(&session.near, "203.0.113.66:6");
    stranger.hop.key = HopKey([0; 16]);
    stranger.respond(token, elsewhere, &mut world);
    world.send(vec![0x73; 23], elsewhere);
    let refusals = Refusals { malformed: 1, replayed: 3, forged: 1, ..Refusals::default() };
    assert_eq!(world.relay.refusals, refusals);
    assert_eq!(world.across(&mut far, 100)[0].0, near.address);
    // A newer one from where the end is makes the question void, and so does one from a third place.
    world.send(near.datagram(100), near.address).unwrap();
    near.respond(token, elsewhere, &mut world);
    world.send(near.datagram(100), elsewhere).unwrap();
    world.send(near.datagram(100), third).unwrap();
    let next = HopChallenge::parse(&world.across(&mut far, 100)[1].1).unwrap().token;
    assert_ne!(next, token);
    near.respond(next, elsewhere, &mut world);
    assert_eq!(world.across(&mut far, 100)[0].0, near.address);
    near.respond(next, third, &mut world);
    assert_eq!(world.across(&mut far, 100)[0].0, third);
}

#[test]
fn no_more_than_three_times_what_came_goes_where_nobody_has_answered() {
    let mut world = World::new();
    let session = world.session(None);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let mut far = Sender::new(&session.far, "192.0.2.2:5115");
    let elsewhere = address("203.0.113.66:6");
    world.send(near.datagram(100), near.address).unwrap();
    let mut sent = 0;
    for came in [60, 200] {
        world.send(near.datagram(came), elsewhere).unwrap();
        for number in 0..1000 {
            world.pass(Duration::from_millis(10));
            let all = world.across(&mut far, 100 + number);
            sent +=
                all.iter().filter(|(to, _)| *to == elsewhere).map(|(_, bytes)| bytes.len()).sum::<usize>();
        }
        let may = 3 * if came == 60 { 60 } else { 260 };
        assert!((may / 2..=may).contains(&sent), "{sent} bytes");
    }
    // One answer suffices, to whichever challenge: all of them are alike.
    assert_eq!(world.relay.refusals, Refusals::default());
}

#[test]
fn an_end_that_does_not_answer_challenges_is_followed_at_once() {
    let mut world = World::new();
    let session = world.session(None);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let mut far = Sender::new(&session.far, "192.0.2.2:5115");
    let mut of_relay = |from: Address, world: &mut World| {
        let mut datagram = near.datagram(100);
        let number = PacketNumber(near.next.0 - 1);
        replace_hop_header(&mut datagram, &near.hop, number);
        world.send(datagram, from).unwrap();
    };
    for from in ["198.51.100.1:1000", "203.0.113.66:6"].map(address) {
        of_relay(from, &mut world);
        assert_eq!(world.across(&mut far, 100).iter().map(|(to, _)| *to).collect::<Vec<_>>(), [from]);
    }
}

#[test]
fn what_is_not_believed_is_counted_and_changes_nothing() {
    let mut world = World::new();
    let session = world.session(None);
    let mut near = Sender::new(&session.near, "198.51.100.1:1000");
    let good = near.datagram(100);
    world.send(good.clone(), near.address).unwrap();
    world.pass(Duration::from_secs(10));

    let mut stranger = Sender::new(&session.near, "203.0.113.66:6");
    stranger.hop.key = HopKey([0; 16]);
    stranger.next = near.next;
    let mut lost = Sender::new(&session.near, "203.0.113.66:6");
    lost.hop.label = Label(session.near.label.0 ^ 0x0100_0000);
    for _ in 0..10 {
        assert_eq!(world.send(stranger.datagram(100), stranger.address), None);
        assert_eq!(world.send(lost.datagram(100), lost.address), None);
        assert_eq!(world.send(good.clone(), near.address), None);
        assert_eq!(world.send(good[..51].to_vec(), near.address), None);
    }
    let refusals =
        Refusals { malformed: 10, unknown_label: 10, replayed: 10, forged: 10, ..Refusals::default() };
    assert_eq!(world.relay.refusals, refusals);
    let status = world.status(session.id).unwrap();
    assert_eq!((status.to_far.datagrams, status.idle_s), (1, 10));
    assert!(world.send(near.datagram(100), near.address).is_some());
}

#[test]
fn a_chain_adds_a_header_for_each_relay_in_both_directions() {
    let (mut one, mut two) = (World::new(), World::new());
    two.draws = 1000;
    let last = two.session(None);
    let at_two = address("203.0.113.2:5115");
    let first = one.session_to(None, Some(at_two), Leg::Relay(last.near.clone()));
    two.relay.chain(last.id, SITE, first.far.clone()).unwrap();
    let at_one = address("203.0.113.1:5115");
    let mut near = Sender::new(&first.near, "198.51.100.1:1000");
    let mut far = Sender::new(&last.far, "192.0.2.2:5115");

    for _ in 0..3 {
        let sent = near.datagram(300);
        let bare = sent[INNER].to_vec();
        let (to, between) = one.send(sent, near.address).unwrap();
        assert_eq!((to, between.len()), (at_two, 300));
        assert_eq!(HopHeader::parse(&between).unwrap().hops_left, MAX_HOPS - 2);
        assert_eq!(two.send(between, at_one), Some((far.address, bare)));

        let sent = far.datagram(300);
        let bare = sent[INNER].to_vec();
        let (to, between) = two.send(sent, far.address).unwrap();
        assert_eq!(to, at_one);
        assert_eq!(one.send(between, at_two), Some((near.address, bare)));
    }
}

#[test]
fn a_circle_of_sessions_comes_to_an_end() {
    let mut world = World::new();
    let here = address("203.0.113.1:5115");
    let one = world.session_to(None, Some(here), Leg::Site);
    let two = world.session_to(None, Some(here), Leg::Relay(one.far.clone()));
    // What comes to the first from its far side enters the second at its near side, which leads back into the first.
    world.relay.chain(one.id, SITE, two.near.clone()).unwrap();
    world.send(Sender::new(&one.near, "203.0.113.1:5115").datagram(100), here).unwrap();
    let mut sender = Sender::new(&one.far, "203.0.113.1:5115");
    // Not a number that the second session is going to use.
    sender.next = PacketNumber(1000);
    let mut in_flight = Some(sender.datagram(100));
    let mut passed = 0;
    while let Some(datagram) = in_flight.take() {
        in_flight = world.send(datagram, here).map(|(_, bytes)| bytes);
        passed += u8::from(in_flight.is_some());
        assert!(passed < MAX_HOPS, "it goes on for ever");
    }
    assert_eq!(passed, MAX_HOPS - 1);
    assert_eq!(world.relay.refusals, Refusals { too_many_hops: 1, ..Refusals::default() });
}

#[test]
fn a_session_lives_while_it_is_used_or_refreshed() {
    let mut world = World::new();
    let (used, refreshed, idle) = (world.session(None), world.session(None), world.session(None));
    let mut near = Sender::new(&used.near, "198.51.100.1:1000");
    for _ in 0..10 {
        world.pass(Duration::from_secs(15));
        world.send(near.datagram(100), near.address).unwrap();
        world.relay.refresh(refreshed.id, SITE, world.now).unwrap();
        world.waiting();
    }
    let left: Vec<SessionId> = world.relay.sessions(world.now).map(|session| session.id).collect();
    assert_eq!(left, [used.id, refreshed.id]);
    assert_eq!(world.account.sessions(), 2);
    assert_eq!(world.relay.refresh(idle.id, SITE, world.now), Err(NoSession));
    let mut late = Sender::new(&idle.near, "198.51.100.1:1000");
    assert_eq!(world.send(late.datagram(100), late.address), None);
    assert_eq!(world.relay.refusals.unknown_label, 1);
}

#[test]
fn a_session_is_its_sites_only() {
    let mut world = World::new();
    let session = world.session(None);
    let other = KeyBytes([2; 32]);
    assert_eq!(world.relay.remove(session.id, other, world.now), Err(NoSession));
    assert_eq!(world.relay.cap(session.id, other, Some(1)), Err(NoSession));
    assert_eq!(world.relay.chain(session.id, other, session.near.clone()), Err(NoSession));
    let near_miss = SessionId(session.id.0 ^ 1 << 40);
    assert_eq!(world.relay.remove(near_miss, SITE, world.now), Err(NoSession));
    assert_eq!(world.relay.remove(session.id, SITE, world.now), Ok(()));
    assert_eq!(world.relay.remove(session.id, SITE, world.now), Err(NoSession));
}

#[test]
fn a_site_loses_all_its_sessions_and_nobody_else_does() {
    let mut world = World::new();
    let ours = [world.session(None), world.session(None)];
    world.account = Arc::new(Account::new(KeyBytes([2; 32]), 10, None));
    let other = world.session(None);
    world.relay.remove_site(SITE, world.now);
    let left: Vec<SessionId> = world.relay.sessions(world.now).map(|session| session.id).collect();
    assert_eq!(left, [other.id]);
    let mut near = Sender::new(&ours[0].near, "198.51.100.1:1000");
    assert_eq!(world.send(near.datagram(100), near.address), None);
}

#[test]
fn a_full_relay_takes_sessions_again_when_others_end() {
    let mut world = World::with(|config| config.max_sessions = 2);
    let first = world.session(None);
    let _second = world.session(None);
    let ticket = world.account.take_session().unwrap();
    let spec =
        SessionSpec { ticket, rate: None, address: None, far_site: None, far: Leg::Site, near_inside: None };
    assert_eq!(world.relay.add(spec, || [9; 32], world.now), Err(AddError));
    assert_eq!(world.account.sessions(), 2, "the ticket is given back");
    world.relay.remove(first.id, SITE, world.now).unwrap();
    world.session(None);
}

#[test]
fn a_session_takes_two_kibibytes_at_most() {
    let windows = 2 * HOP_WORDS * size_of::<u64>();
    let in_tables = 4 * 12 + size_of::<Option<Box<Session>>>() + size_of::<u32>();
    let passages = size_of::<[Passages; 2]>();
    let all = size_of::<Session>() + windows + passages + in_tables;
    println!("{all} bytes");
    assert!(all <= 2048, "{all}");
}
