//! Round trips that are measured on request.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_core::{Event, PathState, SchedulerKind};
use psmc_wire::PathId;

use crate::world::{Link, TCP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Has the van measure all its paths, under this number. Says of each whether anything left.
fn measure(world: &mut World, number: u64) -> Vec<bool> {
    let ids: Vec<_> = world.status(VAN).paths.iter().map(|path| path.id).collect();
    let van = &mut world.ends[VAN];
    ids.into_iter().map(|id| van.path(id).measure(number)).collect()
}

/// What was measured under a number, by path.
fn measured(world: &World, number: u64) -> BTreeMap<PathId, Duration> {
    let measured = world.ends[VAN].events.iter().filter_map(|event| {
        let Event::Measured { path, number: of, round_trip, .. } = event else { return None };
        (*of == number).then_some((*path, *round_trip))
    });
    measured.collect()
}

#[test]
fn each_path_is_measured_whatever_it_is_used_for() {
    let mut world = World::connected(vec![Link::new(10), Link::new(35)], SchedulerKind::Earliest);
    let ids: Vec<_> = world.status(VAN).paths.iter().map(|path| path.id).collect();
    let now = world.now;
    world.ends[VAN].path(ids[1]).set_standby(true, now).expect("open");
    world.run_for(ms(200));
    assert_eq!(measure(&mut world, 7), [true, true]);
    world.run_for(ms(200));
    assert_eq!(measured(&world, 7), BTreeMap::from([(ids[0], ms(20)), (ids[1], ms(70))]));
}

/// Many at a time neither end each other nor tell the path anything.
#[test]
fn measuring_often_changes_nothing_of_the_path() {
    let mut world = World::connected(vec![Link::new(300)], SchedulerKind::Earliest);
    world.run_for(ms(2000));
    for number in 0..40 {
        measure(&mut world, number);
        world.run_for(ms(10));
    }
    world.run_for(ms(1000));
    for number in 0..40 {
        assert_eq!(measured(&world, number).into_values().collect::<Vec<_>>(), [ms(600)], "number {number}");
    }
    assert_eq!(world.status(VAN).paths[0].state, PathState::Active);
}

#[test]
fn a_measurement_does_not_wait_for_the_data_that_waits() {
    let mut world = World::connected(vec![Link::new(10)], SchedulerKind::Earliest);
    world.links[0].rate = Some(10_000_000);
    for number in 0..4000 {
        world.send(VAN, &packet(VAN, TCP, 1, number, 1000));
    }
    world.run_for(ms(100));
    measure(&mut world, 1);
    world.run_for(ms(500));
    let round_trip = measured(&world, 1).into_values().next().expect("an answer, before the data has left");
    assert!(world.status(VAN).queued_packets > 0, "the data has not left");
    assert!(round_trip >= ms(20) && round_trip < ms(250), "{round_trip:?}");
}

#[test]
fn a_path_that_loses_the_challenge_or_the_answer_has_no_round_trip() {
    for passes in [[false, true], [true, false]] {
        let mut world = World::connected(vec![Link::new(10), Link::new(20)], SchedulerKind::Earliest);
        world.links[1].passes = passes;
        world.run_for(ms(100));
        assert_eq!(measure(&mut world, 1), [true, true]);
        world.run_for(ms(500));
        assert_eq!(measured(&world, 1).into_values().collect::<Vec<_>>(), [ms(20)]);
        world.links[1].passes = [true; 2];
        world.run_for(ms(2000));
        assert_eq!(measured(&world, 1).len(), 1, "what was lost is not answered later");
    }
}

#[test]
fn nothing_leaves_by_a_link_that_is_down() {
    let mut world = World::connected(vec![Link::new(10), Link::new(20)], SchedulerKind::Earliest);
    let (now, socket) = (world.now, world.status(VAN).paths[1].address.socket);
    world.ends[VAN].site.handle_link(socket, false, now);
    assert_eq!(measure(&mut world, 1), [true, false]);
    world.run_for(ms(100));
    assert_eq!(measured(&world, 1).len(), 1);
}
