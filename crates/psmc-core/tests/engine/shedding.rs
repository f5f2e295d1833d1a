//! What a site drops for the peer to whom it goes, because that has asked.

use std::time::Duration;

use psmc_core::{PathState, SchedulerKind, ShedError};
use psmc_wire::shed::{Outcome, Packets, Rule, Verdict, What};

use crate::world::{HQ, Link, TCP, UDP, VAN, World, packet};

/// Rounds of ten packets each, 10 ms apart.
const ROUNDS: u32 = 100;

fn world() -> World {
    let mut world = World::connected(vec![Link::new(10)], SchedulerKind::Wrr);
    world.run_for(Duration::from_millis(200));
    assert!(world.path_states(VAN).values().all(|&state| state == PathState::Active));
    world
}

/// What goes to an address in UDP.
fn udp_to(destination: &str, rate: Option<u64>) -> Rule {
    let destination = destination.parse().expect("a prefix");
    Rule {
        what: What::Packets(Packets { destination, source: None, protocol: Some(UDP), ports: None }),
        rate,
    }
}

fn ask(world: &mut World, rules: Vec<Rule>, serial: u64) -> Result<(), ShedError> {
    let end = &mut world.ends[HQ];
    end.site.shed(end.peer, rules, serial, 10_000)?;
    world.settle();
    world.run_for(Duration::from_millis(50));
    Ok(())
}

/// What the van has answered: what became of the question, and of each rule, with the bytes offered and dropped.
fn answer(world: &World) -> (Outcome, Vec<(Verdict, u64, u64)>) {
    let end = &world.ends[HQ];
    let answer = end.site.shedding(end.peer).expect("an answer");
    let rules = answer.rules.iter().map(|told| (told.verdict, told.offered, told.dropped));
    (answer.outcome, rules.collect())
}

/// How many packets of a protocol arrive at headquarters of those that the van sends.
fn arriving(world: &mut World, protocol: u8) -> usize {
    let before = world.ends[HQ].delivered.len();
    for round in 0..ROUNDS {
        for number in 0..10 {
            world.send(VAN, &packet(VAN, protocol, 1, round * 10 + number, 500));
        }
        world.run_for(Duration::from_millis(10));
    }
    world.run_for(Duration::from_millis(500));
    world.ends[HQ].delivered.len() - before
}

#[test]
fn a_flood_is_dropped_where_it_enters_and_nothing_else() {
    let mut world = world();
    assert_eq!(arriving(&mut world, UDP), 1000);
    ask(&mut world, vec![udp_to("10.77.0.1/32", Some(50_000))], 1).unwrap();
    assert_eq!(answer(&world), (Outcome::Taken, vec![(Verdict::Taken, 0, 0)]));
    let passed = arriving(&mut world, UDP);
    // A hundred a second, and a burst of 16 KiB.
    assert!((100..=140).contains(&passed), "{passed} of 1000");
    assert_eq!(arriving(&mut world, TCP), 1000, "nothing was said of it");
    let dropped = 1000 - u64::try_from(passed).unwrap();
    assert_eq!(world.status(VAN).counters.shed, dropped);
    ask(&mut world, vec![], 0).unwrap();
    assert_eq!(answer(&world), (Outcome::Told, vec![(Verdict::Taken, 500_000, dropped * 500)]));
    // Nobody asks again.
    world.run_for(Duration::from_secs(11));
    assert_eq!(arriving(&mut world, UDP), 1000);
}

#[test]
fn a_peer_speaks_only_for_its_own_addresses() {
    let mut world = world();
    let datagrams = Rule { what: What::Datagrams(None), rate: Some(0) };
    let rules = vec![udp_to("10.77.0.2/32", Some(0)), udp_to("0.0.0.0/0", Some(0)), datagrams];
    ask(&mut world, rules, 1).unwrap();
    assert_eq!(answer(&world), (Outcome::Taken, vec![(Verdict::Foreign, 0, 0); 3]));
    assert_eq!(arriving(&mut world, UDP), 1000);
    let many = (0..64).map(|number| udp_to("10.77.0.1/32", Some(number))).collect();
    ask(&mut world, many, 2).unwrap();
    assert_eq!(answer(&world), (Outcome::TooMany, vec![]));
    ask(&mut world, vec![udp_to("10.77.0.1/32", Some(0))], 1).unwrap();
    assert_eq!(answer(&world), (Outcome::Replayed, vec![]));
    let counts = world.status(VAN).shed;
    assert_eq!((counts.taken, counts.foreign, counts.too_many, counts.replayed), (1, 3, 1, 1));
    assert_eq!(arriving(&mut world, UDP), 1000);
}

#[test]
fn rules_outlive_connections_but_not_their_time() {
    let mut world = world();
    ask(&mut world, vec![udp_to("10.77.0.1/32", Some(0))], 1).unwrap();
    world.control_up = false;
    world.drop_connections();
    world.settle();
    let end = &mut world.ends[HQ];
    assert_eq!(end.site.shed(end.peer, vec![], 2, 1000), Err(ShedError::NotConnected));
    assert_eq!(arriving(&mut world, UDP), 0);
    world.run_for(Duration::from_secs(10));
    assert_eq!(arriving(&mut world, UDP), 1000);
}
