//! Classes with a profile, and one that is for those who build no queue, in virtual time.

use std::time::Duration;

use psmc_core::condition::{AssuredClass, Conditioning, Mode, Profile};
use psmc_core::{ClassConfig, SchedulerKind};
use psmc_wire::datagram::Header;

use crate::world::{HQ, Link, UDP, VAN, World, packet};

/// Best effort is conditioned: 2 Mb/s.
fn conditioned() -> Vec<ClassConfig> {
    let profile = Profile { rate: 2_000_000, burst: 16_000 };
    let conditioning = Some(Conditioning { profile, mode: Mode::Adaptive, mark: AssuredClass::new(1) });
    let mut classes = ClassConfig::defaults();
    classes.last_mut().expect("best effort").conditioning = conditioning;
    classes
}

/// Sends for `time` a packet of `len` bytes each `interval`, of one flow with this code point.
fn send(world: &mut World, time: Duration, interval: Duration, len: usize, dscp: u8) {
    let end = world.now + time;
    for number in 0.. {
        let mut packet = packet(VAN, UDP, 7, number, len);
        packet[1] |= dscp << 2;
        world.send(VAN, &packet);
        world.run_for(interval);
        if world.now >= end {
            return;
        }
    }
}

#[test]
fn marks_are_in_datagrams_and_in_packets_as_they_were_counted() {
    let links = vec![Link::new(10), Link::new(12)];
    let mut world = World::connected_with(links, SchedulerKind::Earliest, conditioned());
    world.ends[HQ].delivered.clear();
    let mut datagrams = [0_u64; 4];
    for _ in 0..100 {
        world.tapped.clear();
        send(&mut world, Duration::from_millis(20), Duration::from_micros(1333), 1000, 0);
        let to_hq = world.tapped.iter().filter(|(_, to, datagram)| *to == HQ && datagram.len() > 900);
        for (.., datagram) in to_hq {
            let header = Header::parse(datagram).expect("a datagram of the session");
            datagrams[usize::from(header.marks.drop_precedence)] += 1;
        }
    }
    world.run_for(Duration::from_secs(1));
    let status = world.ends[VAN].site.conditioners().remove(0);
    let marked = status.marked.map(|marked| marked.packets);
    println!("marked {marked:?}, of {datagrams:?} datagrams");
    // Three times the profile.
    assert!(marked.iter().all(|&packets| packets > 300), "{marked:?}");
    let packets = world.packets(HQ);
    for (dscp, marked) in [10, 12, 14].into_iter().zip(marked) {
        let count = packets.iter().filter(|packet| packet[1] >> 2 == dscp).count();
        assert_eq!(count as u64, marked, "DSCP {dscp}");
    }
    assert!(packets.iter().all(|packet| packet[1] & 0b11 == 0b10), "ECN is as it was sent");
    assert_eq!(datagrams[3], 0);
    for (datagrams, marked) in datagrams.into_iter().zip(marked) {
        // But for those that were on their way when nobody looked.
        assert!(datagrams.abs_diff(marked) <= 20, "{datagrams} datagrams of {marked} packets");
    }
}

#[test]
fn a_reload_keeps_counters_and_what_is_known() {
    let mut world = World::connected_with(vec![Link::new(10)], SchedulerKind::Earliest, conditioned());
    send(&mut world, Duration::from_millis(500), Duration::from_millis(1), 1000, 0);
    let counted = |world: &World| world.ends[VAN].site.conditioners()[0].marked;
    let before = counted(&world);
    world.ends[VAN].site.set_classes(conditioned());
    assert_eq!(counted(&world), before);
    let mut other = conditioned();
    if let Some(conditioning) = &mut other[2].conditioning {
        conditioning.mode = Mode::Standard;
    }
    world.ends[VAN].site.set_classes(other);
    assert_eq!(counted(&world), before);
    send(&mut world, Duration::from_millis(500), Duration::from_millis(1), 1000, 0);
    assert!(counted(&world)[0].packets > before[0].packets);
    world.ends[VAN].site.set_classes(ClassConfig::defaults());
    assert!(world.ends[VAN].site.conditioners().is_empty());
}

/// What packets became that say that they build no queue.
fn put_out(interval: Duration, len: usize) -> (u64, u64) {
    let mut world = World::connected(vec![Link::new(10).mbit(4)], SchedulerKind::Earliest);
    send(&mut world, Duration::from_secs(5), interval, len, 45);
    let voice = world.status(VAN).classes.into_iter().find(|class| class.name == "voice").expect("there is");
    (voice.counters.put_out, voice.counters.passed)
}

#[test]
fn nqb_goes_with_voice_unless_it_builds_a_queue() {
    let (out, passed) = put_out(Duration::from_millis(20), 200);
    assert_eq!(out, 0);
    assert!(passed > 240, "{passed}");
    // Twice as much as the link carries.
    let (out, passed) = put_out(Duration::from_millis(1), 1000);
    println!("{out} put out, {passed} passed");
    assert!(out > 10 * passed, "{out} put out, {passed} passed");
}
