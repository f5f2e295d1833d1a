//! Flows that heed no loss: what a session finds out from acknowledgements and its own drops.

use std::time::Duration;

use psmc_core::SchedulerKind;
use psmc_core::police::{AggregateStatus, PoliceConfig};

use crate::world::{HQ, Link, TCP, UDP, VAN, World, packet};

/// Packets of 1,000 bytes in a second: 8 Mb/s, four times what the link carries.
const EACH: Duration = Duration::from_millis(1);

fn world(police: Option<PoliceConfig>) -> World {
    let mut world = World::connected(vec![Link::new(10).mbit(2)], SchedulerKind::Earliest);
    world.ends[VAN].site.set_police(police);
    world
}

fn aggregates(world: &World) -> Vec<AggregateStatus> {
    world.ends[VAN].site.aggregates(world.ends[VAN].peer)
}

/// UDP on one flow, and TCP at a fifth of its rate, whatever arrives of both.
fn offer(world: &mut World, packets: u32) {
    for number in 0..packets {
        world.send(VAN, &packet(VAN, UDP, 1, number, 1000));
        if number % 20 == 0 {
            world.send(VAN, &packet(VAN, TCP, 2, number, 1000));
        }
        world.run_for(EACH);
    }
}

#[test]
fn what_heeds_no_loss_is_held_to_what_arrives_and_each_packet_is_accounted_for() {
    let mut world = world(Some(PoliceConfig::default()));
    offer(&mut world, 6000);
    let found = aggregates(&world);
    let [flow] = &found[..] else { panic!("{found:?}") };
    assert_eq!(flow.aggregate.to_string(), "udp from 10.77.0.2/32, one flow");
    let limit = flow.limit.expect("it is held down").rate;
    assert!((1_000_000..2_000_000).contains(&limit), "{limit}");
    let dropped_before = world.status(VAN).queue_drops;
    offer(&mut world, 4000);
    let held_back = world.status(VAN).counters.unresponsive;
    let dropped = world.status(VAN).queue_drops - dropped_before;
    println!("{held_back} held back, {dropped} still dropped in 4 s");
    assert!(held_back > 4000 && dropped < 400, "{held_back} {dropped}");
    world.run_for(Duration::from_millis(1500));
    let counts = aggregates(&world)[0].counts;
    assert_eq!(counts.offered, counts.held_back + counts.delivered + counts.dropped, "{counts:?}");
    assert!(world.flow_numbers(HQ, 1).len() as u64 * 1000 >= counts.delivered);
}

#[test]
fn it_is_let_go_when_it_ends_and_forgotten_when_nothing_is_lost() {
    let mut world = world(Some(PoliceConfig::default()));
    offer(&mut world, 6000);
    assert!(aggregates(&world)[0].limit.is_some());
    world.run_for(Duration::from_secs(10));
    assert!(aggregates(&world).iter().all(|flow| flow.limit.is_none()), "{:?}", aggregates(&world));
    world.run_for(Duration::from_secs(60));
    assert_eq!(aggregates(&world), []);
}

#[test]
fn nothing_is_held_back_where_it_is_off() {
    let mut world = world(None);
    offer(&mut world, 5000);
    assert_eq!((aggregates(&world), world.status(VAN).counters.unresponsive), (vec![], 0));
    // Switched on while it runs, and off.
    world.ends[VAN].site.set_police(Some(PoliceConfig::default()));
    offer(&mut world, 6000);
    assert!(aggregates(&world).iter().any(|flow| flow.limit.is_some()), "{:?}", aggregates(&world));
    world.ends[VAN].site.set_police(None);
    let before = world.status(VAN).counters.unresponsive;
    offer(&mut world, 500);
    assert_eq!((aggregates(&world), world.status(VAN).counters.unresponsive), (vec![], before));
}
