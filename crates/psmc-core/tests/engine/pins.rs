//! Flows that are kept on one path.

use std::time::Duration;

use psmc_core::{PathError, SchedulerKind, TcpFlow};
use psmc_wire::PathId;

use crate::world::{HQ, Link, TCP, VAN, World, packet};

/// The port at which all flows end.
const PORT: u16 = 8080;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Keeps a flow from the van on a path for so long.
fn pin(world: &mut World, flow: u16, path: PathId, time: Duration) -> Result<(), PathError> {
    let (source, destination) = (([10, 77, 0, 2], flow).into(), ([10, 77, 0, 1], PORT).into());
    let (van, now) = (&mut world.ends[VAN], world.now);
    let mut peer = van.site.peer(van.peer).expect("the peer exists");
    peer.pin(TcpFlow { source, destination }, path, now + time, now)
}

/// Sends packets of these flows for so long, one of each per millisecond. Returns the inner bytes that each path has carried.
fn run(world: &mut World, next: &mut u32, flows: &[u16], time: Duration) -> Vec<u64> {
    let sent = |world: &World| -> Vec<_> {
        world.status(VAN).paths.iter().map(|path| path.counters.tx_bytes).collect()
    };
    let (before, end) = (sent(world), world.now + time);
    while world.now < end {
        for &flow in flows {
            world.send(VAN, &packet(VAN, TCP, flow, *next, 1000));
        }
        *next += 1;
        world.run_for(ms(1));
    }
    world.run_for(ms(500));
    sent(world).iter().zip(before).map(|(now, before)| now - before).collect()
}

/// What probes, acknowledgements and statistics take in a second.
const CONTROL_BYTES: u64 = 20_000;

#[test]
fn a_flow_stays_on_its_path_whatever_the_scheduler_says_and_others_do_not() {
    for scheduler in SchedulerKind::ALL {
        let mut world = World::connected(vec![Link::new(10), Link::new(30)], scheduler);
        let ids: Vec<_> = world.status(VAN).paths.iter().map(|path| path.id).collect();
        let mut next = 0;
        pin(&mut world, 7, ids[1], ms(10_000)).expect("the path is open");
        let carried = run(&mut world, &mut next, &[7], ms(1000));
        assert!(carried[0] < CONTROL_BYTES && carried[1] > 1_000_000, "{}: {carried:?}", scheduler.name());
        assert!(world.flow_numbers(HQ, 7).into_iter().eq(0..next), "{}", scheduler.name());
    }
    // Beside others, which are placed as ever: here by the shortest delay.
    let mut world = World::connected(vec![Link::new(10), Link::new(30)], SchedulerKind::Earliest);
    let ids: Vec<_> = world.status(VAN).paths.iter().map(|path| path.id).collect();
    let mut next = 0;
    pin(&mut world, 7, ids[1], ms(10_000)).expect("the path is open");
    let carried = run(&mut world, &mut next, &[7, 8], ms(1000));
    assert!(carried.iter().all(|bytes| *bytes > 1_000_000), "{carried:?}");
}

#[test]
fn a_path_on_standby_carries_the_flow_that_is_kept_on_it_and_only_that() {
    let mut world = World::connected(vec![Link::new(10), Link::new(30)], SchedulerKind::Earliest);
    let ids: Vec<_> = world.status(VAN).paths.iter().map(|path| path.id).collect();
    let now = world.now;
    world.ends[VAN].path(ids[0]).set_standby(true, now).expect("open");
    world.run_for(ms(200));
    let mut next = 0;
    let carried = run(&mut world, &mut next, &[7], ms(500));
    assert!(carried[0] < CONTROL_BYTES && carried[1] > 500_000, "{carried:?}");
    pin(&mut world, 7, ids[0], ms(10_000)).expect("the path is open");
    let carried = run(&mut world, &mut next, &[7], ms(500));
    assert!(carried[0] > 500_000 && carried[1] < CONTROL_BYTES, "{carried:?}");
    assert!(world.flow_numbers(HQ, 7).into_iter().eq(0..next), "nothing is lost");
}

#[test]
fn a_flow_goes_where_all_others_go_when_its_time_is_over_or_its_path_is_gone() {
    let mut world = World::connected(vec![Link::new(10), Link::new(30)], SchedulerKind::Earliest);
    let ids: Vec<_> = world.status(VAN).paths.iter().map(|path| path.id).collect();
    let mut next = 0;
    pin(&mut world, 7, ids[1], ms(400)).expect("the path is open");
    world.run_for(ms(500));
    let carried = run(&mut world, &mut next, &[7], ms(500));
    assert!(carried[0] > 500_000 && carried[1] < CONTROL_BYTES, "{carried:?}");

    pin(&mut world, 7, ids[1], ms(10_000)).expect("the path is open");
    run(&mut world, &mut next, &[7], ms(100));
    world.links[1].passes = [false; 2];
    run(&mut world, &mut next, &[7], ms(1000));
    let now = world.now;
    world.ends[VAN].path(ids[1]).remove(now).expect("open");
    run(&mut world, &mut next, &[7], ms(1000));
    assert!(world.flow_numbers(HQ, 7).into_iter().eq(0..next), "nothing is lost");
    world.run_for(ms(4000));
    assert_eq!(pin(&mut world, 7, ids[1], ms(100)), Err(PathError::Unknown));
}
