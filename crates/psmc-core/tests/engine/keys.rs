//! Control connections and keys: they come, roll and go, and the packets notice nothing of it.

use std::time::Duration;

use psmc_core::{Event, PathState, SchedulerKind};

use crate::world::{HQ, Link, Setup, TCP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A world in which either end may dial.
fn symmetric(links: Vec<Link>) -> World {
    World::new(links, Setup { can_dial: [true; 2], ..SchedulerKind::Earliest.into() })
}

/// Sends a packet each way every `interval`, for `time`; returns how many each way.
fn chat(world: &mut World, from_number: u32, interval: Duration, time: Duration) -> u32 {
    let end = world.now + time;
    let mut number = from_number;
    while world.now < end {
        for from in [VAN, HQ] {
            world.send(from, &packet(from, TCP, 1, number, 1000));
        }
        world.run_for(interval);
        number += 1;
    }
    number - from_number
}

fn assert_all_arrived_in_order(world: &World, count: u32) {
    for end in [VAN, HQ] {
        let numbers = world.numbers(end);
        assert!(numbers.iter().copied().eq(0..count), "at {end}: {} of {count}", numbers.len());
    }
}

fn established(world: &World, end: usize) -> usize {
    world.ends[end].events.iter().filter(|event| matches!(event, Event::Connected { .. })).count()
}

#[test]
fn keys_roll_under_load_and_lose_nothing() {
    let mut world = World::connected(vec![Link::new(10), Link::new(60)], SchedulerKind::Wrr);
    let count = chat(&mut world, 0, ms(20), Duration::from_secs(500));
    world.run_for(ms(500));
    assert_all_arrived_in_order(&world, count);
    for end in [VAN, HQ] {
        assert_eq!(world.status(end).key_rolls, 4, "every two minutes");
        assert_eq!(world.ends[end].site.refusals().iter().map(|(_, n)| n).sum::<u64>(), 0);
    }
}

#[test]
fn a_handshake_with_fresh_secrets_every_fifteen_minutes_loses_nothing() {
    let mut world = World::connected(vec![Link::new(10), Link::new(60)], SchedulerKind::Wrr);
    world.run_for(Duration::from_secs(13 * 60 + 50));
    let count = chat(&mut world, 0, ms(5), Duration::from_secs(30));
    world.run_for(ms(500));
    assert_eq!((established(&world, VAN), established(&world, HQ)), (2, 2));
    assert_all_arrived_in_order(&world, count);
}

#[test]
fn both_ends_dialling_at_once_settle_on_one_connection() {
    for delay in [1, 60, 100, 125, 150, 200, 240] {
        let mut world = symmetric(vec![Link::new(delay)]);
        world.run_for(Duration::from_secs(3));
        let dials = world.ends[VAN].dials + world.ends[HQ].dials;
        let count = chat(&mut world, 0, ms(100), Duration::from_secs(30));
        world.run_for(Duration::from_secs(2));
        assert_all_arrived_in_order(&world, count);
        assert!(dials <= 2, "delay {delay}: {dials} dials");
        assert_eq!(world.ends[VAN].dials + world.ends[HQ].dials, dials, "delay {delay}: no more dials later");
        assert_eq!(world.connections(), 1, "delay {delay}");
    }
}

#[test]
fn both_ends_dialling_again_at_once_lose_nothing() {
    for delay in [1, 60, 120, 200] {
        let mut world = symmetric(vec![Link::new(delay)]);
        world.run_for(Duration::from_secs(3));
        let mut count = 0;
        for _ in 0..5 {
            world.drop_connections();
            count += chat(&mut world, count, ms(50), Duration::from_secs(15));
        }
        world.run_for(Duration::from_secs(2));
        assert_all_arrived_in_order(&world, count);
        assert_eq!(world.connections(), 1, "delay {delay}");
    }
}

#[test]
fn a_peer_that_restarts_without_a_word_is_found_again_within_two_seconds() {
    for end in [VAN, HQ] {
        let mut world = World::connected(vec![Link::new(10), Link::new(20)], SchedulerKind::Earliest);
        chat(&mut world, 0, ms(10), ms(500));
        world.restart_silently(end);
        let restarted = world.now;
        chat(&mut world, 1_000_000, ms(10), Duration::from_secs(5));
        for receiver in [VAN, HQ] {
            let back = world.ends[receiver].delivered.iter().find(|(at, _)| *at > restarted + ms(100));
            let back = back.expect("traffic comes back").0 - restarted;
            assert!(back <= Duration::from_secs(2), "end {end} restarted, {receiver} waits {back:?}");
        }
    }
}

#[test]
fn where_udp_is_blocked_and_tcp_works_handshakes_are_rare() {
    let mut world = World::new(vec![Link::new(10)], SchedulerKind::Earliest);
    world.udp_blocked = true;
    world.run_for(Duration::from_secs(300));
    let dials = world.ends[VAN].dials;
    assert!((5..=20).contains(&dials), "{dials} dials in five minutes");
    world.udp_blocked = false;
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.path_states(VAN)["link0"], PathState::Active);
}

#[test]
fn regression_a_peer_that_ends_every_connection_at_once_is_not_dialled_without_pause() {
    let mut world = World::new(vec![Link::new(1)], SchedulerKind::Earliest);
    for _ in 0..10_000 {
        world.run_for(ms(1));
        if established(&world, VAN) > 0 || world.connections() > 0 {
            world.drop_connections();
        }
    }
    let dials = world.ends[VAN].dials;
    assert!((8..=15).contains(&dials), "{dials} dials in ten seconds");
}

#[test]
fn regression_handshakes_that_end_halfway_do_not_void_the_key_in_use() {
    let mut world = World::connected(vec![Link::new(50)], SchedulerKind::Earliest);
    let mut count = 0;
    for round in 2..8 {
        world.drop_connections();
        // The acceptor has heard a hello and answered it; the answer never arrives.
        while established(&world, HQ) < round {
            count += chat(&mut world, count, ms(10), ms(10));
        }
    }
    assert_eq!(established(&world, VAN), 1);
    count += chat(&mut world, count, ms(10), ms(1000));
    world.run_for(ms(500));
    assert_all_arrived_in_order(&world, count);
}

#[test]
fn regression_a_connection_that_is_up_is_enough_whoever_dialled_it() {
    let mut world = symmetric(vec![Link::new(10)]);
    world.refuse_dials_of = Some(VAN);
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.connections(), 1);
    assert!(world.ends[VAN].dials <= 3, "{} dials", world.ends[VAN].dials);
}
