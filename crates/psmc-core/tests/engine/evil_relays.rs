//! An evil relay beside an honest one: whatever it does with what it should hand on, it costs no more than one that drops.

use std::time::{Duration, Instant};

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use psmc_core::{PathState, SchedulerKind};

use crate::world::{Evil, HQ, Link, Setup, TCP, Trick, VAN, World, number, packet};

/// Where the evil relay stands; the honest one stands in the other link.
const EVIL: usize = 0;
const HONEST: usize = 1;

/// Packets each way, one each millisecond.
const PACKETS: u32 = 1500;

/// The longest that the evil relay holds up a datagram: longer than any gap is waited for.
const MAX_DELAY_MS: u16 = 800;

/// No packet is later than what the relay held up longest and this. The honest path has a rate to spare, and carries what
/// the evil one makes away with as soon as that is noticed; a relay that drops costs 80 ms by the same measure.
const SPARE_MS: u16 = 200;

/// What a gap is not waited for any longer comes behind what is newer, as after losses that are noticed late.
const MAX_OVERTAKEN: usize = PACKETS as usize / 20;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn trick() -> impl Strategy<Value = Trick> {
    prop_oneof![
        Just(Trick::Drop),
        (1..MAX_DELAY_MS).prop_map(Trick::DelayMs),
        Just(Trick::Duplicate),
        any::<u16>().prop_map(Trick::Flip),
        (0u16..1200).prop_map(Trick::Truncate),
        Just(Trick::Reflect),
        any::<u16>().prop_map(Trick::Repeat),
        Just(Trick::Feign),
        Just(Trick::Forge),
        Just(Trick::Misplace),
    ]
}

/// Tricks, and to how many datagrams each: to one in so many.
fn tricks() -> impl Strategy<Value = Vec<(Trick, u32)>> {
    prop::collection::vec((trick(), prop_oneof![Just(1u32), 2..5u32, 5..50u32]), 1..5)
}

/// Two sites with a path through each of the relays. Numbered packets go both ways, and `tricks` begin after a while. Returns
/// the world when all has settled, and how late the latest packet of each end was.
fn life(tricks: Vec<(Trick, u32)>, seed: u64, hidden: bool) -> (World, [Duration; 2]) {
    let setup = Setup { hq_is_hidden: hidden, ..Setup::from(SchedulerKind::Earliest) };
    let mut world = World::new(Vec::new(), setup);
    world.links = vec![Link::new(10).mbit(30), Link::new(15).mbit(30)];
    for link in [EVIL, HONEST] {
        world.stand_relay(link);
        let path = world.add_relayed_path(link);
        if hidden {
            world.register(link);
            world.lead_path_to_gateway(path, link);
        } else {
            world.lead_path(path, link);
        }
    }
    world.run_for(ms(1000));
    let mut sent = Vec::new();
    for number in 0..PACKETS {
        if number == PACKETS / 5 {
            world.evils.insert(EVIL, Evil::new(tricks.clone(), seed));
        }
        sent.push(world.now);
        for end in [VAN, HQ] {
            world.send(end, &packet(end, TCP, 1, number, 1000));
        }
        world.run_for(ms(1));
    }
    world.run_for(ms(3000));
    let latest = [VAN, HQ].map(|end| {
        let late = |(at, packet): &(Instant, Vec<u8>)| *at - sent[number(packet) as usize];
        world.ends[end].delivered.iter().map(late).max().unwrap_or_default()
    });
    (world, latest)
}

fn check(tricks: Vec<(Trick, u32)>, seed: u64, hidden: bool) -> Result<(), TestCaseError> {
    let (world, latest) = life(tricks, seed, hidden);
    for end in [VAN, HQ] {
        // All that was sent, nothing else, nothing twice, and not a bit of it changed.
        let numbers = world.numbers(end);
        let overtaken = numbers.windows(2).filter(|pair| pair[1] < pair[0]).count();
        let mut got = world.packets(end);
        got.sort_by_key(|packet| number(packet));
        let missing: Vec<_> = (0..PACKETS).filter(|number| !numbers.contains(number)).collect();
        prop_assert_eq!((missing, numbers.len()), (vec![], PACKETS as usize));
        prop_assert!(got.into_iter().eq((0..PACKETS).map(|number| packet(1 - end, TCP, 1, number, 1000))));
        prop_assert!(overtaken <= MAX_OVERTAKEN, "{overtaken} behind later ones");
        let paths = world.status(end).paths;
        prop_assert_eq!(paths.len(), 2, "a path that nobody has opened");
        prop_assert_eq!(paths[HONEST].state, PathState::Active);
    }
    prop_assert!(
        latest.into_iter().all(|latest| latest <= ms(u64::from(MAX_DELAY_MS + SPARE_MS))),
        "{:?}",
        latest
    );
    Ok(())
}

/// The same cases each time, so that what fails is what was changed; `PROPTEST_RNG_SEED` asks for others.
fn config() -> ProptestConfig {
    let usual = ProptestConfig::default();
    let rng_seed = if usual.rng_seed == RngSeed::Random { RngSeed::Fixed(1) } else { usual.rng_seed };
    ProptestConfig { cases: 64, failure_persistence: None, rng_seed, ..usual }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn an_evil_relay_costs_what_one_costs_that_drops(tricks in tricks(), seed: u64, hidden: bool) {
        check(tricks, seed, hidden)?;
    }
}

/// The measure of the property: a relay that drops all of a sudden, or some.
#[test]
fn a_relay_that_drops_costs_a_moment() {
    for one_in in [1, 2, 10] {
        let (_, latest) = life(vec![(Trick::Drop, one_in)], 7, false);
        println!("one in {one_in} dropped: the latest packets are {latest:.0?} late");
        assert!(
            latest.into_iter().all(|latest| latest <= ms(SPARE_MS.into())),
            "one in {one_in}: {latest:?}"
        );
    }
}

/// The model once let it hand on eight datagrams for each by the link of the honest relay, and fill that.
#[test]
fn regression_a_relay_that_repeats_and_reflects_costs_no_packet() {
    let tricks =
        vec![(Trick::Repeat(1838), 1), (Trick::Reflect, 1), (Trick::Misplace, 1), (Trick::Reflect, 1)];
    check(tricks, 0, false).unwrap();
}
