//! Two engines talk to each other over links that behave and links that don't.

use std::time::Duration;

use psmc_core::{AdaptiveBuffer, PathState, ReorderPolicy, SchedulerKind};

use crate::world::{HQ, Link, Setup, TCP, UDP, VAN, World, number, packet};

const ALL_SCHEDULERS: [SchedulerKind; 6] = SchedulerKind::ALL;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

fn numbers(world: &World, end: usize) -> Vec<u32> {
    world.packets(end).iter().map(|packet| number(packet)).collect()
}

#[test]
fn packets_cross_in_both_directions_with_every_scheduler() {
    for scheduler in ALL_SCHEDULERS {
        let mut world = World::connected(vec![Link::new(10), Link::new(25), Link::new(40)], scheduler);
        for i in 0..500 {
            world.send(VAN, &packet(VAN, TCP, 1, i, 1400));
            world.send(HQ, &packet(HQ, UDP, 2, i, 200));
            world.run_for(ms(1));
        }
        world.run_for(ms(500));
        assert_eq!(numbers(&world, HQ), (0..500).collect::<Vec<_>>(), "{scheduler:?}");
        let mut back = numbers(&world, VAN);
        back.sort_unstable();
        assert_eq!(back, (0..500).collect::<Vec<_>>(), "{scheduler:?}");
    }
}

#[test]
fn each_way_to_reorder_delivers_everything_once() {
    let fixed = ReorderPolicy::Fixed { timeout: ms(40), packets: 100 };
    let adaptive = ReorderPolicy::Adaptive(AdaptiveBuffer::default());
    for (reorder, in_order) in
        [(ReorderPolicy::Deadline, true), (fixed, true), (adaptive, false), (ReorderPolicy::Off, false)]
    {
        let setup = Setup { reorder, ..SchedulerKind::Wrr.into() };
        let mut world = World::connected(vec![Link::new(10), Link::new(30)], setup);
        for i in 0..4000 {
            world.send(VAN, &packet(VAN, TCP, 1, i, 1000));
            world.run_for(ms(1));
        }
        world.run_for(ms(1500));
        let mut arrived = numbers(&world, HQ);
        // An adaptive buffer has to be measured first: its two seconds are left out.
        assert!(!in_order || arrived.is_sorted(), "{reorder:?}");
        let measured: Vec<_> = arrived.iter().copied().filter(|&number| number >= 2000).collect();
        assert_eq!(measured.is_sorted(), reorder != ReorderPolicy::Off, "{reorder:?}");
        arrived.sort_unstable();
        assert!(arrived.into_iter().eq(0..4000), "{reorder:?}");
    }
}

#[test]
fn plain_udp_is_put_in_order_where_the_sender_is_told_so() {
    for ordered_udp in [false, true] {
        let setup = Setup { ordered_udp, ..SchedulerKind::Wrr.into() };
        let mut world = World::connected(vec![Link::new(10), Link::new(30)], setup);
        for i in 0..200 {
            world.send(VAN, &packet(VAN, UDP, 1, i, 1000));
            world.run_for(ms(1));
        }
        world.run_for(ms(500));
        let arrived = numbers(&world, HQ);
        assert_eq!((arrived.len(), arrived.is_sorted()), (200, ordered_udp));
    }
}

#[test]
fn all_paths_become_active_within_a_few_round_trips() {
    let mut world = World::new((0..8).map(|_| Link::new(25)).collect(), SchedulerKind::Earliest);
    world.run_for(ms(50 * 5));
    for end in [VAN, HQ] {
        let states = world.path_states(end);
        assert_eq!(states.len(), 8);
        assert!(states.values().all(|&state| state == PathState::Active), "{states:?}");
    }
}

#[test]
fn a_silent_path_becomes_suspect_then_dead_and_comes_back() {
    let mut world = World::connected(vec![Link::new(10), Link::new(10)], SchedulerKind::Wrr);
    world.links[0].cut();
    let mut sent = 0;
    let mut suspect_after = None;
    for i in 0..1000 {
        world.send(VAN, &packet(VAN, TCP, 1, sent, 1000));
        sent += 1;
        world.run_for(ms(1));
        if suspect_after.is_none() && world.path_states(VAN)["link0"] != PathState::Active {
            suspect_after = Some(i);
        }
    }
    assert!(suspect_after.expect("noticed") <= 62, "{suspect_after:?}");
    assert_eq!(world.path_states(VAN)["link0"], PathState::Dead);
    world.links[0].restore();
    world.run_for(ms(1000));
    assert_eq!(world.path_states(VAN)["link0"], PathState::Active);
    assert_eq!(world.path_states(HQ)["link0"], PathState::Active);
    let mut arrived = numbers(&world, HQ);
    arrived.sort_unstable();
    assert_eq!(arrived, (0..sent).collect::<Vec<_>>(), "what was on its way is sent again");
}

#[test]
fn either_end_may_restart() {
    for end in [VAN, HQ] {
        let mut world = World::connected(vec![Link::new(10), Link::new(20)], SchedulerKind::Earliest);
        world.send(VAN, &packet(VAN, TCP, 1, 1, 500));
        world.run_for(ms(100));
        world.restart(end);
        world.run_for(ms(2000));
        world.send(VAN, &packet(VAN, TCP, 1, 2, 500));
        world.send(HQ, &packet(HQ, TCP, 1, 3, 500));
        world.run_for(ms(100));
        assert_eq!(numbers(&world, HQ), [1, 2], "end {end} restarted");
        assert_eq!(numbers(&world, VAN), [3], "end {end} restarted");
    }
}

#[test]
fn the_data_plane_outlives_the_control_connection() {
    let mut world = World::connected(vec![Link::new(10)], SchedulerKind::Earliest);
    world.control_up = false;
    world.drop_connections();
    for i in 0..600 {
        world.send(VAN, &packet(VAN, TCP, 1, i, 500));
        world.run_for(ms(1000));
    }
    assert_eq!(numbers(&world, HQ), (0..600).collect::<Vec<_>>());
    let status = world.ends[VAN].site.status(world.ends[VAN].peer).expect("the peer");
    assert!(status.key_rolls >= 4, "keys roll every two minutes: {}", status.key_rolls);
    assert!(status.connected_since.is_none());
}

#[test]
fn a_bulk_flow_fills_three_links() {
    let links = vec![Link::new(5).mbit(40), Link::new(5).mbit(30), Link::new(5).mbit(20)];
    let mut world = World::connected(links, SchedulerKind::Earliest);
    let before: u64 = world.ends[HQ].delivered.iter().map(|(_, packet)| packet.len() as u64).sum();
    for i in 0..40_000 {
        world.send(VAN, &packet(VAN, TCP, 1, i, 1400));
        world.run_for(Duration::from_micros(112));
    }
    let bytes: u64 = world.ends[HQ].delivered.iter().map(|(_, packet)| packet.len() as u64).sum();
    let seconds = 40_000.0 * 112e-6;
    let mbits = (bytes - before) as f64 * 8.0 / seconds / 1e6;
    assert!(mbits > 0.9 * 90.0 * 1400.0 / 1467.0, "{mbits:.1} Mb/s");
}

#[test]
fn a_moved_client_is_followed_once_it_has_answered_there() {
    let mut world = World::connected(vec![Link::new(10)], SchedulerKind::Earliest);
    world.links[0].nat = Some("10.1.0.99:4000".parse().expect("an address"));
    world.send(VAN, &packet(VAN, TCP, 1, 0, 500));
    let before = world.status(HQ).paths[0].address;
    world.run_for(ms(15));
    assert_eq!(world.status(HQ).paths[0].address, before, "it was asked");
    world.run_for(ms(20));
    let path = &world.status(HQ).paths[0];
    assert_eq!((path.address.remote.to_string().as_str(), path.state), ("10.1.0.99:4000", PathState::Active));
}

/// Bytes per second of each of three flows, of which each offers 4 Mbit/s: plain UDP, UDP on QUIC's port, and TCP.
fn rates_with(udp_rate_limits: [Option<u64>; 2]) -> [u64; 3] {
    const SECONDS: u32 = 4;
    let setup = Setup { udp_rate_limits, ..SchedulerKind::Earliest.into() };
    let mut world = World::connected(vec![Link::new(10), Link::new(15)], setup);
    for number in 0..SECONDS * 500 {
        world.send(VAN, &packet(VAN, UDP, 1, number, 1000));
        let mut quic = packet(VAN, UDP, 2, number, 1000);
        quic[22..24].copy_from_slice(&443u16.to_be_bytes());
        world.send(VAN, &quic);
        world.send(VAN, &packet(VAN, TCP, 3, number, 1000));
        world.run_for(ms(2));
    }
    world.run_for(ms(500));
    let arrived = [1, 2, 3].map(|flow| world.flow_numbers(HQ, flow).len() as u64);
    let lost = 3 * 500 * u64::from(SECONDS) - arrived.iter().sum::<u64>();
    assert_eq!(world.status(VAN).counters.udp_limited, lost, "what does not arrive is counted");
    let smaller = udp_rate_limits.into_iter().flatten().min();
    assert_eq!([VAN, HQ].map(|end| world.status(end).udp_rate_limit), [smaller; 2], "both sites agree");
    arrived.map(|packets| packets * 1000 / u64::from(SECONDS))
}

#[test]
fn plain_udp_keeps_to_the_smaller_limit_of_both_sites() {
    const OFFERED: u64 = 500_000;
    let limited = [[Some(1_000_000), None], [None, Some(1_000_000)], [Some(2_000_000), Some(1_000_000)]];
    for limits in limited {
        let [udp, quic, tcp] = rates_with(limits);
        assert_eq!([quic, tcp], [OFFERED; 2], "{limits:?}");
        // 125,000 bytes per second, and a burst in the first of them.
        assert!((125_000..145_000).contains(&udp), "{limits:?}: {udp}");
    }
    assert_eq!(rates_with([None; 2]), [OFFERED; 3]);
}
