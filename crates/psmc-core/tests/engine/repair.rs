//! What arrives over paths that lose packets, and what that costs, in virtual time.

use std::time::Duration;

use psmc_core::{PathState, RepairKind, SchedulerKind};

use crate::world::{self, HQ, Link, Setup, TCP, UDP, VAN, World, packet};

/// One packet of this size each [`INTERVAL`] is 10 Mb/s.
const SIZE: usize = 1200;
const INTERVAL: Duration = Duration::from_micros(960);

/// Two uplinks that lose one datagram in fifty each.
fn lossy_uplinks() -> Vec<Link> {
    vec![Link::new(10).mbit(50).loss_one_in(50), Link::new(15).mbit(50).loss_one_in(50)]
}

fn setup(repair: RepairKind) -> Setup {
    Setup { repair, ..SchedulerKind::Earliest.into() }
}

fn carried_bytes(world: &World) -> f64 {
    world.links.iter().map(|link| link.carried_bytes[VAN]).sum::<u64>() as f64
}

/// Sends `count` packets of a flow of 10 Mb/s, and waits for the last of them. Returns which of them did not arrive,
/// and how many bytes the links had to carry for each byte.
fn stream(world: &mut World, protocol: u8, count: u32) -> (Vec<u32>, f64) {
    let before = carried_bytes(world);
    for number in 0..count {
        world.send(VAN, &packet(VAN, protocol, 1, number, SIZE));
        world.run_for(INTERVAL);
    }
    world.run_for(Duration::from_secs(1));
    let cost = (carried_bytes(world) - before) / (f64::from(count) * SIZE as f64);
    let mut arrived = world.flow_numbers(HQ, 1);
    let delivered = arrived.len();
    arrived.sort_unstable();
    arrived.dedup();
    assert_eq!(arrived.len(), delivered, "a packet is delivered once");
    let missing = (0..count).filter(|number| arrived.binary_search(number).is_err());
    (missing.collect(), cost)
}

#[test]
fn copies_on_two_paths_repair_losses_of_both() {
    for protocol in [UDP, TCP] {
        let mut world = World::connected(lossy_uplinks(), setup(RepairKind::Duplicate));
        let (missing, cost) = stream(&mut world, protocol, 20_000);
        println!("duplicate: {} of 20000 missing, {cost:.2} bytes for each", missing.len());
        // One packet in 2500 is lost on both.
        assert!(missing.len() < 20, "{missing:?}");
        assert!((1.9..2.2).contains(&cost), "{cost}");
        let repair = world.status(VAN).counters.repair;
        assert!(repair.tx_copies > 19_900, "{repair:?}");
        assert_eq!(repair.tx_copies + repair.dropped, 20_000);
    }
}

#[test]
fn repairs_make_good_the_losses_of_two_paths() {
    for protocol in [UDP, TCP] {
        let mut world = World::connected(lossy_uplinks(), setup(RepairKind::Fec));
        let (missing, cost) = stream(&mut world, protocol, 20_000);
        println!("fec: {} of 20000 missing, {cost:.2} bytes for each", missing.len());
        let repair = world.status(HQ).counters.repair;
        assert!(missing.len() < 20, "{missing:?} {repair:?}");
        assert!(cost < 1.4, "{cost}");
        assert!(repair.recovered > 250, "{repair:?}");
        assert!(protocol == UDP || world.flow_numbers(HQ, 1).is_sorted_by_key(|number| number / 64));
    }
}

/// What is sent again comes a round trip late, what is computed does not: of two paths that are hardly in use most of what is
/// lost is there at once.
#[test]
fn what_is_sent_again_has_repairs_too_while_there_is_room() {
    for (repair, link_mbit) in [(RepairKind::Auto, 50), (RepairKind::Resend, 50), (RepairKind::Auto, 5)] {
        let link = |delay| Link::new(delay).mbit(link_mbit).loss_one_in(50);
        let mut world = World::connected(vec![link(10), link(15)], setup(repair));
        let (missing, cost) = stream(&mut world, TCP, 20_000);
        let (sent, found) = (world.status(VAN).counters.repair, world.status(HQ).counters.repair);
        println!("{repair:?} over {link_mbit} Mb/s: {cost:.2} bytes for each, {sent:?} {found:?}");
        match (repair, link_mbit) {
            (RepairKind::Auto, 50) => {
                assert!(missing.is_empty(), "{missing:?}");
                assert!(found.recovered > 250, "{found:?}");
                assert!((1.1..1.5).contains(&cost), "{cost}");
            }
            // As much as both carry, less their headers: what waits is not to wait for repairs.
            (RepairKind::Auto, _) => assert!(sent.tx_repairs < 500, "{sent:?}"),
            _ => assert!(
                missing.is_empty() && sent.tx_repairs == 0 && cost < 1.1,
                "{sent:?} {cost} {missing:?}"
            ),
        }
    }
}

/// Sends small packets of UDP, one by one, and returns how long those that arrived took, the shortest first.
fn one_by_one(world: &mut World, count: u32) -> Vec<Duration> {
    let sent: Vec<_> = (0..count)
        .map(|number| {
            world.send(VAN, &packet(VAN, UDP, 1, number, 100));
            world.run_for(Duration::from_millis(20));
            world.now - Duration::from_millis(20)
        })
        .collect();
    world.run_for(Duration::from_secs(1));
    let took = |(at, packet): &(std::time::Instant, Vec<u8>)| *at - sent[world::number(packet) as usize];
    let mut delays: Vec<_> = world.ends[HQ].delivered.iter().map(took).collect();
    delays.sort_unstable();
    delays
}

/// One in a hundred is lost on both paths, and one in ten would come a round trip late.
#[test]
fn a_packet_alone_is_not_late_because_a_path_has_lost_it() {
    let links = vec![Link::new(10).mbit(50).loss_one_in(10), Link::new(15).mbit(50).loss_one_in(10)];
    let mut world = World::connected(links, setup(RepairKind::Auto));
    let delays = one_by_one(&mut world, 2000);
    let in_time = delays.iter().filter(|delay| **delay < Duration::from_millis(20)).count();
    println!("{in_time} of {} in time", delays.len());
    assert!(in_time > 1940, "{in_time} of {}", delays.len());
}

#[test]
fn a_packet_alone_has_no_copy_where_that_would_be_late_or_is_not_wished() {
    let near = || vec![Link::new(10).mbit(50), Link::new(15).mbit(50)];
    let far = || vec![Link::new(10).mbit(50), Link::new(60).mbit(50)];
    for (links, scheduler, repair, copies) in [
        (near(), SchedulerKind::Earliest, RepairKind::Auto, 450..=500),
        (far(), SchedulerKind::Earliest, RepairKind::Auto, 0..=10),
        (near(), SchedulerKind::Earliest, RepairKind::Resend, 0..=0),
        (near(), SchedulerKind::Flow, RepairKind::Auto, 0..=0),
        (near(), SchedulerKind::Backup, RepairKind::Auto, 0..=0),
    ] {
        let mut world = World::connected(links, Setup { repair, ..scheduler.into() });
        one_by_one(&mut world, 500);
        let found = world.status(VAN).counters.repair.tx_copies;
        assert!(copies.contains(&found), "{found} copies with {scheduler:?} and {repair:?}");
    }
}

/// Paths that lose nothing cost nothing more.
/// Sends a flow of 100 packets a second for so long, and returns the share of them that did not arrive.
fn trickle(world: &mut World, first: u32, seconds: u32) -> f64 {
    let before = world.flow_numbers(HQ, 1).len();
    for number in 0..100 * seconds {
        world.send(VAN, &packet(VAN, UDP, 1, first + number, 200));
        world.run_for(Duration::from_millis(10));
    }
    world.run_for(Duration::from_secs(1));
    1.0 - (world.flow_numbers(HQ, 1).len() - before) as f64 / f64::from(100 * seconds)
}

#[test]
fn repairs_do_not_keep_a_policer_full() {
    for (rate, alone) in [(500, 0.0), (80, 0.2)] {
        let mut world = World::connected(vec![Link::new(20)], setup(RepairKind::Auto));
        world.links[0].policed = Some(rate);
        // What makes repairs necessary, and then does not any more.
        world.links[0].loss_one_in = 3;
        trickle(&mut world, 0, 5);
        world.links[0].loss_one_in = 0;
        trickle(&mut world, 500, 5);
        let before = world.status(VAN).paths[0].counters;
        let lost = trickle(&mut world, 1000, 15);
        let after = world.status(VAN).paths[0].counters;
        let of_datagrams = (after.lost_packets - before.lost_packets) as f64
            / (after.acked_packets + after.lost_packets - before.acked_packets - before.lost_packets) as f64;
        println!("policer of {rate} datagrams/s: {lost:.3} of packets lost, {of_datagrams:.3} of datagrams");
        assert!(lost <= alone + 0.01, "{lost} lost behind {rate} datagrams/s");
        assert!(
            of_datagrams <= alone + 0.15,
            "{of_datagrams} of datagrams lost behind {rate} of them a second"
        );
    }
}

#[test]
fn what_a_third_of_is_lost_by_chance_is_still_repaired() {
    let mut world = World::connected(vec![Link::new(20)], setup(RepairKind::Auto));
    world.links[0].loss_one_in = 3;
    trickle(&mut world, 0, 10);
    let lost = trickle(&mut world, 1000, 30);
    println!("{lost:.4} lost of what a third of is lost");
    assert!(lost < 0.01, "{lost}");
}

#[test]
fn without_losses_there_are_no_repairs() {
    for protocol in [TCP, UDP] {
        let links = vec![Link::new(10).mbit(50), Link::new(15).mbit(50)];
        let mut world = World::connected(links, setup(RepairKind::Auto));
        stream(&mut world, protocol, 5000);
        let repair = world.status(VAN).counters.repair;
        assert_eq!((repair.tx_repairs, repair.tx_copies), (0, 0));
    }
}

/// A sender that the machine held up hands over what has come meanwhile at once.
#[test]
fn what_one_lost_datagram_takes_along_can_be_repaired_where_packets_come_in_bursts() {
    for burst in [3, 12] {
        let mut world = World::connected(lossy_uplinks(), setup(RepairKind::Fec));
        for number in 0..20_000 {
            world.send(VAN, &packet(VAN, UDP, 1, number, 200));
            if number % burst == 0 {
                world.run_for(Duration::from_millis(burst.into()));
            }
        }
        world.run_for(Duration::from_secs(1));
        let (arrived, repair) = (world.flow_numbers(HQ, 1).len(), world.status(HQ).counters.repair);
        println!("bursts of {burst}: {arrived} of 20000 arrived");
        assert!(arrived > 19_980, "bursts of {burst}: {arrived} {repair:?}");
    }
}

#[test]
fn repairs_make_good_the_losses_of_a_backlog_of_long_packets() {
    let mut world = World::connected(lossy_uplinks(), setup(RepairKind::Fec));
    let before = carried_bytes(&world);
    for number in 0..40_000 {
        world.send(VAN, &packet(VAN, UDP, 1 + (number % 3) as u16, number, 1400));
        world.run_for(Duration::from_micros(400));
    }
    world.run_for(Duration::from_secs(1));
    let (sent, repair) = (world.status(VAN).counters.repair, world.status(HQ).counters.repair);
    let arrived = world.ends[HQ].delivered.len();
    let cost = (carried_bytes(&world) - before) / (40_000.0 * 1400.0);
    println!("fec: {arrived} of 40000 arrived, {cost:.2} bytes for each");
    assert!(arrived > 39_960, "{arrived} {repair:?}");
    assert!(cost < 1.2, "{cost} {sent:?}");
}

#[test]
fn repairs_help_on_the_only_path_and_those_of_a_thin_stream_come_soon() {
    let mut world = World::connected(vec![Link::new(20).mbit(50).loss_one_in(50)], setup(RepairKind::Fec));
    let mut sent = Vec::new();
    for number in 0..3000 {
        sent.push(world.now);
        world.send(VAN, &packet(VAN, UDP, 1, number, 200));
        world.run_for(Duration::from_millis(20));
    }
    world.run_for(Duration::from_secs(1));
    let delivered = &world.ends[HQ].delivered;
    assert!(delivered.len() > 2993, "{}", delivered.len());
    let latest = delivered.iter().map(|(at, packet)| *at - sent[world::number(packet) as usize]).max();
    assert!(latest < Some(Duration::from_millis(32)), "{latest:?}");
}

#[test]
fn without_repair_losses_stay() {
    let mut world = World::connected(lossy_uplinks(), setup(RepairKind::Off));
    let (missing, cost) = stream(&mut world, UDP, 20_000);
    assert!((300..500).contains(&missing.len()), "{}", missing.len());
    assert!(cost < 1.1, "{cost}");
}

#[test]
fn nothing_is_copied_onto_the_only_path() {
    let mut world = World::connected(vec![Link::new(10).mbit(50)], setup(RepairKind::Duplicate));
    let (missing, cost) = stream(&mut world, UDP, 2000);
    assert!(missing.is_empty());
    assert!(cost < 1.1, "{cost}");
    assert_eq!(world.status(VAN).counters.repair.tx_copies, 0);
}

#[test]
fn copies_that_find_no_room_are_dropped_and_hold_nothing_up() {
    // The second path takes a tenth of the copies.
    let links = vec![Link::new(10).mbit(50), Link::new(10).mbit(1)];
    let mut world = World::connected(links, setup(RepairKind::Duplicate));
    let mut copied = 0;
    for number in 0..5000 {
        // Its queue may drop all that is on its way. Then it falls silent, and nothing is copied onto a suspect.
        let is_active = |path: &psmc_core::PathStatus| path.state == PathState::Active;
        copied += u64::from(world.status(VAN).paths.iter().all(is_active));
        world.send(VAN, &packet(VAN, UDP, 1, number, SIZE));
        world.run_for(INTERVAL);
    }
    world.run_for(Duration::from_secs(1));
    let repair = world.status(VAN).counters.repair;
    assert!(world.flow_numbers(HQ, 1).into_iter().eq(0..5000));
    assert!(copied > 4900 && repair.dropped > 3000 && repair.tx_copies > 100, "{copied} {repair:?}");
    assert_eq!(repair.tx_copies + repair.dropped, copied);
}

/// What a silent path has not delivered goes to another one; what repairs it has left before.
#[test]
fn what_is_sent_again_is_repaired_by_what_left_the_first_time() {
    for repair in [RepairKind::Duplicate, RepairKind::Fec] {
        let links = [10, 10, 15].map(|delay| Link::new(delay).mbit(50)).into();
        let mut world = World::connected(links, setup(repair));
        for number in 0..4000 {
            world.links[0].passes = [!(300..600).contains(&(number % 1000)); 2];
            world.send(VAN, &packet(VAN, UDP, 1, number, SIZE));
            world.run_for(INTERVAL);
        }
        world.run_for(Duration::from_secs(1));
        let status = world.status(VAN);
        let rescued = status.paths.iter().map(|path| path.counters.resent_packets).sum::<u64>();
        let repair = status.counters.repair;
        assert!(rescued > 20, "{rescued}");
        assert_eq!(world.flow_numbers(HQ, 1).len(), 4000, "{repair:?}");
        assert!(repair.tx_copies + repair.dropped <= 4000 && repair.tx_repairs <= 1000, "{repair:?}");
    }
}

#[test]
fn a_class_is_repaired_in_its_own_way() {
    for repair in [RepairKind::Duplicate, RepairKind::Off] {
        let classes = || {
            let mut classes = psmc_core::ClassConfig::defaults();
            classes[0].repair = Some(repair);
            classes
        };
        let mut world = World::connected_with(lossy_uplinks(), setup(RepairKind::Auto), classes());
        for number in 0..1000 {
            let mut voice = packet(VAN, UDP, 2, number, 200);
            // Expedited forwarding, in the upper six bits.
            voice[1] |= 46 << 2;
            world.send(VAN, &voice);
            world.send(VAN, &packet(VAN, UDP, 1, number, 200));
            world.run_for(Duration::from_millis(1));
        }
        world.run_for(Duration::from_secs(1));
        assert_eq!(world.flow_numbers(HQ, 1).len(), 1000, "best effort is sent again");
        let voice = world.flow_numbers(HQ, 2).len();
        let copies = world.status(VAN).counters.repair.tx_copies;
        match repair {
            RepairKind::Duplicate => assert!(voice > 995 && copies > 990, "{voice} calls, {copies} copies"),
            RepairKind::Auto | RepairKind::Resend | RepairKind::Fec | RepairKind::Off => {
                // The first of the other flow is alone.
                assert!(voice < 995 && copies <= 1, "{voice} calls, {copies} copies")
            }
        }
    }
}
