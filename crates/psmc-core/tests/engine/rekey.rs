//! Keys have an end, and a session whose control connection is blocked gets new ones through its own datagrams.

use std::time::Duration;

use proptest::prelude::*;
use psmc_core::{Event, KeyLimits, MAX_SEGMENTS, SchedulerKind};

use crate::world::crypto::{forbid_nonces_twice, last_generations, most_sealed_with_a_key};
use crate::world::{HQ, Link, Setup, TCP, VAN, World, packet};

const HOUR: Duration = Duration::from_secs(60 * 60);

/// How long after its last datagram was sealed a generation opens any.
const OVERLAP: Duration = Duration::from_secs(10);

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Two connected sites, which are not to use a nonce twice. What `change` does not say is as with every site.
fn world_with(links: Vec<Link>, change: impl FnOnce(&mut Setup)) -> World {
    forbid_nonces_twice();
    let mut setup = Setup::from(SchedulerKind::Earliest);
    change(&mut setup);
    World::connected(links, setup)
}

/// Keys that are not renewed but by a control connection.
fn without_renewal(setup: &mut Setup) {
    setup.key_limits = KeyLimits { exchange_after: 1000 * HOUR, ..setup.key_limits };
}

/// There is no control connection from here on, and none can be made.
fn block_control(world: &mut World) {
    world.control_up = false;
    world.drop_connections();
}

/// Sends a packet each way every `interval`, for `time`; returns how many each way.
fn chat(world: &mut World, from_number: u32, interval: Duration, time: Duration) -> u32 {
    let end = world.now + time;
    let mut number = from_number;
    while world.now < end {
        for from in [VAN, HQ] {
            world.send(from, &packet(from, TCP, 1, number, 200));
        }
        world.run_for(interval);
        number += 1;
    }
    number - from_number
}

fn sent_bytes(world: &World) -> u64 {
    world.links.iter().flat_map(|link| link.carried_bytes).sum()
}

/// Whether both ends know that the keys have ended.
fn have_ended(world: &World) -> bool {
    let ended = [VAN, HQ].map(|end| world.status(end).keys_ended.is_some());
    assert_eq!(ended[0], ended[1]);
    ended[0]
}

#[test]
fn with_the_control_connection_blocked_for_hours_the_tunnel_goes_on_with_new_keys() {
    let mut world = world_with(vec![Link::new(10), Link::new(60)], |_| {});
    block_control(&mut world);
    let (mut count, mut last) = (0, last_generations());
    for quarter in 1..=20 {
        count += chat(&mut world, count, ms(1000), HOUR / 4);
        let generations = last_generations();
        assert!(generations[0] != last[0] && generations[1] != last[1], "the same after {quarter} quarters");
        last = generations;
    }
    world.run_for(ms(500));
    for end in [VAN, HQ] {
        assert!(world.numbers(end).iter().copied().eq(0..count), "nothing is lost");
        let status = world.status(end);
        assert!(status.key_exchanges >= 20, "{}", status.key_exchanges);
        assert_eq!(status.key_generations, status.key_exchanges + 1);
        assert_eq!(world.refused(end), 0);
    }
    assert!(!have_ended(&world));
}

#[test]
fn where_handshakes_work_no_exchange_is_needed() {
    let mut world = world_with(vec![Link::new(10)], |_| {});
    chat(&mut world, 0, ms(1000), 2 * HOUR);
    for end in [VAN, HQ] {
        let status = world.status(end);
        assert_eq!((status.key_generations, status.key_exchanges), (9, 0));
    }
}

#[test]
fn a_site_that_was_cut_off_for_less_than_the_keys_last_goes_on_without_a_handshake() {
    let mut world = world_with(vec![Link::new(10)], |_| {});
    block_control(&mut world);
    world.links[0].cut();
    world.run_for(Duration::from_secs(59 * 60));
    world.links[0].restore();
    world.run_for(Duration::from_secs(5));
    let count = chat(&mut world, 0, ms(100), 2 * HOUR);
    world.run_for(ms(500));
    assert_eq!(world.numbers(HQ).len(), count as usize);
    assert!(world.status(VAN).key_exchanges >= 8);
}

#[test]
fn exchanges_get_through_where_most_is_lost() {
    let mut link = Link::new(80);
    (link.loss_one_in, link.reorder_one_in, link.duplicate_one_in) = (2, 3, 4);
    let limits = KeyLimits { exchange_after: Duration::from_secs(20), ..KeyLimits::default() };
    let mut world = world_with(vec![link], |setup| setup.key_limits = limits);
    block_control(&mut world);
    chat(&mut world, 0, ms(200), Duration::from_secs(400));
    for end in [VAN, HQ] {
        assert!(world.status(end).key_exchanges >= 12, "{}", world.status(end).key_exchanges);
    }
}

#[test]
fn keys_that_nobody_renews_end_and_a_control_connection_brings_new_ones() {
    let mut world = world_with(vec![Link::new(10)], without_renewal);
    block_control(&mut world);
    let count = chat(&mut world, 0, ms(1000), HOUR - Duration::from_secs(2));
    assert_eq!(world.numbers(HQ).len(), count as usize);
    world.run_for(Duration::from_secs(2));
    assert!(have_ended(&world), "an hour after the handshake");
    let before = sent_bytes(&world);
    chat(&mut world, count, ms(1000), HOUR);
    assert_eq!(sent_bytes(&world), before, "nothing is sealed");
    assert_eq!(world.numbers(HQ).len(), count as usize);
    for end in [VAN, HQ] {
        let ends = |event: &&Event| matches!(event, Event::KeysEnded { .. });
        assert_eq!(world.ends[end].events.iter().filter(ends).count(), 1);
    }
    world.control_up = true;
    world.run_for(Duration::from_secs(3));
    assert!(!have_ended(&world));
    chat(&mut world, 1_000_000, ms(100), ms(1000));
    world.run_for(ms(500));
    for end in [VAN, HQ] {
        assert_eq!(world.numbers(end).iter().filter(|number| **number >= 1_000_000).count(), 10);
    }
}

/// What was sealed within its time opens as long as it may be on its way, and then no more.
#[test]
fn nothing_is_accepted_under_keys_that_have_ended() {
    for (late, is_accepted) in [(OVERLAP / 2, true), (OVERLAP * 2, false)] {
        let mut world = world_with(vec![Link::new(10)], without_renewal);
        block_control(&mut world);
        world.run_until(world.start + HOUR - ms(100));
        world.links[0].stalled_until = Some(world.start + HOUR + late);
        let before = sent_bytes(&world);
        world.send(VAN, &packet(VAN, TCP, 1, 7, 200));
        world.run_for(ms(1));
        assert!(sent_bytes(&world) > before, "it is on its way");
        world.run_for(HOUR);
        assert_eq!(world.numbers(HQ).contains(&7), is_accepted, "{late:?} late");
    }
}

/// As when a machine was stopped: no timer has run meanwhile.
#[test]
fn after_a_jump_of_the_clock_nothing_is_sealed_or_accepted() {
    let mut world = world_with(vec![Link::new(10)], without_renewal);
    block_control(&mut world);
    chat(&mut world, 0, ms(10), ms(1000));
    world.links[0].stalled_until = Some(world.now + 2 * HOUR);
    world.send(VAN, &packet(VAN, TCP, 1, 7777, 200));
    world.settle();
    world.now += 2 * HOUR;
    let before = sent_bytes(&world);
    for from in [VAN, HQ] {
        world.send(from, &packet(from, TCP, 1, 8888, 200));
    }
    world.settle();
    assert_eq!(sent_bytes(&world), before, "nothing is sealed");
    world.run_for(Duration::from_secs(1));
    assert!(!world.numbers(HQ).contains(&7777), "nothing is accepted");
    assert!(have_ended(&world));
    world.control_up = true;
    chat(&mut world, 10_000, ms(100), Duration::from_secs(5));
    assert!(world.numbers(HQ).iter().any(|number| *number >= 10_000), "and then it goes on");
}

/// The clock stands still while a machine is suspended, and its keys grow old all the same.
#[test]
fn what_a_machine_has_slept_counts() {
    let mut world = world_with(vec![Link::new(10)], without_renewal);
    block_control(&mut world);
    chat(&mut world, 0, ms(10), ms(1000));
    world.ends[VAN].site.note_suspended(HOUR - Duration::from_secs(60));
    let before = sent_bytes(&world);
    chat(&mut world, 1000, ms(10), ms(1000));
    assert!(sent_bytes(&world) > before, "not yet");
    world.ends[VAN].site.note_suspended(Duration::from_secs(120));
    world.settle();
    let before = world.status(VAN).paths[0].counters.tx_bytes;
    chat(&mut world, 2000, ms(10), ms(1000));
    assert_eq!(world.status(VAN).paths[0].counters.tx_bytes, before, "nothing is sealed");
    assert!(!world.numbers(HQ).contains(&2000));
    world.control_up = true;
    chat(&mut world, 10_000, ms(100), Duration::from_secs(5));
    assert!(world.numbers(HQ).iter().any(|number| *number >= 10_000), "and then it goes on");
}

/// A jump of less than the keys last: they are old, so new ones are exchanged at once.
#[test]
fn after_a_short_jump_of_the_clock_keys_are_exchanged_at_once() {
    let mut world = world_with(vec![Link::new(10)], |_| {});
    block_control(&mut world);
    chat(&mut world, 0, ms(10), ms(1000));
    world.now += HOUR / 2;
    world.run_for(Duration::from_secs(5));
    for end in [VAN, HQ] {
        assert_eq!(world.status(end).key_exchanges, 1);
    }
}

#[test]
fn no_key_seals_more_datagrams_than_it_may() {
    let datagrams = 16 * MAX_SEGMENTS as u64;
    let limits = KeyLimits { datagrams, exchange_after: 1000 * HOUR, ..KeyLimits::default() };
    let mut world = world_with(vec![Link::new(1)], |setup| setup.key_limits = limits);
    block_control(&mut world);
    for number in 0..400_000 {
        world.send(VAN, &packet(VAN, TCP, 1, number, 900));
        if number % 32 == 0 {
            world.run_for(ms(1));
        }
        if world.status(VAN).keys_ended.is_some() {
            break;
        }
    }
    assert_eq!(world.status(VAN).key.map(|(_, epoch)| epoch), Some(255), "each epoch has its share");
    let most = most_sealed_with_a_key() as u64;
    assert!(most <= datagrams && most > datagrams / 2, "{most} of {datagrams}");
    assert!(world.status(VAN).keys_ended.is_some());
    let before = world.links[0].carried_bytes[VAN];
    world.run_for(Duration::from_secs(60));
    assert_eq!(world.links[0].carried_bytes[VAN], before, "nothing is sealed any more");
    world.control_up = true;
    chat(&mut world, 1_000_000, ms(100), Duration::from_secs(5));
    assert!(world.numbers(HQ).iter().any(|number| *number >= 1_000_000));
}

/// Neither end may exchange keys with one that does not say that it can; then they last a day, as nothing else could be done.
#[test]
fn a_peer_that_knows_of_no_exchange_is_cut_off_after_a_day_and_not_before() {
    let mut world = world_with(vec![Link::new(10)], |setup| setup.without_exchange = true);
    block_control(&mut world);
    let count = chat(&mut world, 0, Duration::from_secs(60), 24 * HOUR - Duration::from_secs(120));
    assert_eq!(world.numbers(HQ).len(), count as usize);
    assert_eq!(world.status(VAN).key_generations, 1);
    world.run_for(Duration::from_secs(120));
    assert!(have_ended(&world));
}

fn established(world: &World, end: usize) -> usize {
    world.ends[end].events.iter().filter(|event| matches!(event, Event::Connected { .. })).count()
}

/// A handshake stands still when its acceptor has the new keys and its dialer does not, and meanwhile keys are exchanged within
/// the session. The dialer then comes to use those of the exchange first: so must the acceptor, whatever it installed first.
#[test]
fn a_handshake_that_takes_longer_than_an_exchange_comes_after_it() {
    let limits = KeyLimits { exchange_after: ms(2000), ..KeyLimits::default() };
    let mut world = world_with(vec![Link::new(20)], |setup| setup.key_limits = limits);
    world.run_for(ms(800));
    world.drop_connections();
    while established(&world, HQ) < 2 {
        world.run_for(ms(1));
    }
    world.control_up = false;
    let mut count = chat(&mut world, 0, ms(10), ms(1000));
    assert_eq!([VAN, HQ].map(|end| world.status(end).key_exchanges), [1, 1]);
    assert_eq!(established(&world, VAN), 1, "the hello is on its way");
    world.control_up = true;
    count += chat(&mut world, count, ms(10), 2 * OVERLAP);
    world.run_for(ms(500));
    assert_eq!(established(&world, VAN), 2);
    for end in [VAN, HQ] {
        assert!(world.numbers(end).iter().copied().eq(0..count), "nothing is lost");
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Chat { packets: u32, interval_ms: u64 },
    Wait { ms: u64 },
    Pass { link: usize, passes: [bool; 2] },
    Lose { link: usize, one_in: u32 },
    Reorder { link: usize, one_in: u32 },
    Duplicate { link: usize, one_in: u32 },
    Stall { link: usize, ms: u64 },
    Control { up: bool },
    DropConnections,
    Restart { end: usize, silently: bool },
}

fn op() -> impl Strategy<Value = Op> {
    let (link, end) = (|| 0..2usize, 0..2usize);
    prop_oneof![
        6 => (1..20u32, 1..100u64).prop_map(|(packets, interval_ms)| Op::Chat { packets, interval_ms }),
        4 => (1..3000u64).prop_map(|ms| Op::Wait { ms }),
        2 => (link(), any::<[bool; 2]>()).prop_map(|(link, passes)| Op::Pass { link, passes }),
        1 => (link(), 0..4u32).prop_map(|(link, one_in)| Op::Lose { link, one_in }),
        1 => (link(), 0..4u32).prop_map(|(link, one_in)| Op::Reorder { link, one_in }),
        1 => (link(), 0..4u32).prop_map(|(link, one_in)| Op::Duplicate { link, one_in }),
        1 => (link(), 1..2000u64).prop_map(|(link, ms)| Op::Stall { link, ms }),
        2 => any::<bool>().prop_map(|up| Op::Control { up }),
        1 => Just(Op::DropConnections),
        1 => (end, any::<bool>()).prop_map(|(end, silently)| Op::Restart { end, silently }),
    ]
}

fn apply(world: &mut World, op: Op, number: &mut u32) {
    match op {
        Op::Chat { packets, interval_ms } => {
            *number += chat(world, *number, ms(interval_ms), ms(interval_ms) * packets);
        }
        Op::Wait { ms: time } => world.run_for(ms(time)),
        Op::Pass { link, passes } => world.links[link].passes = passes,
        Op::Lose { link, one_in } => world.links[link].loss_one_in = one_in,
        Op::Reorder { link, one_in } => world.links[link].reorder_one_in = one_in,
        Op::Duplicate { link, one_in } => world.links[link].duplicate_one_in = one_in,
        Op::Stall { link, ms: time } => world.links[link].stalled_until = Some(world.now + ms(time)),
        Op::Control { up } => world.control_up = up,
        Op::DropConnections => world.drop_connections(),
        Op::Restart { end, silently: true } => world.restart_silently(end),
        Op::Restart { end, silently: false } => world.restart(end),
    }
}

/// Both ends seal with the same generation, soon, and keep doing so whenever it has changed.
fn expect_agreement(world: &mut World, number: &mut u32) {
    for round in 0..3 {
        let agreed = (0..100).any(|_| {
            *number += chat(world, *number, ms(30), ms(30));
            let [acceptor, dialer] = last_generations();
            acceptor == dialer
        });
        assert!(agreed, "round {round}: {:?}", last_generations());
        *number += chat(world, *number, ms(50), ms(1500));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is lost, late, twice or begun anew: no nonce is used twice with a key (the keys themselves look), and both
    /// ends come to have the same keys again.
    #[test]
    fn both_ends_agree_on_keys_whatever_happens(
        ops in prop::collection::vec(op(), 1..40),
        both_dial: bool,
        delay in 1..300u64,
    ) {
        // The courtesy is shorter than the way: so both begin at once again and again.
        let limits = KeyLimits { exchange_after: ms(1200), ..KeyLimits::default() };
        let mut world = world_with(vec![Link::new(delay), Link::new(20)], |setup| {
            setup.key_limits = limits;
            setup.can_dial = [true, both_dial];
        });
        let mut number = 0;
        for op in ops {
            apply(&mut world, op, &mut number);
        }
        world.links.iter_mut().for_each(Link::heal);
        world.control_up = true;
        world.run_for(Duration::from_secs(40));
        expect_agreement(&mut world, &mut number);
        block_control(&mut world);
        let before = [VAN, HQ].map(|end| world.status(end).key_exchanges);
        expect_agreement(&mut world, &mut number);
        number += chat(&mut world, number, ms(50), Duration::from_secs(5));
        for end in [VAN, HQ] {
            prop_assert!(world.status(end).key_exchanges >= before[end] + 3, "{number} packets");
        }
        let last = number - 1;
        world.run_for(Duration::from_secs(1));
        prop_assert!([VAN, HQ].into_iter().all(|end| world.numbers(end).contains(&last)));
    }
}
