//! Hosts on the way that say that nobody takes datagrams there any more, and others that lie about it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_core::{PathState, SchedulerKind};

use crate::world::{HQ, Link, Setup, TCP, VAN, World, address, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A van, hidden headquarters, and two relays between them, of which the nearer one has the better path.
fn relayed() -> World {
    let setup = Setup { hq_is_hidden: true, ..Setup::from(SchedulerKind::Earliest) };
    let mut world = World::new(Vec::new(), setup);
    world.links = vec![Link::new(10).mbit(50), Link::new(15).mbit(50)];
    for link in 0..2 {
        world.stand_relay(link);
        let path = world.add_relayed_path(link);
        world.register(link);
        world.lead_path_to_gateway(path, link);
    }
    world.run_for(ms(500));
    world
}

/// Packets each way, one every half millisecond.
fn exchange(world: &mut World, numbers: std::ops::Range<u32>) {
    for number in numbers {
        for from in [VAN, HQ] {
            world.send(from, &packet(from, TCP, 1, number, 1000));
        }
        world.run_for(Duration::from_micros(500));
    }
}

/// The longest time between two deliveries at an end since `from`.
fn longest_gap(world: &World, end: usize, from: Instant) -> Duration {
    let times = world.ends[end].delivered.iter().map(|(at, _)| *at).filter(|&at| at >= from);
    let times: Vec<_> = [from].into_iter().chain(times).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

fn undelivered(world: &World, end: usize) -> Vec<u64> {
    world.status(end).paths.iter().map(|path| path.counters.undelivered).collect()
}

/// How long each end is without packets when the first relay ends, which may be said or not.
fn failover(end_relay: fn(&mut World)) -> [Duration; 2] {
    let mut world = relayed();
    exchange(&mut world, 0..2000);
    let ended = world.now;
    end_relay(&mut world);
    exchange(&mut world, 2000..4000);
    world.run_for(ms(500));
    for end in [VAN, HQ] {
        let mut numbers = world.numbers(end);
        numbers.sort_unstable();
        assert!(numbers.into_iter().eq(0..4000), "all arrives once at {end}");
        assert_eq!(world.status(end).paths[0].state, PathState::Dead);
    }
    [VAN, HQ].map(|end| longest_gap(&world, end, ended))
}

#[test]
fn who_is_told_of_a_dead_relay_does_not_wait_for_its_silence() {
    let told = failover(|world| world.refuse(0));
    let silent = failover(|world| world.links[0].cut());
    for (told, silent) in told.into_iter().zip(silent) {
        assert!(silent <= ms(80), "two round trips of 20 ms, and once over the other path: {silent:?}");
        assert!(told <= ms(40), "half a round trip to the relay, and once over the other path: {told:?}");
        assert!(told + ms(20) < silent, "{told:?} and {silent:?}");
    }
}

#[test]
fn a_path_that_is_said_to_be_dead_and_is_not_is_believed_once_a_second_and_loses_nothing() {
    let mut world = World::connected(vec![Link::new(10), Link::new(15)], SchedulerKind::Earliest);
    let seconds = 5;
    for number in 0..seconds * 2000 {
        exchange(&mut world, number..number + 1);
        let seen = world.tapped.iter().find(|(_, to, _)| *to == HQ).cloned();
        let (link, _, datagram) = seen.expect("datagrams arrive");
        let now = world.now;
        world.ends[VAN].site.handle_undelivered(address(link, HQ), &datagram, now);
        world.settle();
    }
    world.run_for(ms(500));
    for end in [VAN, HQ] {
        assert!(world.numbers(end).into_iter().eq(0..seconds * 2000));
    }
    for heeded in undelivered(&world, VAN) {
        assert!((1..=u64::from(seconds) + 1).contains(&heeded), "{heeded}");
    }
    let all_active: BTreeMap<_, _> =
        ["link0", "link1"].map(|name| (name.to_owned(), PathState::Active)).into_iter().collect();
    assert_eq!(world.path_states(VAN), all_active);
}

/// What a forger would have to know.
#[test]
fn what_is_quoted_must_have_been_sent() {
    let mut world = World::connected(vec![Link::new(10), Link::new(15)], SchedulerKind::Earliest);
    exchange(&mut world, 0..500);
    let (link, _, datagram) = world.tapped.iter().find(|(_, to, _)| *to == HQ).cloned().expect("one arrives");
    let remote = address(link, HQ);
    let forged = |at: usize, by: u8| {
        let mut datagram = datagram.clone();
        datagram[at] = datagram[at].wrapping_add(by);
        datagram
    };
    let now = world.now;
    let site = &mut world.ends[VAN].site;
    site.handle_undelivered(remote, &forged(7, 1), now);
    site.handle_undelivered(remote, &forged(3, 100), now);
    site.handle_undelivered(remote, &forged(9, 16), now);
    site.handle_undelivered(remote, &forged(9, 240), now);
    site.handle_undelivered(remote, &datagram[..20], now);
    site.handle_undelivered(remote, &[], now);
    site.handle_undelivered(address(1 - link, HQ), &datagram, now);
    site.handle_undelivered("192.0.2.1:5115".parse().expect("an address"), &datagram, now);
    world.settle();
    assert_eq!(undelivered(&world, VAN), [0, 0]);
    assert!(world.path_states(VAN).values().all(|&state| state == PathState::Active));
    world.ends[VAN].site.handle_undelivered(remote, &datagram, now);
    world.settle();
    assert_eq!(undelivered(&world, VAN).iter().sum::<u64>(), 1, "as it was sent");
}
