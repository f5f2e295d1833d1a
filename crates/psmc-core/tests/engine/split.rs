//! Inner packets that are larger than the datagrams of their paths.

use std::time::Duration;

use psmc_core::{RepairKind, SchedulerKind};

use crate::world::{self, HQ, Link, Setup, TCP, UDP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// A full-size packet on the link of 1280 bytes takes two datagrams, on that of 1500 one.
fn unequal() -> Vec<Link> {
    vec![Link::new(10).mtu(1280, 1280).mbit(20), Link::new(25).mtu(1500, 1500).mbit(20)]
}

#[test]
fn packets_too_large_for_a_path_arrive_whole_and_in_order_with_every_scheduler() {
    for scheduler in SchedulerKind::ALL {
        let mut world = World::connected(unequal(), scheduler);
        let sent: Vec<_> = (0..500).map(|i| packet(VAN, TCP, (i % 8) as u16, i, 1400)).collect();
        for packet in &sent {
            world.send(VAN, packet);
            world.run_for(ms(1));
        }
        world.run_for(ms(500));
        for flow in 0..8 {
            let expected = (0..500).filter(|i| i % 8 == u32::from(flow));
            assert!(world.flow_numbers(HQ, flow).into_iter().eq(expected), "{scheduler:?}");
        }
        let mut arrived = world.packets(HQ);
        arrived.sort_by_key(|packet| world::number(packet));
        assert!(arrived == sent, "{scheduler:?}");
        let (split, hq) = (world.status(VAN).counters.split, world.status(HQ).assembly);
        assert_eq!((split > 0, hq.joined, hq.refused, hq.waiting), (true, split, 0, 0), "{scheduler:?}");
    }
}

#[test]
fn a_packet_is_split_where_no_path_carries_it_whole() {
    let links = vec![Link::new(10).mtu(1280, 1280), Link::new(20).mtu(1300, 1300)];
    let mut world = World::connected(links, SchedulerKind::Wrr);
    let sent: Vec<_> = (0..100).map(|i| packet(VAN, TCP, 1, i, 1400)).collect();
    for packet in &sent {
        world.send(VAN, packet);
        world.run_for(ms(2));
    }
    world.run_for(ms(500));
    assert!(world.packets(HQ) == sent, "{:?}", world.numbers(HQ));
    assert_eq!((world.status(VAN).counters.split, world.status(HQ).assembly.joined), (100, 100));
    assert!(world.links.iter().all(|link| link.carried_bytes[VAN] > 30_000), "both links carry parts");
}

#[test]
fn a_lost_part_is_sent_again_as_that_part() {
    let links = unequal().into_iter().map(|link| link.loss_one_in(10)).collect();
    let mut world = World::connected(links, SchedulerKind::Earliest);
    for i in 0..2000 {
        world.send(VAN, &packet(VAN, TCP, 1, i, 1400));
        world.run_for(ms(1));
    }
    world.run_for(ms(2000));
    let mut arrived = world.numbers(HQ);
    arrived.sort_unstable();
    assert!(arrived.into_iter().eq(0..2000));
    let resent: u64 = world.status(VAN).paths.iter().map(|path| path.counters.resent_packets).sum();
    assert!(resent > 100, "{resent}");
    assert_eq!(world.status(HQ).assembly.waiting, 0);
}

#[test]
fn packets_that_come_whole_on_another_path_wait_for_no_parts() {
    let links = vec![Link::new(10).mtu(1280, 1280).loss_one_in(4), Link::new(12).mtu(1500, 1500)];
    let mut world = World::connected(links, SchedulerKind::Redundant);
    for i in 0..500 {
        world.send(VAN, &packet(VAN, UDP, 1, i, 1400));
        world.run_for(ms(5));
        let assembly = world.status(HQ).assembly;
        assert!(assembly.waiting <= 3, "{assembly:?}");
    }
    world.run_for(ms(2000));
    assert!(world.numbers(HQ).into_iter().eq(0..500));
    let assembly = world.status(HQ).assembly;
    assert!(
        assembly.joined > 200 && world.status(VAN).counters.split - assembly.joined > 100,
        "{assembly:?}"
    );
    assert_eq!((assembly.incomplete, assembly.waiting), (0, 0));
}

#[test]
fn packets_that_are_cut_are_copied_and_computed_as_wholes() {
    for repair in [RepairKind::Duplicate, RepairKind::Fec] {
        let links = unequal().into_iter().map(|link| link.loss_one_in(50)).collect();
        let mut world = World::connected(links, Setup { repair, ..SchedulerKind::Wrr.into() });
        for i in 0..5000 {
            world.send(VAN, &packet(VAN, UDP, 1, i, 1400));
            world.run_for(ms(1));
        }
        world.run_for(ms(2000));
        let mut arrived = world.numbers(HQ);
        let delivered = arrived.len();
        arrived.sort_unstable();
        arrived.dedup();
        let (sent, found) = (world.status(VAN).counters, world.status(HQ).counters.repair);
        assert_eq!(arrived.len(), delivered, "{repair:?}: a packet is delivered once");
        // One packet in fifty loses something, and of those that are cut twice as many.
        assert!(delivered > 4985, "{repair:?}: {delivered} of 5000, {sent:?} {found:?}");
        assert!(sent.split > 1000, "{repair:?}: {sent:?}");
        match repair {
            RepairKind::Fec => assert!(found.recovered > 50, "{found:?}"),
            RepairKind::Duplicate => assert!(sent.repair.tx_copies > 4900, "{sent:?}"),
            RepairKind::Auto | RepairKind::Resend | RepairKind::Off => {}
        }
    }
}

#[test]
fn repairs_made_for_larger_datagrams_are_no_obstacle_on_a_path_that_becomes_narrow() {
    let links = vec![Link::new(10).mtu(1500, 1500).mbit(20), Link::new(20).mtu(1500, 1500).mbit(20)];
    let setup = Setup { repair: RepairKind::Fec, ..SchedulerKind::Wrr.into() };
    let mut world = World::connected(links, setup);
    for i in 0..4000 {
        if i == 1000 {
            world.links.iter_mut().for_each(|link| link.mtu = Some(1280));
        }
        world.send(VAN, &packet(VAN, UDP, 1, i, 1400));
        world.run_for(ms(1));
    }
    world.run_for(ms(1000));
    // What was sent before the paths are found out is lost for good: it is not sent again.
    let after = world.numbers(HQ).into_iter().filter(|number| *number >= 2000).count();
    assert!(after > 1990, "{after} of 2000, {:?}", world.status(VAN));
}

#[test]
fn parts_that_a_dead_path_had_travel_on_another_one_and_are_cut_anew_for_it() {
    let links = vec![Link::new(10).mtu(1500, 1500).mbit(20), Link::new(20).mtu(1280, 1280).mbit(20)];
    let mut world = World::connected(links, SchedulerKind::Wrr);
    for i in 0..1000 {
        if i == 500 {
            world.links[0].cut();
        }
        world.send(VAN, &packet(VAN, TCP, 1, i, 1400));
        world.run_for(ms(1));
    }
    world.run_for(ms(2000));
    let mut arrived = world.numbers(HQ);
    arrived.sort_unstable();
    assert!(arrived.into_iter().eq(0..1000));
}

#[test]
fn many_small_packets_and_parts_share_datagrams() {
    let mut world = World::connected(vec![Link::new(10).mtu(1280, 1280)], SchedulerKind::Earliest);
    let before = world.status(VAN).paths[0].counters.tx_packets;
    for i in 0..50 {
        world.send(VAN, &packet(VAN, UDP, 1, 2 * i, 1300));
        world.send(VAN, &packet(VAN, UDP, 1, 2 * i + 1, 200));
    }
    world.run_for(ms(500));
    assert_eq!(world.numbers(HQ).len(), 100, "{:?}", world.status(HQ));
    let datagrams = world.status(VAN).paths[0].counters.tx_packets - before;
    assert!(
        datagrams <= 135,
        "{datagrams} datagrams: the small packets travel with the ends of the large ones"
    );
}
