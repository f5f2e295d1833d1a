//! Paths come, change, fail and go under load, and the packets notice as little of it as can be.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use psmc_core::{
    CongestionConfig, Event, PathAddress, PathConfig, PathState, PathTuning, SchedulerKind, SocketId,
};
use psmc_wire::PathId;

use crate::world::{self, HQ, Link, TCP, VAN, World, packet, path_config};

const ALL_SCHEDULERS: [SchedulerKind; 6] = SchedulerKind::ALL;

/// Flows in each direction.
const FLOWS: u32 = 4;

fn ms(n: u64) -> Duration {
    Duration::from_millis(n)
}

/// Continuous load in both directions: ordered flows in turn, a packet each way every half millisecond.
struct Load {
    next: u32,
}

impl Load {
    fn run(&mut self, world: &mut World, time: Duration) {
        let end = world.now + time;
        while world.now < end {
            let flow = self.next % FLOWS;
            for from in [VAN, HQ] {
                world.send(from, &packet(from, TCP, flow_id(flow), self.next, 1000));
            }
            self.next += 1;
            world.run_for(Duration::from_micros(500));
        }
    }

    /// Everything arrived once, and every flow in order.
    fn check(&self, world: &mut World, what: &str) {
        world.run_for(Duration::from_secs(1));
        for end in [VAN, HQ] {
            for flow in 0..FLOWS {
                let numbers = world.flow_numbers(end, flow_id(flow));
                let sent: Vec<_> = (0..self.next).filter(|n| n % FLOWS == flow).collect();
                let odd = numbers.iter().zip(&sent).find(|(a, b)| a != b);
                assert!(
                    numbers == sent,
                    "{what}: flow {flow} at {end}: {odd:?}, {} of {}",
                    numbers.len(),
                    sent.len()
                );
            }
        }
    }
}

fn flow_id(flow: u32) -> u16 {
    u16::try_from(flow).expect("few flows")
}

fn path_of(world: &mut World, end: usize, name: &str) -> PathId {
    let end = &mut world.ends[end];
    end.site.peer(end.peer).expect("the peer exists").path_named(name).expect("the path is open").id()
}

/// Bytes that an end has sent on each path.
fn sent_bytes(world: &World, end: usize) -> BTreeMap<PathId, u64> {
    world.status(end).paths.iter().map(|path| (path.id, path.counters.tx_bytes)).collect()
}

/// The share of each path in what an end has sent since `before`.
fn shares(world: &World, end: usize, before: &BTreeMap<PathId, u64>) -> Vec<f64> {
    let sent: Vec<_> = sent_bytes(world, end).iter().map(|(id, bytes)| bytes - before[id]).collect();
    let all: u64 = sent.iter().sum();
    sent.iter().map(|&bytes| bytes as f64 / all as f64).collect()
}

/// The longest time between two deliveries at an end since `from`.
pub(crate) fn longest_gap(world: &World, end: usize, from: Instant) -> Duration {
    let times = world.ends[end].delivered.iter().map(|(at, _)| *at).filter(|&at| at >= from);
    let times: Vec<_> = [from].into_iter().chain(times).collect();
    times.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
}

#[test]
fn adding_removing_weighing_and_standing_by_lose_nothing_and_keep_the_order() {
    for scheduler in ALL_SCHEDULERS {
        let mut world = World::connected((1..5).map(|n| Link::new(8 * n)).collect(), scheduler);
        let mut load = Load { next: 0 };
        for round in 0..4 {
            let name = format!("link{round}");
            let end = round % 2;
            load.run(&mut world, ms(300));
            let id = path_of(&mut world, end, &name);
            let (site, now) = (&mut world.ends[end], world.now);
            site.path(id).set_standby(true, now).expect("open");
            load.run(&mut world, ms(300));
            let (site, now) = (&mut world.ends[end], world.now);
            site.path(id).set_standby(false, now).expect("open");
            load.run(&mut world, ms(300));
            let (site, now) = (&mut world.ends[end], world.now);
            site.path(id).reconfigure(PathTuning { weight: Some(3), ..PathTuning::default() });
            load.run(&mut world, ms(300));
            let site = &mut world.ends[end];
            site.path(id).remove(now).expect("open");
            load.run(&mut world, ms(300));
            world.add_path(path_config(round)).expect("the name is free");
        }
        load.check(&mut world, scheduler.name());
    }
}

#[test]
fn regression_a_standby_path_stays_one_when_the_peer_restarts() {
    let mut world = World::connected(vec![Link::new(10), Link::new(20)], SchedulerKind::Wrr);
    let (id, now) = (path_of(&mut world, VAN, "link1"), world.now);
    let van = &mut world.ends[VAN];
    van.path(id).set_standby(true, now).expect("open");
    world.run_for(ms(100));
    world.restart(HQ);
    world.run_for(ms(1000));
    for end in [VAN, HQ] {
        let usage = world.status(end).paths[1].usage;
        assert_eq!(usage, psmc_wire::frame::PathUse::Standby, "end {end}");
    }
}

/// A path that stood by has carried a few probes; how much it can carry nobody knows.
#[test]
fn regression_a_path_that_stood_by_for_long_is_in_full_use_at_once() {
    let mut world = World::connected(vec![Link::new(1), Link::new(1)], SchedulerKind::Earliest);
    let (spare, now) = (path_of(&mut world, VAN, "link1"), world.now);
    for end in [VAN, HQ] {
        let site = &mut world.ends[end];
        site.path(spare).set_standby(true, now).expect("open");
    }
    let mut load = Load { next: 0 };
    for _ in 0..1000 {
        load.run(&mut world, Duration::from_micros(500));
        world.run_for(ms(10));
    }
    let (carrier, now) = (path_of(&mut world, VAN, "link0"), world.now);
    let van = &mut world.ends[VAN];
    van.path(carrier).remove(now).expect("open");
    let start = world.now;
    load.run(&mut world, ms(500));
    for end in [VAN, HQ] {
        let gap = longest_gap(&world, end, start);
        assert!(gap <= ms(20), "end {end}: {gap:?}");
        let drops = world.status(end).classes[0].clone();
        assert_eq!(drops.queued_packets, 0, "end {end}: {drops:?}");
    }
    load.check(&mut world, "earliest");
}

#[test]
fn weighted_round_robin_follows_the_weights_and_their_changes() {
    let mut world = World::connected(vec![Link::new(10), Link::new(15), Link::new(20)], SchedulerKind::Wrr);
    let mut load = Load { next: 0 };
    for weights in [[1, 1, 1], [1, 2, 5], [8, 1, 1]] {
        for (link, weight) in weights.into_iter().enumerate() {
            let id = path_of(&mut world, VAN, &format!("link{link}"));
            let van = &mut world.ends[VAN];
            van.path(id).reconfigure(PathTuning { weight: Some(weight), ..PathTuning::default() });
        }
        load.run(&mut world, ms(100));
        let before = [VAN, HQ].map(|end| sent_bytes(&world, end));
        load.run(&mut world, ms(2000));
        let all = f64::from(weights.iter().sum::<u16>());
        for end in [VAN, HQ] {
            for (share, weight) in shares(&world, end, &before[end]).into_iter().zip(weights) {
                let wanted = f64::from(weight) / all;
                assert!((share - wanted).abs() < 0.05, "end {end}, weights {weights:?}: {share:.3}");
            }
        }
    }
    load.check(&mut world, "wrr");
}

#[test]
fn regression_weights_hold_for_packets_of_every_size() {
    for len in [60, 400, 700, 1000, 1400] {
        let mut world = World::connected(vec![Link::new(10), Link::new(10)], SchedulerKind::Wrr);
        let before = sent_bytes(&world, VAN);
        for number in 0..3000 {
            world.send(VAN, &packet(VAN, TCP, 1, number, len));
            world.run_for(Duration::from_micros(500));
        }
        let share = shares(&world, VAN, &before)[0];
        assert!((share - 0.5).abs() < 0.05, "{len} bytes: {share:.3}");
    }
}

/// Which of the van's paths carries each of `flows` flows.
fn places(world: &mut World, flows: u16) -> Vec<PathId> {
    let place = |flow| {
        let before = sent_bytes(world, VAN);
        for number in 0..5 {
            world.send(VAN, &packet(VAN, TCP, flow, number, 1000));
        }
        world.run_for(ms(1));
        let mut carriers = sent_bytes(world, VAN).into_iter().filter(|(id, bytes)| bytes - before[id] > 2000);
        let carrier = carriers.next().expect("somebody carries it").0;
        assert_eq!(carriers.next(), None, "flow {flow} is on two paths");
        world.run_for(ms(50));
        carrier
    };
    (0..flows).map(place).collect()
}

#[test]
fn the_flow_scheduler_moves_only_what_must_move() {
    let mut world = World::connected(vec![Link::new(5), Link::new(5), Link::new(5)], SchedulerKind::Flow);
    let before = places(&mut world, 60);
    let by_path = |places: &[PathId], id| places.iter().filter(|&&place| place == id).count();
    let ids: Vec<_> = world.status(VAN).paths.iter().map(|path| path.id).collect();
    assert!(ids.iter().all(|&id| by_path(&before, id) >= 10), "flows are spread: {before:?}");
    let (gone, now) = (ids[1], world.now);
    let van = &mut world.ends[VAN];
    van.path(gone).remove(now).expect("open");
    world.run_for(ms(4000));
    let without = places(&mut world, 60);
    let stay = |(before, after): (&PathId, &PathId)| *before == gone || before == after;
    assert!(before.iter().zip(&without).all(stay), "only flows of the removed path move");
    world.add_path(path_config(1)).expect("the name is free");
    world.run_for(ms(100));
    let with = places(&mut world, 60);
    let new = path_of(&mut world, VAN, "link1");
    assert!(without.iter().zip(&with).all(|(before, after)| before == after || *after == new));
    assert!(by_path(&with, new) >= 10, "the new path gets its share");
}

#[test]
fn redundant_sends_everything_everywhere_and_delivers_it_once() {
    let mut world = World::connected(vec![Link::new(5), Link::new(30)], SchedulerKind::Redundant);
    world.links[0].loss_one_in = 10;
    let before = sent_bytes(&world, VAN);
    for number in 0..500 {
        world.send(VAN, &packet(VAN, TCP, 1, number, 1000));
        world.run_for(ms(2));
    }
    world.run_for(ms(200));
    let mut arrived = world.numbers(HQ);
    assert!(arrived[300..].iter().copied().eq(300..500), "in order once both paths have found their rate");
    arrived.sort_unstable();
    assert!(arrived.into_iter().eq(0..500));
    let sent = sent_bytes(&world, VAN);
    assert!(sent.iter().all(|(id, bytes)| bytes - before[id] > 490 * 1000), "{sent:?}");
}

#[test]
fn a_path_that_is_dead_from_the_start_does_not_delay_the_others() {
    let gap = |links: Vec<Link>| {
        let mut world = World::new(links, SchedulerKind::Earliest);
        world.run_for(ms(100));
        let mut load = Load { next: 0 };
        let start = world.now;
        load.run(&mut world, ms(1000));
        load.check(&mut world, "dead path");
        longest_gap(&world, HQ, start)
    };
    let mut dead = Link::new(5);
    dead.cut();
    assert_eq!(gap(vec![Link::new(10), dead]), gap(vec![Link::new(10)]));
}

#[test]
fn a_path_that_comes_back_is_used_again_within_a_second() {
    for away in [200, 1_000, 20_000, 600_000] {
        let mut world = World::connected(vec![Link::new(10), Link::new(25)], SchedulerKind::Wrr);
        let mut load = Load { next: 0 };
        world.links[0].cut();
        load.run(&mut world, ms(away.min(1000)));
        world.run_for(ms(away.saturating_sub(1000)));
        world.links[0].restore();
        load.run(&mut world, ms(1000));
        let before = [VAN, HQ].map(|end| sent_bytes(&world, end));
        load.run(&mut world, ms(200));
        for end in [VAN, HQ] {
            let share = shares(&world, end, &before[end])[0];
            assert!((0.4..0.6).contains(&share), "away {away} ms, end {end}: {share:.2}");
        }
    }
}

/// Cuts a link in some directions under load. Returns how long each end was without packets.
fn failover(scheduler: SchedulerKind, link: usize, passes: [bool; 2]) -> [Duration; 2] {
    let mut world = World::connected(vec![Link::new(10), Link::new(15)], scheduler);
    let mut load = Load { next: 0 };
    load.run(&mut world, ms(1000));
    let cut = world.now;
    world.links[link].passes = passes;
    load.run(&mut world, ms(2000));
    load.check_all_arrived(&mut world);
    [VAN, HQ].map(|end| longest_gap(&world, end, cut))
}

impl Load {
    /// Everything arrived, and nothing twice; whatever was on the way at a cut may be late.
    fn check_all_arrived(&self, world: &mut World) {
        world.run_for(Duration::from_secs(1));
        for end in [VAN, HQ] {
            let mut numbers = world.numbers(end);
            numbers.sort_unstable();
            assert!(numbers.iter().copied().eq(0..self.next), "at {end}: {} of {}", numbers.len(), self.next);
        }
    }
}

#[test]
fn a_failover_takes_a_tenth_of_a_second_at_the_most() {
    for scheduler in ALL_SCHEDULERS {
        for link in [0, 1] {
            for passes in [[false, false], [false, true], [true, false]] {
                let gaps = failover(scheduler, link, passes);
                let most = gaps[0].max(gaps[1]);
                assert!(most <= ms(100), "{}: link {link} passes {passes:?}: {gaps:?}", scheduler.name());
            }
        }
    }
}

#[test]
fn a_link_event_moves_everything_at_once() {
    let mut world = World::connected(vec![Link::new(10), Link::new(15)], SchedulerKind::Earliest);
    let mut load = Load { next: 0 };
    load.run(&mut world, ms(500));
    let now = world.now;
    world.links[0].cut();
    world.ends[VAN].site.handle_link(SocketId(0), false, now);
    load.run(&mut world, ms(500));
    assert!(longest_gap(&world, HQ, now) <= ms(35), "{:?}", longest_gap(&world, HQ, now));
    let now = world.now;
    world.links[0].restore();
    world.ends[VAN].site.handle_link(SocketId(0), true, now);
    load.run(&mut world, ms(100));
    assert_eq!(world.path_states(VAN)["link0"], PathState::Active);
    load.check_all_arrived(&mut world);
}

#[test]
fn a_single_path_that_stalls_for_a_tenth_of_a_second_loses_nothing() {
    for scheduler in ALL_SCHEDULERS {
        let mut world = World::connected(vec![Link::new(10)], scheduler);
        let mut load = Load { next: 0 };
        load.run(&mut world, ms(500));
        world.links[0].stalled_until = Some(world.now + ms(100));
        load.run(&mut world, ms(1000));
        load.check(&mut world, scheduler.name());
    }
}

#[test]
fn sixty_four_paths_carry_traffic_and_the_sixty_fifth_is_refused() {
    let links = (0..64).map(|n| Link::new(5 + n % 7)).collect();
    let mut world = World::connected(links, SchedulerKind::Wrr);
    let refused = world.add_path(psmc_core::PathConfig { name: "one too many".to_owned(), ..path_config(0) });
    assert!(refused.is_err(), "{refused:?}");
    let before = sent_bytes(&world, VAN);
    let mut load = Load { next: 0 };
    load.run(&mut world, ms(2000));
    load.check(&mut world, "64 paths");
    for share in shares(&world, VAN, &before) {
        assert!((0.01..0.025).contains(&share), "{share:.4}");
    }
}

#[test]
fn regression_paths_with_long_round_trips_become_active() {
    let mut world = World::new(vec![Link::new(300), Link::new(900)], SchedulerKind::Earliest);
    world.run_for(Duration::from_secs(10));
    for end in [VAN, HQ] {
        let states = world.path_states(end);
        assert!(states.values().all(|&state| state == PathState::Active), "end {end}: {states:?}");
    }
}

#[test]
fn regression_an_idle_path_that_works_is_not_suspected_again_and_again() {
    let mut world = World::connected(vec![Link::new(55), Link::new(8)], SchedulerKind::Earliest);
    for from in [VAN, HQ] {
        world.send(from, &packet(from, TCP, 1, 0, 100));
    }
    world.links[1].cut();
    world.run_for(ms(50));
    world.links[1].restore();
    world.run_for(ms(1000));
    for end in &mut world.ends {
        end.events.clear();
    }
    world.run_for(ms(20_000));
    for end in [VAN, HQ] {
        let changes =
            world.ends[end].events.iter().filter(|event| matches!(event, Event::PathChanged { .. }));
        assert_eq!(changes.count(), 0, "end {end}");
    }
}

#[test]
fn a_path_that_works_one_way_only_is_left_alone() {
    let mut world = World::connected(vec![Link::new(10), Link::new(10)], SchedulerKind::Wrr);
    world.links[0].passes = [true, false];
    world.run_for(Duration::from_secs(30));
    let before = world.status(HQ).paths[0].counters.tx_packets;
    for number in 0..20 {
        world.send(VAN, &packet(VAN, TCP, 1, number, 100));
        world.run_for(ms(200));
    }
    let after = world.status(HQ).paths[0].counters.tx_packets;
    assert!(after - before <= 20, "little but probes and answers: {}", after - before);
    assert!(world.numbers(HQ).into_iter().eq(0..20));
}

#[test]
fn regression_a_dead_world_pins_no_memory() {
    let mut world = World::connected(vec![Link::new(10)], SchedulerKind::Earliest);
    let mut load = Load { next: 0 };
    load.run(&mut world, ms(200));
    world.links[0].cut();
    load.run(&mut world, ms(500));
    world.run_for(Duration::from_secs(3600));
    for end in [VAN, HQ] {
        let status = world.status(end);
        assert_eq!((status.queued_packets, status.paths[0].inflight_bytes), (0, 0), "end {end}");
    }
}

#[test]
fn a_path_goes_on_when_its_rate_is_found_in_another_way() {
    let mut world = World::connected(vec![Link::new(10).mbit(20)], SchedulerKind::Earliest);
    let id = path_of(&mut world, VAN, "link0");
    let (fixed, mut number) = (CongestionConfig::Fixed { rate: 2_000_000 }, 0);
    let ways = [CongestionConfig::Model, fixed, CongestionConfig::Cubic, fixed, CongestionConfig::Model];
    for way in ways {
        let van = &mut world.ends[VAN];
        van.path(id).set_congestion(way);
        let before = world.links[0].carried_bytes[VAN];
        for _ in 0..1000 {
            world.send(VAN, &packet(VAN, TCP, 1, number, 1000));
            number += 1;
            world.run_for(ms(1));
        }
        // 8 Mbit/s are sent for a second, of which a fixed rate lets a quarter pass; the queue keeps the rest for one.
        let carried = (world.links[0].carried_bytes[VAN] - before) * 8;
        let expected = if way == fixed { 1_800_000..2_300_000 } else { 7_500_000..18_000_000 };
        assert!(expected.contains(&carried), "{way:?}: {carried}");
    }
    let turned =
        |event: &Event| matches!(event, Event::PathChanged { state, .. } if *state != PathState::Active);
    assert!(!world.ends[VAN].events.iter().any(turned), "{:?}", world.ends[VAN].events);
}

#[test]
fn regression_a_jumbo_packet_waits_for_the_pacer_not_for_an_accident() {
    let setup = world::Setup { mtu: 8_900, ..SchedulerKind::Earliest.into() };
    let mut world = World::connected(vec![Link::new(10)], setup);
    let id = path_of(&mut world, VAN, "link0");
    let van = &mut world.ends[VAN];
    van.path(id).reconfigure(PathTuning { max_rate: Some(Some(1_000_000)), ..PathTuning::default() });
    let start = world.now;
    for number in 0..20 {
        world.send(VAN, &packet(VAN, TCP, 1, number, 8_900));
    }
    world.run_for(Duration::from_secs(3));
    // What has waited for a second is dropped: 14 packets are sent in it, and the first bucket goes at once.
    let arrived = world.numbers(HQ);
    assert!(
        (14..18).contains(&arrived.len()) && arrived.iter().copied().zip(0..).all(|(a, b)| a == b),
        "{arrived:?}"
    );
    assert!(longest_gap(&world, HQ, start) <= ms(150), "{:?}", longest_gap(&world, HQ, start));
}

#[test]
fn a_path_under_scrutiny_is_probed_at_changing_intervals_and_with_full_datagrams() {
    let mut world = World::connected(vec![Link::new(5), Link::new(5)], SchedulerKind::Earliest);
    let (id, now) = (path_of(&mut world, VAN, "link1"), world.now);
    let van = &mut world.ends[VAN];
    van.path(id).set_standby(true, now).expect("open");
    van.path(id).set_keepalive(ms(50));
    van.path(id).set_scrutiny(true);
    world.run_for(ms(500));
    let sent = |world: &World| {
        let path = world.status(VAN).paths[1].clone();
        (path.counters.tx_packets, path.counters.tx_bytes)
    };
    let (mut probes, mut last) = (Vec::new(), sent(&world));
    for _ in 0..2000 {
        world.run_for(ms(1));
        let next = sent(&world);
        if next.0 > last.0 {
            probes.push((world.now, next.1 - last.1));
        }
        last = next;
    }
    let large = probes.iter().filter(|(_, bytes)| *bytes > 1200).count();
    assert!(large.abs_diff(probes.len() - large) <= 1, "{large} of {}", probes.len());
    let gaps: Vec<_> = probes.windows(2).map(|pair| pair[1].0 - pair[0].0).collect();
    let (least, most) = (gaps.iter().min().expect("gaps"), gaps.iter().max().expect("gaps"));
    // Counted from the answer on, ten milliseconds after the question.
    assert!(*least < ms(45) && *most > ms(75), "{least:?} to {most:?}");
    assert!(probes.len() > 25, "{}", probes.len());
    assert_eq!(world.status(VAN).paths[1].counters.lost_packets, 0);

    let van = &mut world.ends[VAN];
    van.path(id).set_scrutiny(false);
    let before = sent(&world);
    world.run_for(ms(1000));
    let after = sent(&world);
    assert!((after.1 - before.1) / (after.0 - before.0) < 100, "small again: {before:?} {after:?}");
}

#[test]
fn a_silence_counts_if_it_has_swallowed_something_and_not_if_that_was_late() {
    let mut world = World::connected(vec![Link::new(5), Link::new(5)], SchedulerKind::Earliest);
    let (id, now) = (path_of(&mut world, VAN, "link1"), world.now);
    let van = &mut world.ends[VAN];
    van.path(id).set_standby(true, now).expect("open");
    van.path(id).set_keepalive(ms(50));
    world.run_for(ms(500));
    let swallowed = |world: &World| {
        let counters = world.status(VAN).paths[1].counters;
        counters.silences + counters.lost_packets
    };
    let mut swallowed_by = |interrupt: fn(&mut World)| {
        let before = swallowed(&world);
        for _ in 0..5 {
            world.ends[VAN].events.clear();
            interrupt(&mut world);
            world.run_for(ms(400));
            let is_suspect = |event: &Event| matches!(event, Event::PathChanged { path, state: PathState::Suspect, .. } if *path == id);
            assert_eq!(world.ends[VAN].events.iter().filter(|event| is_suspect(event)).count(), 1);
        }
        swallowed(&world) - before
    };
    let stall = |world: &mut World| world.links[1].stalled_until = Some(world.now + ms(100));
    let gap = |world: &mut World| {
        world.links[1].cut();
        world.run_for(ms(100));
        world.links[1].restore();
    };
    assert_eq!(swallowed_by(stall), 0);
    let swallowed = swallowed_by(gap);
    assert!((5..=15).contains(&swallowed), "one of each gap, or that and the probes in it: {swallowed}");
}

/// A link that has become so slow that a packet takes longer than a silence may be forwards what stands in its queue, and its probes stand
/// behind that. It works all the time, as each acknowledgement says, although all that it had was sent again over the other one.
#[test]
fn regression_a_link_that_becomes_slow_is_not_taken_for_dead() {
    let mut world =
        World::connected(vec![Link::new(5).mbit(20), Link::new(10).mbit(20)], SchedulerKind::Earliest);
    world.links[0].queue = ms(10_000);
    let mut sent = 0;
    let mut run = |world: &mut World, packets: u32| {
        for _ in 0..packets {
            world.send(VAN, &packet(VAN, TCP, 1, sent, 1000));
            world.run_for(ms(1));
            sent += 1;
        }
    };
    run(&mut world, 500);
    world.links[0].rate = Some(150_000);
    for moment in 0..200 {
        run(&mut world, 10);
        let state = world.path_states(VAN)["link0"];
        assert!(matches!(state, PathState::Active | PathState::Suspect), "moment {moment}: {state:?}");
    }
    world.run_for(ms(1000));
    assert!(
        world.flow_numbers(HQ, 1).into_iter().eq(0..sent),
        "all arrive soon, for none takes the link that is slow now"
    );
}

#[test]
fn ids_of_paths_are_used_again_under_other_keys() {
    let mut world = World::connected(vec![Link::new(10), Link::new(10)], SchedulerKind::Earliest);
    let config = |name: String| PathConfig { name, ..path_config(1) };
    let mut opened = 0;
    while opened < 1 << 15 {
        for _ in 0..120 {
            let id = world.add_path(config(format!("path {opened}"))).expect("there are ids");
            let now = world.now;
            world.ends[VAN].path(id).remove(now).expect("open");
            opened += 1;
        }
        // Until they are forgotten. All of it takes longer than a generation of keys lasts.
        let forgotten = |world: &World| world.status(VAN).paths.len() <= 2;
        assert!((0..60).any(|_| {
            world.run_for(Duration::from_secs(1));
            forgotten(&world)
        }));
    }
    let again = world.add_path(config("again".to_owned())).expect("there are ids");
    assert!(again.0 < 1000, "{again:?}");
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.path_states(VAN)["again"], PathState::Active);
    assert_eq!(world.path_states(HQ)["again"], PathState::Active);
}

/// A site tries another socket for a path that is silent. Meanwhile the peer, which has moved, is heard at the old one.
#[test]
fn a_silent_path_is_heard_where_it_last_answered() {
    let mut world = World::connected(vec![Link::new(10), Link::new(10)], SchedulerKind::Earliest);
    world.links[1].cut();
    let van = &mut world.ends[VAN];
    let path = van.site.peer(van.peer).expect("it is there").path_named("link0").expect("it is open").id();
    let elsewhere = PathAddress { socket: SocketId(1), local_ip: None, remote: world::address(1, HQ) };
    van.path(path).rebind(elsewhere, world.now);
    assert!(van.site.silent_paths().iter().any(|silent| silent.path == path && silent.address == elsewhere));
    world.send(HQ, &packet(HQ, TCP, 1, 0, 100));
    world.run_for(Duration::from_secs(1));
    assert_eq!(world.path_states(VAN)["link0"], PathState::Active);
    let van = &world.ends[VAN];
    assert_eq!(van.site.path_address(van.peer, path).map(|at| at.socket), Some(SocketId(0)));
    assert!(van.site.silent_paths().iter().all(|silent| silent.path != path));
}
