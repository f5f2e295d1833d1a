//! Batches that the kernel is to cut, on paths on which such packets vanish.

use std::time::Duration;

use psmc_core::{Event, SchedulerKind};

use crate::world::{HQ, Link, TCP, VAN, World, packet};

/// Bytes of an inner packet.
const INNER: usize = 1400;

/// Makes hosts send as much as they would over a link of 40 Mb/s, a burst each 5 ms, for so many seconds. Returns what arrived
/// in the last one of them, in Mb/s.
fn burst(world: &mut World, seconds: u32, next: &mut u32) -> f64 {
    let mut before = 0;
    for turn in 0..200 * seconds {
        if turn == 200 * (seconds - 1) {
            before = world.ends[HQ].delivered.len();
        }
        for _ in 0..18 {
            world.send(VAN, &packet(VAN, TCP, 1, *next, INNER));
            *next += 1;
        }
        world.run_for(Duration::from_millis(5));
    }
    ((world.ends[HQ].delivered.len() - before) * INNER * 8) as f64 / 1e6
}

fn told(world: &World) -> usize {
    world.ends[VAN].events.iter().filter(|event| matches!(event, Event::BatchesLost { .. })).count()
}

#[test]
fn where_batches_vanish_datagrams_leave_one_by_one_and_batches_are_tried_again() {
    for paths in 1..=2 {
        let links = (0..paths).map(|n| Link::new(10 + 10 * n).mbit(50)).collect();
        let mut world = World::connected(links, SchedulerKind::Earliest);
        let mut next = 0;
        burst(&mut world, 1, &mut next);
        assert!(world.links[0].batches > 0, "there are batches to lose");
        world.links[0].loses_batches = true;
        let rate = burst(&mut world, 3, &mut next);
        assert!(rate >= 30.0, "{paths} paths: {rate:.1} Mb/s");
        assert_eq!(told(&world), 1, "{paths} paths");
        let lost = world.links[0].batches;
        burst(&mut world, 1, &mut next);
        assert_eq!(world.links[0].batches, lost, "{paths} paths: none is risked for a while");

        world.run_for(Duration::from_secs(60));
        let rate = burst(&mut world, 2, &mut next);
        assert!((lost..=lost + 2).contains(&world.links[0].batches), "{paths} paths: one was tried");
        assert!(rate >= 30.0, "{paths} paths: {rate:.1} Mb/s after it");
        world.links[0].loses_batches = false;
        world.run_for(Duration::from_secs(120));
        burst(&mut world, 2, &mut next);
        assert!(world.links[0].batches > lost + 10, "{paths} paths: they arrive again");
        assert_eq!(told(&world), 1, "{paths} paths: it is said once");
    }
}

#[test]
fn an_outage_leaves_batches_alone() {
    let mut world = World::connected(vec![Link::new(10).mbit(50)], SchedulerKind::Earliest);
    let mut next = 0;
    for _ in 0..5 {
        burst(&mut world, 1, &mut next);
        world.links[0].passes = [false; 2];
        for _ in 0..40 {
            (0..18).for_each(|i| world.send(VAN, &packet(VAN, TCP, 2, i, INNER)));
            world.run_for(Duration::from_millis(5));
        }
        world.links[0].passes = [true; 2];
    }
    burst(&mut world, 1, &mut next);
    assert_eq!(told(&world), 0);
}
