//! Paths that lead through relays, with the engine of the relay in the world.

use std::time::Duration;

use psmc_core::{Event, PathState, SchedulerKind};
use psmc_wire::PathId;

use crate::world::{HQ, Link, TCP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Two sites and a relay in each link, no direct path.
fn relayed(links: Vec<Link>) -> (World, Vec<PathId>) {
    let count = links.len();
    let mut world = World::new(Vec::new(), SchedulerKind::Earliest);
    world.links = links;
    (0..count).for_each(|link| world.stand_relay(link));
    let paths = (0..count).map(|link| world.add_relayed_path(link)).collect();
    (world, paths)
}

fn connected(links: Vec<Link>) -> (World, Vec<PathId>) {
    let (mut world, paths) = relayed(links);
    for (link, &path) in paths.iter().enumerate() {
        world.lead_path(path, link);
    }
    world.run_for(ms(1000));
    (world, paths)
}

fn states(world: &World, end: usize) -> Vec<PathState> {
    world.status(end).paths.iter().map(|path| path.state).collect()
}

/// Sends numbered packets both ways, one each millisecond.
fn exchange(world: &mut World, numbers: std::ops::Range<u32>) {
    for i in numbers {
        world.send(VAN, &packet(VAN, TCP, 1, i, 1400));
        world.send(HQ, &packet(HQ, TCP, 1, i, 1400));
        world.run_for(ms(1));
    }
}

fn wants_hops(world: &World) -> usize {
    world.ends[VAN].events.iter().filter(|event| matches!(event, Event::HopWanted { .. })).count()
}

#[test]
fn packets_of_full_size_pass_relays_whole_and_both_ways() {
    let (mut world, _) =
        connected(vec![Link::new(10).mtu(1500, 1500).mbit(10), Link::new(20).mtu(1500, 1500).mbit(10)]);
    exchange(&mut world, 0..2000);
    world.run_for(ms(500));
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..2000));
        let status = world.status(end);
        assert_eq!(status.counters.split, 0, "1400 bytes fit behind a hop header and IPv4");
        assert!(status.paths.iter().all(|path| path.mtu == 1500 && path.relay.is_some()), "{status:?}");
        assert!(status.paths.iter().all(|path| path.counters.tx_packets > 300), "both are used");
    }
}

#[test]
fn a_path_without_a_session_at_its_relay_is_silent_and_needs_no_timer() {
    let (mut world, paths) = relayed(vec![Link::new(10)]);
    world.run_for(Duration::from_secs(60));
    assert_eq!(states(&world, VAN), [PathState::Probing]);
    assert_eq!(world.relays.refusals(0).malformed + world.links[0].carried_bytes[0], 0);
    world.lead_path(paths[0], 0);
    world.run_for(ms(500));
    assert_eq!(states(&world, VAN), [PathState::Active]);
    assert_eq!(states(&world, HQ), [PathState::Active]);
}

/// Three one-way times after the session is known to the peer: a challenge, its answer, and what the relay let fall
/// before the peer knew the label.
#[test]
fn what_the_peer_answered_before_it_knew_the_relay_is_answered_again() {
    let (mut world, paths) = relayed(vec![Link::new(50)]);
    world.run_for(ms(1000));
    world.lead_path(paths[0], 0);
    world.run_for(ms(105));
    assert_eq!(states(&world, VAN), [PathState::Active]);
}

#[test]
fn a_relay_that_starts_anew_costs_no_packet_beside_another_one() {
    let (mut world, paths) = connected(vec![Link::new(10).mbit(50), Link::new(15).mbit(50)]);
    exchange(&mut world, 0..500);
    world.stand_relay(0);
    exchange(&mut world, 500..1500);
    assert_ne!(states(&world, VAN)[0], PathState::Active);
    assert!(world.relays.refusals(0).unknown_label > 0);
    world.lead_path(paths[0], 0);
    exchange(&mut world, 1500..2500);
    world.run_for(ms(500));
    assert_eq!(states(&world, VAN), [PathState::Active; 2]);
    assert_eq!(states(&world, HQ), [PathState::Active; 2]);
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..2500));
    }
}

#[test]
fn no_hop_number_is_used_twice_when_the_peer_starts_anew() {
    let (mut world, paths) = connected(vec![Link::new(10)]);
    exchange(&mut world, 0..100);
    world.run_for(ms(500));
    assert_eq!(wants_hops(&world), 0, "the first session has used none before");
    world.restart(HQ);
    world.run_for(ms(2000));
    assert_eq!(wants_hops(&world), 1);
    assert_eq!(states(&world, VAN), [PathState::Probing]);
    world.lead_path(paths[0], 0);
    exchange(&mut world, 100..200);
    world.run_for(ms(500));
    assert_eq!(states(&world, VAN), [PathState::Active]);
    assert!(world.numbers(HQ).into_iter().eq(0..200));
    assert_eq!(world.relays.refusals(0).replayed, 0);
}

#[test]
fn a_new_control_connection_changes_nothing() {
    let (mut world, _) = connected(vec![Link::new(10)]);
    exchange(&mut world, 0..100);
    world.drop_connections();
    exchange(&mut world, 100..1100);
    world.run_for(ms(500));
    assert_eq!(wants_hops(&world), 0);
    let refusals = world.relays.refusals(0);
    assert_eq!((refusals.replayed, refusals.forged, refusals.unknown_label), (0, 0, 0));
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..1100));
    }
}

#[test]
fn a_relay_follows_a_site_that_has_moved_once_it_has_answered_there() {
    let (mut world, _) = connected(vec![Link::new(20)]);
    exchange(&mut world, 0..100);
    for (round, port) in [7001, 7002].into_iter().enumerate() {
        world.rebind(0, port);
        let first = 100 + 1000 * u32::try_from(round).unwrap();
        exchange(&mut world, first..first + 1000);
        assert_eq!(states(&world, VAN), [PathState::Active]);
    }
    world.run_for(ms(500));
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..2100), "what was lost meanwhile was sent again");
    }
    let refusals = world.relays.refusals(0);
    assert_eq!((refusals.forged, refusals.malformed, refusals.replayed), (0, 0, 0));
    assert_eq!(world.refused(VAN), 0, "nothing but what the van knows comes to it");
}
