//! Records of flows beside what sessions count.

use std::time::Duration;

use psmc_core::{FlowConfig, FlowRecord, ReorderPolicy, RepairKind, SchedulerKind, SessionCounters};

use crate::world::{HQ, Link, Setup, TCP, UDP, VAN, World, packet};

const CONFIG: FlowConfig =
    FlowConfig { active_timeout: Duration::from_secs(2), idle_timeout: Duration::from_secs(1) };

fn exporting(world: &mut World) {
    world.ends.iter_mut().for_each(|end| end.site.set_flows(Some(CONFIG)));
}

/// Sends packets of thirteen flows both ways and takes records meanwhile: those of both ends.
fn carry(world: &mut World, count: u32, interval: Duration) -> [Vec<FlowRecord>; 2] {
    let mut records = [Vec::new(), Vec::new()];
    let mut take = |world: &mut World| {
        for (end, records) in world.ends.iter_mut().zip(&mut records) {
            records.extend(end.site.take_flows(world.now));
        }
    };
    for number in 0..count {
        let flow = u16::try_from(number % 13).expect("few");
        let protocol = if flow % 3 == 0 { UDP } else { TCP };
        world.send(VAN, &packet(VAN, protocol, flow, number, 200 + number as usize % 1100));
        world.send(HQ, &packet(HQ, TCP, flow, number, 60));
        world.run_for(interval);
        if number % 100 == 0 {
            take(world);
        }
    }
    world.run_for(Duration::from_secs(2));
    for _ in 0..20 {
        world.run_for(Duration::from_millis(100));
        take(world);
    }
    records
}

fn sum(records: &[FlowRecord], is_sent: bool) -> (u64, u64) {
    let counts = records.iter().filter(|record| record.is_sent == is_sent).map(|record| record.counts);
    counts.fold((0, 0), |(packets, bytes), counts| (packets + counts.packets, bytes + counts.bytes))
}

fn assert_all_is_there(world: &World, records: &[Vec<FlowRecord>; 2]) {
    for end in [VAN, HQ] {
        let SessionCounters { tx_packets, tx_bytes, rx_packets, rx_bytes, .. } = world.status(end).counters;
        assert_eq!(sum(&records[end], true), (tx_packets, tx_bytes));
        assert_eq!(sum(&records[end], false), (rx_packets, rx_bytes));
        assert!(tx_packets > 0 && rx_packets > 0);
        let shares = world.status(end).paths.into_iter().flat_map(|path| path.classes);
        let come =
            shares.fold((0, 0), |sum, share| (sum.0 + share.received_packets, sum.1 + share.received_bytes));
        assert_eq!(come, (rx_packets, rx_bytes), "by the paths");
    }
}

#[test]
fn records_have_all_that_sessions_count_and_what_the_queue_has_dropped() {
    let mut world =
        World::connected(vec![Link::new(10).mbit(8), Link::new(30).mbit(4)], SchedulerKind::Earliest);
    exporting(&mut world);
    // Twice as much as the links carry.
    let records = carry(&mut world, 10_000, Duration::from_micros(250));
    assert_all_is_there(&world, &records);
    let dropped: u64 = records[VAN].iter().map(|record| record.counts.dropped_packets).sum();
    let status = world.status(VAN);
    assert!(dropped > 0);
    assert_eq!(
        dropped,
        status.queue_drops + status.paths.iter().map(|path| path.counters.dropped_packets).sum::<u64>()
    );
}

#[test]
fn records_say_what_was_sent_again_and_what_was_recovered() {
    for (repair, is_resent) in [(RepairKind::Resend, true), (RepairKind::Fec, false)] {
        let setup = Setup { repair, reorder: ReorderPolicy::Deadline, ..SchedulerKind::Earliest.into() };
        let mut world =
            World::connected(vec![Link::new(10).loss_one_in(30), Link::new(20).loss_one_in(20)], setup);
        exporting(&mut world);
        let records = carry(&mut world, 10_000, Duration::from_millis(1));
        assert_all_is_there(&world, &records);
        let resent: u64 = records[VAN].iter().map(|record| record.counts.resent_packets).sum();
        let recovered: u64 = records[HQ].iter().map(|record| record.counts.recovered_packets).sum();
        let counted: u64 = world.status(VAN).paths.iter().map(|path| path.counters.resent_packets).sum();
        assert_eq!(recovered, world.status(HQ).counters.repair.recovered);
        assert_eq!(resent, counted, "{repair:?}");
        assert_eq!((resent > 0, recovered > 0), (is_resent, !is_resent), "{repair:?}: {resent} {recovered}");
    }
}

#[test]
fn who_does_not_want_them_has_none_and_a_peer_that_goes_leaves_its_own() {
    let mut world = World::connected(vec![Link::new(1)], SchedulerKind::Earliest);
    world.send(VAN, &packet(VAN, TCP, 1, 1, 100));
    world.run_for(Duration::from_secs(3));
    assert_eq!(world.ends[VAN].site.take_flows(world.now), []);
    exporting(&mut world);
    world.send(VAN, &packet(VAN, TCP, 1, 2, 100));
    world.run_for(Duration::from_millis(100));
    let peer = world.ends[VAN].peer;
    world.ends[VAN].site.remove_peer(peer);
    let records = world.ends[VAN].site.take_flows(world.now);
    assert_eq!(sum(&records, true), (1, 100));
    assert_eq!(records[0].peer, peer);
}
