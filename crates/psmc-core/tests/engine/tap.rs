//! Inner packets that somebody looks at.

use std::time::Duration;

use psmc_core::{ClassMatch, Samples, SchedulerKind, TapConfig, Tapped};
use psmc_wire::PathId;

use crate::world::{HQ, Link, TCP, UDP, VAN, World, packet};

/// What has been seen at an end since this was last asked; nothing was dropped.
fn seen(world: &mut World, end: usize) -> Vec<Tapped> {
    let (packets, dropped) = world.ends[end].site.take_tapped();
    assert_eq!(dropped, 0);
    packets
}

fn send(world: &mut World, protocol: u8, number: u32) {
    world.send(VAN, &packet(VAN, protocol, 7, number, 400));
    world.run_for(Duration::from_millis(100));
}

fn paths(world: &World) -> Vec<PathId> {
    world.status(VAN).paths.iter().map(|path| path.id).collect()
}

#[test]
fn packets_are_seen_at_both_ends_with_the_paths_that_they_take() {
    let mut world = World::connected(vec![Link::new(10), Link::new(40)], SchedulerKind::Redundant);
    send(&mut world, TCP, 0);
    for end in [VAN, HQ] {
        assert_eq!(seen(&mut world, end), [], "nobody has looked on");
        world.ends[end].site.set_tap(Some(TapConfig::default()));
    }
    send(&mut world, TCP, 1);
    let [sent, come] = [VAN, HQ].map(|end| seen(&mut world, end));
    let expected = packet(VAN, TCP, 7, 1, 400);
    let paths = paths(&world);
    assert_eq!(sent.iter().map(|tapped| tapped.passage.path).collect::<Vec<_>>(), paths);
    assert!(sent.iter().all(|tapped| tapped.passage.is_sent && tapped.packet == expected));
    // Both copies have come; the second one is not delivered, and seen all the same.
    assert_eq!(come.iter().map(|tapped| tapped.passage.path).collect::<Vec<_>>(), paths);
    assert!(come.iter().all(|tapped| !tapped.passage.is_sent && tapped.packet == expected));
    assert!(come[0].at < come[1].at);

    world.ends[VAN].site.set_tap(None);
    send(&mut world, TCP, 2);
    assert_eq!(seen(&mut world, VAN), []);
}

#[test]
fn only_what_is_wanted_is_seen() {
    let mut world = World::connected(vec![Link::new(10), Link::new(40)], SchedulerKind::Redundant);
    let paths = paths(&world);
    let udp = ClassMatch { protocols: vec![UDP], ..ClassMatch::default() };
    let none = ClassMatch { ports: vec![1..=1], ..ClassMatch::default() };
    for (config, expected) in [
        (TapConfig { path: Some(paths[1]), ..TapConfig::default() }, 2),
        (TapConfig { packets: vec![udp.clone()], ..TapConfig::default() }, 2),
        (
            TapConfig {
                packets: vec![none.clone(), udp.clone()],
                path: Some(paths[0]),
                ..TapConfig::default()
            },
            1,
        ),
        (TapConfig { packets: vec![none], ..TapConfig::default() }, 0),
    ] {
        let peer = world.ends[VAN].peer;
        world.ends[VAN].site.set_tap(Some(TapConfig { peer: Some(peer), ..config.clone() }));
        send(&mut world, TCP, 1);
        send(&mut world, UDP, 2);
        assert_eq!(seen(&mut world, VAN).len(), expected, "{config:?}");
    }
}

#[test]
fn whoever_does_not_look_holds_up_nothing_and_misses_what_there_is_no_room_for() {
    let mut world = World::connected(vec![Link::new(1)], SchedulerKind::Earliest);
    world.ends[VAN].site.set_tap(Some(TapConfig::default()));
    for number in 0..12_000 {
        world.send(VAN, &packet(VAN, TCP, 7, number, 1000));
        world.run_for(Duration::from_micros(200));
    }
    world.run_for(Duration::from_secs(1));
    let (packets, dropped) = world.ends[VAN].site.take_tapped();
    assert_eq!(packets.len(), (10 << 20) / 1000);
    assert_eq!(packets.len() as u64 + dropped, 12_000);
    assert!(world.flow_numbers(HQ, 7).into_iter().eq(0..12_000));
}

#[test]
fn samples_say_where_packets_come_from_and_go_while_they_are_wanted() {
    let mut world = World::connected(vec![Link::new(10)], SchedulerKind::Earliest);
    send(&mut world, TCP, 0);
    for end in [VAN, HQ] {
        assert_eq!(world.ends[end].site.take_samples(), Samples::default(), "nobody has asked for them");
        world.ends[end].site.set_sampling(true);
        // Once more forgets nothing.
        world.ends[end].site.set_sampling(true);
    }
    send(&mut world, TCP, 1);
    let [sent, come] = [VAN, HQ].map(|end| world.ends[end].site.take_samples());
    let ([sent], [come]) = (&sent.packets[..], &come.packets[..]) else { panic!("{sent:?}, {come:?}") };
    assert!(sent.passage.is_sent && !come.passage.is_sent);
    assert_eq!((sent.source, sent.destination, sent.bytes), (come.source, come.destination, 400));
    assert_ne!(sent.source, sent.destination);
    world.ends[VAN].site.set_sampling(false);
    send(&mut world, TCP, 2);
    assert_eq!(world.ends[VAN].site.take_samples(), Samples::default());
}
