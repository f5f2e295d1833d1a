//! Explicit congestion notification of the datagrams on paths: bottlenecks that mark, and networks that spoil marks.

use std::time::Duration;

use psmc_core::{CongestionConfig, EcnState, EcnStatus, PathState, SchedulerKind};

use crate::world::{EcnTreatment, HQ, Link, Setup, TCP, UDP, VAN, World, packet};

const SIZE: usize = 1400;

/// Packets of 1400 bytes at 45 Mb/s: about twice what the links of this file carry.
const INTERVAL: Duration = Duration::from_micros(250);

/// How long a queue is when it begins to mark.
const MARKED: Duration = Duration::from_millis(10);

/// A link of 20 Mb/s whose queue holds 100 ms.
fn link() -> Link {
    Link::new(10).mbit(20)
}

fn setup(congestion: CongestionConfig) -> Setup {
    Setup { congestion, ..Setup::from(SchedulerKind::Earliest) }
}

/// A world in which the van's paths have this controller.
fn connected(link: Link, congestion: CongestionConfig) -> World {
    World::connected(vec![link], setup(congestion))
}

/// Sends so many packets, one per `interval`.
fn offer(world: &mut World, count: u32, interval: Duration) {
    for number in 0..count {
        world.send(VAN, &packet(VAN, TCP, 1, number, SIZE));
        world.run_for(interval);
    }
}

fn ecn(world: &World, end: usize) -> EcnStatus {
    world.status(end).paths[0].ecn
}

#[test]
fn a_bottleneck_that_marks_keeps_its_queue_short_and_loses_nothing() {
    for congestion in [CongestionConfig::Model, CongestionConfig::Cubic] {
        let marking = link().marks_beyond(MARKED);
        let mut world = connected(marking, congestion);
        offer(&mut world, 40_000, INTERVAL);
        let (link, status) = (&world.links[0], ecn(&world, VAN));
        assert_eq!(link.dropped, 0, "{congestion:?}");
        assert_eq!(status.state, EcnState::Capable, "{congestion:?}");
        assert!(status.marked_packets > 0, "{congestion:?}");
        assert!(link.longest_wait < Duration::from_millis(60), "{congestion:?}: {:?}", link.longest_wait);
        let carried = link.carried_bytes[VAN] as f64 * 8.0 / 10.0;
        assert!(carried > 0.85 * 20e6, "{congestion:?}: {carried} bit/s");
    }
}

#[test]
fn cubic_fills_the_queue_of_a_bottleneck_that_does_not_mark() {
    // What the test above would be without marks.
    let mut world = connected(link(), CongestionConfig::Cubic);
    offer(&mut world, 40_000, INTERVAL);
    assert!(world.links[0].dropped > 0);
    assert_eq!(ecn(&world, VAN), EcnStatus { marked_packets: 0, ..ecn(&world, VAN) });
}

#[test]
fn a_network_that_spoils_marks_is_left_alone_within_some_round_trips() {
    for treatment in [EcnTreatment::Bleaches, EcnTreatment::Drops, EcnTreatment::MarksAll] {
        let mut world = connected(link().ecn(treatment), CongestionConfig::Model);
        // Ten round trips, in which the link is used by half.
        offer(&mut world, 200, 4 * INTERVAL);
        assert_eq!(ecn(&world, VAN).state, EcnState::Failed, "{treatment:?}");
        let dropped = world.links[0].dropped;
        assert!(dropped <= 10, "{treatment:?}: {dropped} datagrams lost");
        offer(&mut world, 400, 4 * INTERVAL);
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.links[0].dropped, dropped, "{treatment:?}: nothing more is lost");
        assert_eq!(world.numbers(HQ).len(), 600, "{treatment:?}: everything has arrived");
    }
}

#[test]
fn a_path_that_falls_silent_by_what_it_is_tried_with_is_not_tried_for_ever() {
    let mut world = connected(link().ecn(EcnTreatment::Drops), CongestionConfig::Model);
    // So few at once that nothing unmarked follows them.
    for number in 0..8 {
        world.send(VAN, &packet(VAN, TCP, 1, number, 500));
        world.run_for(Duration::from_secs(1));
    }
    assert_eq!(ecn(&world, VAN).state, EcnState::Failed);
    assert!(world.links[0].dropped <= 4, "{} datagrams lost", world.links[0].dropped);
    assert_eq!(world.numbers(HQ).len(), 8);
}

#[test]
fn a_network_that_begins_to_drop_marks_is_noticed_by_its_silence() {
    let mut world = connected(link(), CongestionConfig::Model);
    offer(&mut world, 200, 4 * INTERVAL);
    assert_eq!(ecn(&world, VAN).state, EcnState::Capable);
    world.links[0].ecn = EcnTreatment::Drops;
    offer(&mut world, 2000, 4 * INTERVAL);
    world.run_for(Duration::from_secs(1));
    assert_eq!(ecn(&world, VAN).state, EcnState::Failed);
    assert_eq!(world.path_states(VAN)["link0"], PathState::Active);
}

#[test]
fn a_path_is_tried_again_on_another_network() {
    let mut world = connected(link().ecn(EcnTreatment::Bleaches), CongestionConfig::Model);
    offer(&mut world, 200, 4 * INTERVAL);
    assert_eq!(ecn(&world, VAN).state, EcnState::Failed);
    world.links[0].ecn = EcnTreatment::Passes;
    // Long enough for the path to be given up.
    world.links[0].cut();
    offer(&mut world, 5000, 4 * INTERVAL);
    world.links[0].restore();
    world.run_for(Duration::from_secs(2));
    offer(&mut world, 200, 4 * INTERVAL);
    assert_eq!(ecn(&world, VAN).state, EcnState::Capable);
}

#[test]
fn whoever_only_acknowledges_risks_nothing() {
    let mut world = connected(link(), CongestionConfig::Model);
    for number in 0..1000 {
        world.send(VAN, &packet(VAN, UDP, 1, number, SIZE));
        world.run_for(4 * INTERVAL);
    }
    assert_eq!(ecn(&world, VAN).state, EcnState::Capable);
    assert_eq!(ecn(&world, HQ), EcnStatus::default());
}
