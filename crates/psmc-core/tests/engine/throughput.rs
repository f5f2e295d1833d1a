//! How much the links carry, and in what order it comes out, in virtual time; also where all are late together.

use std::time::Duration;

use psmc_core::{CongestionConfig, SchedulerKind};

use crate::world::{HQ, Link, Setup, TCP, UDP, VAN, World, packet};

/// Bytes of a full-size inner packet, and of the datagram around it with its outer headers.
const INNER: usize = 1400;
const OUTER: f64 = 1400.0 + 39.0 + 28.0;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Offers `mbit` from the van, in full-size packets of one flow from `first` on, for `time`.
/// Returns what arrived meanwhile, in Mb/s.
fn offer(world: &mut World, mbit: u64, time: Duration, first: &mut u32) -> f64 {
    let interval = Duration::from_nanos(INNER as u64 * 8 * 1000 / mbit);
    let (end, before) = (world.now + time, world.ends[HQ].delivered.len());
    while world.now < end {
        world.send(VAN, &packet(VAN, TCP, 1, *first, INNER));
        *first += 1;
        world.run_for(interval);
    }
    let packets = world.ends[HQ].delivered.len() - before;
    (packets * INNER * 8) as f64 / time.as_secs_f64() / 1e6
}

/// Inner bits that links of so many Mb/s carry at the very best.
fn capacity(mbit: f64) -> f64 {
    mbit * INNER as f64 / OUTER
}

/// Packets that came behind a later one, from the delivery with that index on.
fn overtaken(world: &World, from: usize) -> usize {
    let (mut newest, mut count) = (0, 0);
    for &number in &world.numbers(HQ)[from..] {
        count += usize::from(number < newest);
        newest = newest.max(number);
    }
    count
}

#[test]
fn earliest_adds_up_three_links_and_keeps_their_queues_short() {
    let links = vec![Link::new(5).mbit(40), Link::new(5).mbit(30), Link::new(5).mbit(20)];
    let mut world = World::connected(links, SchedulerKind::Earliest);
    let mut next = 0;
    offer(&mut world, 200, ms(1000), &mut next);
    let warm = world.ends[HQ].delivered.len();
    let dropped: u64 = world.links.iter().map(|link| link.dropped).sum();
    let rate = offer(&mut world, 200, ms(3000), &mut next);
    println!("{rate:.1} of {:.1} Mb/s, {} overtaken", capacity(90.0), overtaken(&world, warm));
    assert!(rate >= 0.92 * capacity(90.0), "{rate:.1} Mb/s");
    let dropped = world.links.iter().map(|link| link.dropped).sum::<u64>() - dropped;
    assert!(dropped <= 20, "{dropped} datagrams overran a queue of 100 ms");
    assert!(overtaken(&world, warm) <= 20, "{} packets came out of order", overtaken(&world, warm));
}

#[test]
fn cubic_fills_the_links_of_a_tunnel() {
    let links = vec![Link::new(5).mbit(40), Link::new(15).mbit(20)];
    let setup = Setup { congestion: CongestionConfig::Cubic, ..SchedulerKind::Earliest.into() };
    let mut world = World::connected(links, setup);
    let mut next = 0;
    offer(&mut world, 100, ms(2000), &mut next);
    let rate = offer(&mut world, 100, ms(6000), &mut next);
    println!("{rate:.1} of {:.1} Mb/s", capacity(60.0));
    assert!(rate >= 0.92 * capacity(60.0), "{rate:.1} Mb/s");
}

#[test]
fn what_the_links_carry_easily_arrives_whole_and_in_order_over_a_spread_of_delays() {
    for delays in [[10, 25, 40], [10, 10, 10], [1, 50, 100]] {
        let links = delays.iter().map(|&delay| Link::new(delay).mbit(30)).collect();
        let mut world = World::connected(links, SchedulerKind::Earliest);
        let mut next = 0;
        offer(&mut world, 50, ms(2000), &mut next);
        let warm = world.ends[HQ].delivered.len();
        let rate = offer(&mut world, 50, ms(3000), &mut next);
        world.run_for(ms(500));
        println!("{delays:?}: {rate:.1} Mb/s, {} overtaken", overtaken(&world, 0));
        let numbers = world.numbers(HQ);
        let (first, last) = (numbers[warm], numbers[numbers.len() - 1]);
        assert!(numbers[warm..].iter().copied().eq(first..=last), "{delays:?}: in order and without a gap");
        assert!(rate > 49.0, "{delays:?}: {rate:.1} Mb/s");
    }
}

#[test]
fn regression_a_path_is_not_shunned_for_a_queue_of_long_ago() {
    let links = [10, 25, 40].into_iter().map(|delay| Link::new(delay).mbit(30)).collect();
    let mut world = World::connected(links, SchedulerKind::Earliest);
    let mut next = 0;
    offer(&mut world, 50, ms(2500), &mut next);
    let before: Vec<_> = world.links.iter().map(|link| link.carried_bytes[VAN]).collect();
    offer(&mut world, 50, ms(1000), &mut next);
    let carried: Vec<_> =
        world.links.iter().zip(before).map(|(link, before)| link.carried_bytes[VAN] - before).collect();
    println!("{carried:?} bytes by paths of 10, 25 and 40 ms");
    assert!(carried[0] > carried[1] && carried[1] > 10 * carried[2], "{carried:?}");
}

#[test]
fn round_robin_keeps_an_ordered_flow_in_order_over_a_spread_of_delays() {
    for delays in [[10, 25, 40], [1, 50, 100]] {
        let links = delays.iter().map(|&delay| Link::new(delay).mbit(30)).collect();
        let mut world = World::connected(links, SchedulerKind::Wrr);
        let mut next = 0;
        offer(&mut world, 50, ms(2000), &mut next);
        let warm = world.ends[HQ].delivered.len();
        let rate = offer(&mut world, 50, ms(3000), &mut next);
        world.run_for(ms(500));
        println!("{delays:?}: {rate:.1} Mb/s, {} overtaken", overtaken(&world, 0));
        let numbers = &world.numbers(HQ)[warm..];
        assert!(numbers.is_sorted(), "{delays:?}");
        assert!(rate > 49.0, "{delays:?}: {rate:.1} Mb/s");
    }
}

#[test]
fn a_lossy_link_costs_no_more_than_what_it_loses() {
    let links = vec![Link::new(10).mbit(40), Link::new(10).mbit(40).loss_one_in(100)];
    let mut world = World::connected(links, SchedulerKind::Earliest);
    let mut next = 0;
    offer(&mut world, 120, ms(2000), &mut next);
    let rate = offer(&mut world, 120, ms(3000), &mut next);
    println!("{rate:.1} of {:.1} Mb/s", capacity(80.0));
    assert!(rate >= 0.9 * capacity(80.0), "{rate:.1} Mb/s");
}

#[test]
fn both_directions_at_once_do_not_starve_each_other() {
    let links = vec![Link::new(5).mbit(40), Link::new(15).mbit(20)];
    let mut world = World::connected(links, SchedulerKind::Earliest);
    let mut delivered = [0; 2];
    for number in 0..40_000 {
        if number == 10_000 {
            delivered = [VAN, HQ].map(|end| world.ends[end].delivered.len());
        }
        for from in [VAN, HQ] {
            world.send(from, &packet(from, TCP, 1, number, INNER));
        }
        world.run_for(Duration::from_micros(100));
    }
    for end in [VAN, HQ] {
        let packets = world.ends[end].delivered.len() - delivered[end];
        let rate = (packets * INNER * 8) as f64 / 3.0 / 1e6;
        println!("to {end}: {rate:.1} of {:.1} Mb/s", capacity(60.0));
        // The acknowledgements of each direction stand in the queue of the other one, and hold it back at times.
        assert!(rate >= 0.6 * capacity(60.0), "to {end}: {rate:.1} Mb/s");
    }
}

/// The same on a machine that, in each of these periods, does nothing at all for a while: neither end, nor who sends.
fn offer_with_pauses(world: &mut World, (period, pause): (u64, u64), seconds: u64, first: &mut u32) -> f64 {
    let periods = seconds * 1000 / period;
    let mut mbit = 0.0;
    for _ in 0..periods {
        mbit += offer(world, 30, ms(period - pause), first) * (period - pause) as f64;
        world.now += ms(pause);
    }
    mbit / (periods * period) as f64
}

#[test]
fn a_machine_that_pauses_does_not_take_its_pauses_for_a_slower_path() {
    for (period, pause) in [(100, 10), (100, 30), (60, 30), (250, 100), (120, 60)] {
        let mut world = World::connected(vec![Link::new(44).mbit(10)], SchedulerKind::Earliest);
        let mut next = 0;
        offer_with_pauses(&mut world, (period, pause), 20, &mut next);
        let rate = offer_with_pauses(&mut world, (period, pause), 10, &mut next);
        let share = (period - pause) as f64 / period as f64;
        println!("{pause} of {period} ms: {rate:.2} of {:.2} Mb/s", share * capacity(10.0));
        assert!(rate >= 0.9 * share * capacity(10.0), "{pause} of {period} ms: {rate:.2} Mb/s");
    }
}

#[test]
fn a_machine_that_pauses_notices_that_a_path_has_become_slower() {
    for (seconds, mbit) in [(5, 3), (4, 2)] {
        let mut world = World::connected(vec![Link::new(44).mbit(10)], SchedulerKind::Earliest);
        let mut next = 0;
        offer_with_pauses(&mut world, (100, 30), seconds, &mut next);
        let rate = mbit * 1_000_000;
        world.links[0].rate = Some(rate);
        offer_with_pauses(&mut world, (100, 30), 5, &mut next);
        let believed = world.status(VAN).paths[0].rate.expect("it has sent");
        assert!((rate * 5 / 6..rate * 5 / 3).contains(&believed), "{believed} bit/s of {rate}");
    }
}

/// A machine that has other things to do serves no path for a while: whatever arrives is late by the same, on all of them.
#[test]
fn hosts_that_are_late_are_no_bottleneck() {
    for flood in [60, 75, 85] {
        let links = [(1, 40), (1, 30), (1, 20)].map(|(delay, mbit)| Link::new(delay).mbit(mbit)).into();
        let mut world = World::connected(links, SchedulerKind::Earliest);
        let (mut random, mut stalls, mut coupled) = (flood, 0u32, 0u32);
        let gap = Duration::from_nanos(1400 * 8 * 1000 / flood);
        let mut next = world.now;
        for number in 0..u32::try_from(15 * 1_000_000_000 / gap.as_nanos()).expect("few") {
            if world.now >= next {
                random = (random * 6_364_136_223 + 1_442_695_041) % 1_000_003;
                let (stall, pause) = (5 + random % 40, 60 + random / 7 % 300);
                for link in &mut world.links {
                    link.stalled_until = Some(world.now + Duration::from_millis(stall));
                }
                next = world.now + Duration::from_millis(pause);
                stalls += 1;
                coupled += u32::from(world.status(VAN).paths.iter().any(|path| path.bottleneck.is_some()));
            }
            world.send(VAN, &packet(VAN, UDP, 1, number, 1350));
            world.run_for(gap);
        }
        assert!(stalls > 50 && coupled == 0, "{flood} Mb/s: coupled at {coupled} of {stalls} stalls");
    }
}
