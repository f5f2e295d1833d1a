//! How inner flows share a tunnel that is full, in virtual time.

use std::time::{Duration, Instant};

use psmc_core::SchedulerKind;

use crate::world::{HQ, Link, TCP, UDP, VAN, World, number, packet};

/// The flow of pings; others are bulk.
const PING: u16 = 99;

/// Two uplinks of 30 Mb/s together, the farther one 15 ms away.
fn uplinks() -> World {
    World::connected(vec![Link::new(10).mbit(20), Link::new(15).mbit(10)], SchedulerKind::Earliest)
}

/// Two uplinks of 20 Mb/s each, the farther one 70 ms away.
fn uplinks_far_apart() -> World {
    World::connected(vec![Link::new(10).mbit(20), Link::new(70).mbit(20)], SchedulerKind::Earliest)
}

/// A packet of one of eight downloads.
fn bulk(number: u32) -> Vec<u8> {
    packet(VAN, TCP, (number % 8) as u16, number, 1400)
}

/// Offers more than the links carry, in packets that `bulk` makes of their numbers, and a ping each 20 ms.
/// Returns when the pings were sent.
fn overload(world: &mut World, time: Duration, bulk: impl Fn(u32) -> Vec<u8>) -> Vec<Instant> {
    // 1400 bytes each 186 microseconds are 60 Mb/s.
    let interval = Duration::from_micros(186);
    let end = world.now + time;
    let mut pings = Vec::new();
    for sent in 0.. {
        world.send(VAN, &bulk(sent));
        if sent % 107 == 0 {
            let index = u32::try_from(pings.len()).expect("few pings");
            world.send(VAN, &packet(VAN, UDP, PING, index, 100));
            pings.push(world.now);
        }
        world.run_for(interval);
        if world.now >= end {
            break;
        }
    }
    pings
}

fn flow_of(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[20], packet[21]])
}

/// How long the pings took that were `sent` at these moments, the shortest first.
fn delays(world: &World, sent: &[Instant]) -> Vec<Duration> {
    let pings = world.ends[HQ].delivered.iter().filter(|(_, packet)| flow_of(packet) == PING);
    let mut delays: Vec<_> = pings.map(|(at, packet)| *at - sent[number(packet) as usize]).collect();
    delays.sort_unstable();
    delays
}

#[test]
fn pings_do_not_go_a_long_way_because_downloads_fill_the_short_one() {
    let mut world = uplinks_far_apart();
    overload(&mut world, Duration::from_secs(3), bulk);
    world.run_for(Duration::from_millis(500));
    world.ends[HQ].delivered.clear();
    let carried = world.links[1].carried_bytes[VAN];
    let sent = overload(&mut world, Duration::from_secs(4), bulk);
    let carried = world.links[1].carried_bytes[VAN] - carried;
    let delays = delays(&world, &sent);
    let high = delays[delays.len() * 95 / 100];
    println!("{} of {} pings, 95 % {high:?}, {carried} bytes by the long link", delays.len(), sent.len());
    assert!(delays.len() + 5 >= sent.len(), "{} of {} pings arrived", delays.len(), sent.len());
    assert!(high < Duration::from_millis(35), "one in twenty pings took {high:?} or longer");
    assert!(carried > 8_500_000, "the long link carried {carried} bytes of 10 million");
}

#[test]
fn a_link_that_overflowed_while_its_rate_was_found_is_used_all_the_same() {
    let mut world = uplinks_far_apart();
    // Whatever needs no order is sent over both from the start.
    let flood = |number| packet(VAN, UDP, (number % 8) as u16, number, 1400);
    overload(&mut world, Duration::from_secs(1), flood);
    let loss = world.status(VAN).paths[1].loss;
    let carried = world.links[1].carried_bytes[VAN];
    overload(&mut world, Duration::from_secs(2), flood);
    let carried = world.links[1].carried_bytes[VAN] - carried;
    println!("at a loss of {loss} it goes on with {carried} bytes");
    assert!(loss > 0.02, "the startup overflows, or this says nothing: {loss}");
    assert!(carried > 4_000_000, "{carried} bytes of 5 million");
}

/// Keeps `window` packets that `of` makes on their way for two seconds. Returns how many have arrived, and how many bytes the second
/// link has carried.
fn keep_under_way(world: &mut World, window: usize, of: impl Fn(u32) -> Vec<u8>) -> (usize, u64) {
    world.ends[HQ].delivered.clear();
    let (end, carried) = (world.now + Duration::from_secs(2), world.links[1].carried_bytes[VAN]);
    let mut sent = 0;
    while world.now < end {
        while sent < world.ends[HQ].delivered.len() + window {
            world.send(VAN, &of(u32::try_from(sent).expect("few packets")));
            sent += 1;
        }
        world.run_for(Duration::from_millis(1));
    }
    (world.ends[HQ].delivered.len(), world.links[1].carried_bytes[VAN] - carried)
}

#[test]
fn a_window_that_the_near_link_carries_is_not_spread() {
    let results = [(60, TCP), (60, UDP), (300, TCP)].map(|(window, protocol)| {
        let mut world = uplinks_far_apart();
        overload(&mut world, Duration::from_secs(3), |number| packet(VAN, UDP, 1, number, 1400));
        world.run_for(Duration::from_secs(1));
        keep_under_way(&mut world, window, |number| packet(VAN, protocol, 1, number, 1400))
    });
    println!("packets that arrived, and bytes by the long link: {results:?}");
    let [near, spread, both] = results;
    // 20 Mb/s are 3400 of these packets in two seconds.
    assert!(
        near.0 > 3200 && near.1 < 100_000,
        "60 packets fit into the round trip of the long link: {near:?}"
    );
    assert!(spread.1 > 500_000, "what needs no order waits for nothing: {spread:?}");
    assert!(both.0 > 5600, "300 packets do not: {both:?}");
}

#[test]
fn pings_do_not_wait_behind_downloads() {
    let mut world = uplinks();
    overload(&mut world, Duration::from_secs(3), bulk);
    world.run_for(Duration::from_secs(3));
    world.ends[HQ].delivered.clear();
    let sent = overload(&mut world, Duration::from_secs(4), bulk);
    let delays = delays(&world, &sent);
    let (median, high) = (delays[delays.len() / 2], delays[delays.len() * 95 / 100]);
    println!("{} of {} pings, median {median:?}, 95 % {high:?}", delays.len(), sent.len());
    assert!(delays.len() + 5 >= sent.len(), "{} of {} pings arrived", delays.len(), sent.len());
    // The links are 10 and 15 ms long; what waits in the tunnel for each bulk flow takes hundreds.
    assert!(median < Duration::from_millis(25), "half of the pings took {median:?} or longer");
    assert!(high < Duration::from_millis(45), "one in twenty pings took {high:?} or longer");
}

#[test]
fn the_background_yields_to_best_effort() {
    let mut world = uplinks();
    // Half of what is offered has code point CS1, in the upper six bits of the byte.
    let bulk = |number| {
        let mut packet = packet(VAN, TCP, (number % 2) as u16, number, 1400);
        packet[1] |= if number % 2 == 0 { 8 << 2 } else { 0 };
        packet
    };
    overload(&mut world, Duration::from_secs(3), bulk);
    world.ends[HQ].delivered.clear();
    overload(&mut world, Duration::from_secs(4), bulk);
    let arrived = [0, 1].map(|flow| {
        world.ends[HQ].delivered.iter().filter(|(_, packet)| flow_of(packet) == flow).count() as f64
    });
    let share = arrived[0] / (arrived[0] + arrived[1]);
    println!("the background has {share:.3} of {} packets", arrived[0] + arrived[1]);
    // By weight 1 of 11, though it is always as late as a packet may be.
    assert!((0.075..0.105).contains(&share), "the background has {share:.3}");
}
