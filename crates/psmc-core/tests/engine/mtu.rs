//! Paths find out how large their datagrams may be, and lose nothing to it.

use std::time::Duration;

use psmc_core::{ClampMss, PathState, SchedulerKind};

use crate::world::{HQ, Link, Setup, TCP, VAN, World, packet};

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn mtus(world: &World, end: usize) -> Vec<u16> {
    world.status(end).paths.iter().map(|path| path.mtu).collect()
}

/// The search ends within 8 bytes.
fn is_found(found: u16, carries: u16) -> bool {
    (carries - 8..=carries).contains(&found)
}

#[test]
fn a_path_as_wide_as_its_interface_is_known_after_one_round_trip() {
    let mut world = World::new(vec![Link::new(25).mtu(1500, 1500)], SchedulerKind::Earliest);
    // The dial, and HELLO, take two round trips, and the first answer one. The headquarters begin half of one later.
    world.run_for(ms(4 * 50 + 35));
    assert_eq!((mtus(&world, VAN), mtus(&world, HQ)), (vec![1500], vec![1500]));
}

#[test]
fn both_ends_find_what_a_narrow_path_carries_and_lose_nothing_meanwhile() {
    for carries in [1280, 1300, 1420] {
        let mut world = World::new(vec![Link::new(10).mtu(1500, carries)], SchedulerKind::Earliest);
        for i in 0..2000 {
            world.send(VAN, &packet(VAN, TCP, 1, i, 1400));
            world.send(HQ, &packet(HQ, TCP, 1, i, 1400));
            world.run_for(ms(2));
        }
        world.run_for(ms(500));
        for end in [VAN, HQ] {
            assert!(world.numbers(end).into_iter().eq(0..2000), "{carries}");
            let status = world.status(end);
            assert!(is_found(status.paths[0].mtu, carries), "{carries}: {status:?}");
            let counters = status.paths[0].counters;
            assert_eq!((counters.lost_packets, counters.resent_packets), (0, 0), "probes are no losses");
        }
        let turned = world.ends[VAN]
            .events
            .iter()
            .filter(|event| matches!(event, psmc_core::Event::PathChanged { state: PathState::Suspect, .. }));
        assert_eq!(turned.count(), 0, "a probe that is lost is no silence");
    }
}

#[test]
fn a_path_that_becomes_narrow_is_found_out_and_every_packet_arrives() {
    for paths in 1..=2 {
        let links = (0..paths).map(|n| Link::new(20 + 10 * n).mtu(1500, 1500).mbit(50)).collect();
        let mut world = World::connected(links, SchedulerKind::Earliest);
        let mut longest = Duration::ZERO;
        for i in 0..3000 {
            if i == 1000 {
                world.links[0].mtu = Some(1300);
            }
            world.send(VAN, &packet(VAN, TCP, 1, i, 1400));
            world.run_for(ms(1));
            let last = world.ends[HQ].delivered.last().map_or(world.start, |(at, _)| *at);
            longest = longest.max(world.now.saturating_duration_since(last).min(ms(2000)));
            if i < 100 {
                longest = Duration::ZERO;
            }
        }
        world.run_for(ms(2000));
        let mut arrived = world.numbers(HQ);
        arrived.sort_unstable();
        assert!(arrived.into_iter().eq(0..3000), "{paths} paths");
        assert!(is_found(mtus(&world, VAN)[0], 1300), "{paths} paths: {:?}", mtus(&world, VAN));
        assert!(longest < ms(500), "{paths} paths: nothing came for {longest:?}");
    }
}

/// A SYN or SYN-ACK that states an MSS.
fn syn(from: usize, mss: u16) -> Vec<u8> {
    let mut syn = packet(from, TCP, 1, 0, 44);
    syn[32..34].copy_from_slice(&[6 << 4, 0x02]);
    syn[40..42].copy_from_slice(&[2, 4]);
    syn[42..].copy_from_slice(&mss.to_be_bytes());
    syn
}

/// The MSS that arrives if 1360 bytes, those of the tunnel's MTU, are sent.
fn mss_that_arrives(world: &mut World, from: usize) -> u16 {
    world.send(from, &syn(from, 1360));
    world.run_for(ms(500));
    let packets = world.packets(1 - from);
    let [.., high, low] = packets.last().expect("the SYN")[..] else { panic!("it is too short") };
    u16::from_be_bytes([high, low])
}

#[test]
fn tcp_is_told_to_send_what_need_not_be_cut() {
    let links = || vec![Link::new(10).mtu(1500, 1500), Link::new(20).mtu(1500, 1300)];
    for from in [VAN, HQ] {
        let mut world = World::connected(links(), SchedulerKind::Wrr);
        world.run_for(ms(5000));
        let mss = mss_that_arrives(&mut world, from);
        // What the headers take, outer, ours and inner, and what the search leaves.
        assert!((1300 - 28 - 39 - 40 - 8..=1300 - 28 - 39 - 40).contains(&mss), "{mss}");
        for (len, split) in [(mss + 40, 0), (mss + 40 + 9, 10)] {
            for i in 0..20 {
                world.send(VAN, &packet(VAN, TCP, 1, i, len.into()));
                world.send(HQ, &packet(HQ, TCP, 1, i, len.into()));
                world.run_for(ms(5));
            }
            assert_eq!([VAN, HQ].map(|end| world.status(end).counters.split), [split; 2], "{len}");
        }
    }
}

#[test]
fn the_mss_is_clamped_as_the_sites_are_told() {
    let lowered = |world: &World| [VAN, HQ].map(|end| world.status(end).counters.mss_lowered);
    let link = || vec![Link::new(10).mtu(1500, 1280)];
    for (clamp_mss, mss, count) in [
        (ClampMss::Off, 1360, [0, 0]),
        (ClampMss::To(1000), 1000, [1, 0]),
        (ClampMss::To(1400), 1360, [0, 0]),
    ] {
        let mut world = World::connected(link(), Setup { clamp_mss, ..SchedulerKind::Wrr.into() });
        assert_eq!((mss_that_arrives(&mut world, VAN), lowered(&world)), (mss, count), "{clamp_mss:?}");
    }
    // On paths of the usual size there is nothing to do, from the first moment on.
    let mut world = World::new(vec![Link::new(10).mtu(1500, 1500)], SchedulerKind::Earliest);
    world.send(VAN, &syn(VAN, 1360));
    assert_eq!((mss_that_arrives(&mut world, VAN), lowered(&world)), (1360, [0, 0]));
}

#[test]
fn a_path_that_becomes_wide_again_is_used_so_after_ten_minutes() {
    let mut world = World::connected(vec![Link::new(20).mtu(1500, 1300)], SchedulerKind::Earliest);
    world.run_for(ms(5000));
    assert!(is_found(mtus(&world, VAN)[0], 1300));
    world.links[0].mtu = Some(1500);
    world.run_for(ms(590_000));
    assert!(is_found(mtus(&world, VAN)[0], 1300));
    world.run_for(ms(15_000));
    assert_eq!(mtus(&world, VAN), [1500]);
}

#[test]
fn losses_and_queues_are_not_taken_for_a_narrow_path() {
    let links = vec![Link::new(20).mtu(1500, 1500).mbit(10).loss_one_in(20)];
    let mut world = World::connected(links, SchedulerKind::Earliest);
    let mut full = 0;
    for i in 0..5000 {
        world.send(VAN, &packet(VAN, TCP, (i % 4) as u16, i, if i % 3 == 0 { 100 } else { 1400 }));
        world.run_for(ms(1));
        full += u32::from(mtus(&world, VAN) == [1500]);
    }
    assert!(full > 4500, "{full} of 5000 ms at the full size");
}
