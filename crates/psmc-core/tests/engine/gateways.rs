//! Headquarters that nobody reaches but through the relays at which they have registered.

use std::net::SocketAddr;
use std::time::Duration;

use psmc_core::{PathState, Refusal, SchedulerKind};
use psmc_wire::PathId;

use crate::world::{HQ, Link, Setup, TCP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A van, hidden headquarters, and a relay in each link with a path through it. Nobody has registered.
fn hidden(links: Vec<Link>) -> (World, Vec<PathId>) {
    let count = links.len();
    let setup = Setup { hq_is_hidden: true, ..Setup::from(SchedulerKind::Earliest) };
    let mut world = World::new(Vec::new(), setup);
    world.links = links;
    (0..count).for_each(|link| world.stand_relay(link));
    let paths = (0..count).map(|link| world.add_relayed_path(link)).collect();
    (world, paths)
}

fn states(world: &World, end: usize) -> Vec<PathState> {
    world.status(end).paths.iter().map(|path| path.state).collect()
}

fn exchange(world: &mut World, numbers: std::ops::Range<u32>) {
    for i in numbers {
        world.send(VAN, &packet(VAN, TCP, 1, i, 1000));
        world.send(HQ, &packet(HQ, TCP, 1, i, 1000));
        world.run_for(ms(1));
    }
}

fn refused(world: &World, refusal: Refusal) -> u64 {
    world.ends[HQ].site.refusals().get(refusal)
}

/// Bytes that the headquarters have sent into a link.
fn told(world: &World, link: usize) -> u64 {
    world.links[link].carried_bytes[HQ]
}

#[test]
fn a_gateway_shows_its_relay_where_it_is_and_then_packets_go_both_ways() {
    let (mut world, paths) = hidden(vec![Link::new(10).mbit(20), Link::new(20).mbit(20)]);
    for (link, path) in paths.into_iter().enumerate() {
        world.register(link);
        world.lead_path_to_gateway(path, link);
    }
    world.run_for(ms(300));
    assert_eq!(states(&world, VAN), [PathState::Active; 2]);
    assert_eq!(states(&world, HQ), [PathState::Active; 2]);
    exchange(&mut world, 0..1000);
    world.run_for(ms(500));
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..1000));
    }
    assert_eq!(refused(&world, Refusal::Elsewhere), 0);
}

/// Two one-way times after the relay has reserved the session, without an answer that was waited for: the relay holds what
/// comes until the gateway has shown where it is.
#[test]
fn on_the_word_of_its_relay_a_path_carries_data_before_it_has_answered() {
    let (mut world, paths) = hidden(vec![Link::new(40).mbit(20)]);
    world.register(0);
    world.run_for(ms(1000));
    world.lead_path_to_gateway(paths[0], 0);
    world.trust_path(paths[0]);
    for i in 0..20 {
        world.send(VAN, &packet(VAN, TCP, 1, i, 1000));
        world.run_for(ms(1));
    }
    assert!(told(&world, 0) == 0, "nothing has come back yet");
    world.run_for(ms(100));
    assert!(world.numbers(HQ).into_iter().eq(0..20), "{:?}", world.numbers(HQ));
    assert_eq!(world.relays.refusals(0).no_address, 0);
    exchange(&mut world, 20..500);
    world.run_for(ms(500));
    assert_eq!((states(&world, VAN), states(&world, HQ)), (vec![PathState::Active], vec![PathState::Active]));
    assert!(world.numbers(HQ).into_iter().eq(0..500));
}

#[test]
fn a_relay_that_was_trusted_for_nothing_costs_no_packet_beside_another_one() {
    let (mut world, paths) = hidden(vec![Link::new(10).mbit(20), Link::new(10).mbit(20)]);
    world.register(0);
    world.lead_path_to_gateway(paths[0], 0);
    world.run_for(ms(500));
    exchange(&mut world, 0..100);
    // The second one knows no such gateway.
    world.lead_path_to_gateway(paths[1], 1);
    world.trust_path(paths[1]);
    exchange(&mut world, 100..600);
    assert_eq!(states(&world, VAN), [PathState::Active, PathState::Probing]);
    world.run_for(ms(500));
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..600), "{:?}", world.numbers(end));
    }
    world.trust_path(paths[1]);
    assert_eq!(states(&world, VAN), [PathState::Active, PathState::Probing], "it has had its chance");
}

#[test]
fn a_gateway_sends_nothing_to_a_relay_that_is_not_its_own() {
    let (mut world, paths) = hidden(vec![Link::new(10), Link::new(10)]);
    world.register(0);
    // As a client would have to, to make the gateway send where it wants: the session exists, the relay is another one.
    world.lead_path_to_gateway(paths[1], 1);
    world.run_for(ms(3000));
    assert_eq!(states(&world, VAN), [PathState::Probing; 2]);
    assert_eq!((told(&world, 1), states(&world, HQ)), (0, vec![]));
    assert!(refused(&world, Refusal::Elsewhere) > 0);
    world.lead_path_to_gateway(paths[0], 0);
    world.run_for(ms(300));
    assert_eq!(states(&world, VAN), [PathState::Active, PathState::Probing]);
}

/// Whoever holds the right keys and guesses the address could learn so that he has hit it.
#[test]
fn a_gateway_heeds_no_datagram_that_does_not_come_from_a_relay() {
    let (mut world, paths) = hidden(vec![Link::new(10)]);
    world.register(0);
    world.lead_path_to_gateway(paths[0], 0);
    world.run_for(ms(500));
    let before = world.status(HQ);
    // The next datagram of the van, on its way around the relay: all of it is right.
    world.send(VAN, &packet(VAN, TCP, 1, 0, 500));
    world.settle();
    let arrival = world.now + ms(20);
    let (to, mut datagram, ..) = world.links[0].take_arrived(arrival).expect("the van sends");
    assert_eq!(to, HQ);
    let elsewhere: SocketAddr = "192.0.2.9:5115".parse().expect("an address");
    for path in [0, 2] {
        // On the path that there is, and as if it opened another one.
        datagram[3] = path;
        world.inject(0, HQ, &mut datagram.clone(), elsewhere);
        world.settle();
    }
    let after = world.status(HQ);
    assert_eq!(refused(&world, Refusal::Elsewhere), 2);
    assert_eq!(after.paths[0].address, before.paths[0].address);
    assert_eq!((after.paths.len(), after.counters), (before.paths.len(), before.counters));
}

#[test]
fn a_dead_relay_costs_its_path_only_and_comes_back() {
    let (mut world, paths) = hidden(vec![Link::new(10).mbit(20), Link::new(15).mbit(20)]);
    for (link, &path) in paths.iter().enumerate() {
        world.register(link);
        world.lead_path_to_gateway(path, link);
    }
    world.run_for(ms(300));
    exchange(&mut world, 0..500);
    world.stand_relay(0);
    exchange(&mut world, 500..1500);
    assert_ne!(states(&world, VAN)[0], PathState::Active);
    world.register(0);
    world.lead_path_to_gateway(paths[0], 0);
    exchange(&mut world, 1500..2000);
    world.run_for(ms(500));
    assert_eq!(states(&world, VAN), [PathState::Active; 2]);
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..2000));
    }
}

#[test]
fn a_path_moves_from_one_relay_of_the_gateway_to_another() {
    let (mut world, paths) = hidden(vec![Link::new(10), Link::new(30)]);
    world.register(0);
    world.register(1);
    world.lead_path_to_gateway(paths[0], 0);
    world.lead_path_to_gateway(paths[1], 1);
    world.run_for(ms(500));
    exchange(&mut world, 0..100);
    // The relay has got another place, as when its name leads elsewhere.
    world.move_relay(0);
    world.register(0);
    world.lead_path_to_gateway(paths[0], 0);
    exchange(&mut world, 100..600);
    world.run_for(ms(500));
    assert_eq!(states(&world, HQ), [PathState::Active; 2]);
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..600));
    }
}
