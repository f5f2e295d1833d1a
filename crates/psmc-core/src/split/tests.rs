use std::time::{Duration, Instant};

use proptest::prelude::*;
use psmc_wire::frame::DataFrame;
use psmc_wire::{Bucket, Checksum, FlowSeq, PacketBuf};

use super::*;
use crate::classify::{ClassId, RepairKind};
use crate::egress::Role;

fn bucket(number: u16) -> Bucket {
    Bucket::new(number).expect("a bucket")
}

fn queued(len: usize, now: Instant) -> Queued {
    let mut packet = PacketBuf::default();
    let bytes: Vec<u8> = (0..=250).cycle().take(len).collect();
    packet.fill(&bytes);
    Queued {
        packet,
        part: None,
        bucket: bucket(7),
        class: ClassId::default(),
        seq: Some(FlowSeq(9)),
        ordered: true,
        role: Role::Packet(RepairKind::Auto),
        marked: Default::default(),
        precedence: crate::condition::Precedence::Dp0,
        queued_at: now,
        turn: 0,
        flow: crate::flows::FlowRef::default(),
    }
}

/// Cuts a packet for rooms of these sizes in turn, the last one again and again.
fn parts(whole: Queued, rooms: &[usize], pool: &mut BufPool) -> Vec<Queued> {
    let mut parts = vec![whole];
    for at in 0.. {
        let room = rooms[at.min(rooms.len() - 1)];
        let Some(rest) = parts.last_mut().and_then(|last| cut(last, room, pool)) else { break };
        parts.push(rest);
    }
    parts
}

fn frame(queued: &Queued) -> DataFrame<'_> {
    let Queued { bucket, ordered, part, .. } = *queued;
    let seq = queued.seq.expect("a place");
    DataFrame {
        bucket,
        seq,
        ordered,
        repaired: true,
        checksum: Checksum::Complete,
        part,
        packet: queued.packet.packet(),
    }
}

fn insert(assembly: &mut Assembly, queued: &Queued, now: Instant, pool: &mut BufPool) -> Option<PacketBuf> {
    assembly.insert(&frame(queued), queued.part.expect("a part"), now, pool)
}

fn raw(place: u32, offset: u16, total: u16, bytes: &[u8]) -> (DataFrame<'_>, Part) {
    let part = Part { offset, total };
    let (seq, part_field) = (FlowSeq(place), Some(part));
    let data = DataFrame {
        bucket: bucket(1),
        seq,
        ordered: true,
        repaired: true,
        checksum: Checksum::Complete,
        part: part_field,
        packet: bytes,
    };
    (data, part)
}

#[test]
fn what_fits_is_left_alone() {
    let (now, mut pool) = (Instant::now(), BufPool::new(1500, 16));
    let mut packet = queued(1000, now);
    assert!(cut(&mut packet, 1000, &mut pool).is_none());
    assert_eq!((packet.part, packet.packet.len()), (None, 1000));
    let rest = cut(&mut packet, 999, &mut pool).expect("a rest");
    assert_eq!(packet.packet.len() + rest.packet.len(), 1000);
    assert!(cut(&mut packet, 999, &mut pool).is_none(), "a part that fits is cut once");
}

#[test]
fn an_incomplete_packet_is_given_up_after_a_second() {
    let (start, mut pool) = (Instant::now(), BufPool::new(1500, 16));
    let mut assembly = Assembly::default();
    let (data, part) = raw(1, 0, 100, &[1; 50]);
    assert!(assembly.insert(&data, part, start, &mut pool).is_none());
    let end = start + Duration::from_secs(1);
    assert_eq!(assembly.next_timeout(), Some(end));
    assembly.handle_timeout(end - Duration::from_millis(1), &mut pool);
    assert_eq!(assembly.counters().waiting, 1);
    assembly.handle_timeout(end, &mut pool);
    let counters = assembly.counters();
    assert_eq!((counters.waiting, counters.incomplete, assembly.next_timeout()), (0, 1, None));
}

#[test]
fn what_has_come_whole_leaves_nothing_of_its_parts() {
    let (now, mut pool) = (Instant::now(), BufPool::new(1500, 16));
    let mut assembly = Assembly::default();
    for place in [1, 2] {
        let (data, part) = raw(place, 0, 100, &[1; 50]);
        assembly.insert(&data, part, now, &mut pool);
        assembly.forget(data.bucket, data.seq, &mut pool);
        assembly.forget(data.bucket, data.seq, &mut pool);
    }
    assert_eq!((assembly.counters(), assembly.bytes()), (AssemblyCounters::default(), 0));
    assert_eq!(assembly.next_timeout(), None);
}

#[test]
fn parts_that_contradict_each_other_are_refused() {
    let (now, mut pool) = (Instant::now(), BufPool::new(1500, 16));
    let mut assembly = Assembly::default();
    for (offset, total) in [(0, 100), (50, 101), (50, 99)] {
        let (data, part) = raw(1, offset, total, &[1; 40]);
        assert!(assembly.insert(&data, part, now, &mut pool).is_none());
    }
    assert_eq!((assembly.counters().refused, assembly.counters().waiting), (2, 1));
}

#[test]
fn a_packet_with_too_many_holes_is_given_up() {
    let (now, mut pool) = (Instant::now(), BufPool::new(1500, 16));
    let mut assembly = Assembly::default();
    for hole in 0..65 {
        let (data, part) = raw(1, hole * 2, 1000, &[1]);
        assembly.insert(&data, part, now, &mut pool);
    }
    let counters = assembly.counters();
    assert_eq!((counters.refused, counters.incomplete, counters.waiting), (1, 1, 0));
}

#[test]
fn the_oldest_gives_way_when_too_much_waits() {
    let (now, mut pool) = (Instant::now(), BufPool::new(1500, 16));
    let mut assembly = Assembly::default();
    for (total, most) in [(1000, 4096), (u16::MAX, 128)] {
        assembly.clear(&mut pool);
        for place in 0..5000 {
            let (data, part) = raw(place, 0, total, &[1]);
            let at = now + Duration::from_micros(place.into());
            assembly.insert(&data, part, at, &mut pool);
        }
        assert!(assembly.counters().waiting <= most && assembly.counters().waiting > most / 2);
        let (data, part) = raw(4999, 1, total, &[1]);
        let before = assembly.counters();
        assembly.insert(&data, part, now, &mut pool);
        assert_eq!(assembly.counters(), before, "the newest is still there");
    }
}

proptest! {
    /// Parts cut for paths that differ, and cut anew when they are sent again, in any order and more than once.
    #[test]
    fn parts_make_the_packet_again(
        len in 21usize..9000,
        first in proptest::collection::vec(20usize..1500, 1..4),
        second in proptest::collection::vec(300usize..1500, 1..4),
        order in any::<proptest::sample::Index>(),
        shuffle in proptest::collection::vec(any::<u32>(), 1000),
    ) {
        let (now, mut pool) = (Instant::now(), BufPool::new(1500, 16));
        let mut all = parts(queued(len, now), &first, &mut pool);
        all.extend(parts(queued(len, now), &second, &mut pool));
        let mut all: Vec<_> = all.into_iter().filter(|queued| queued.part.is_some()).zip(shuffle).collect();
        all.sort_by_key(|(_, key)| *key);
        if !all.is_empty() {
            let again = order.index(all.len());
            all.rotate_left(again);
        }
        let mut assembly = Assembly::default();
        let mut whole = None;
        for (part, _) in &all {
            prop_assert!(part.len_in_frame() <= 1500);
            whole = whole.or(insert(&mut assembly, part, now, &mut pool));
        }
        let refused = assembly.counters().refused > 0;
        let fits = first[0].max(second[0]) >= len;
        prop_assert!(refused || fits || whole.is_some_and(|it| it.packet() == queued(len, now).packet.packet()));
    }

    /// Whatever an authentic peer sends, bounds hold and what is complete has the length that was stated.
    #[test]
    fn no_parts_make_it_panic_or_grow(
        inputs in proptest::collection::vec((0u32..4, 0u16..200, 1u16..400, 1usize..200, 0u64..400), 0..400),
    ) {
        let (start, mut pool) = (Instant::now(), BufPool::new(100, 16));
        let mut assembly = Assembly::default();
        let mut now = start;
        for (place, offset, total, len, wait) in inputs {
            now += Duration::from_millis(wait);
            assembly.handle_timeout(now, &mut pool);
            let bytes = vec![7; len];
            let (data, part) = raw(place, offset, total, &bytes);
            if let Some(whole) = assembly.insert(&data, part, now, &mut pool) {
                prop_assert_eq!(whole.len(), usize::from(total));
                prop_assert!(whole.packet().iter().all(|&byte| byte == 7));
            }
            prop_assert!(assembly.counters().waiting <= 4);
        }
        assembly.clear(&mut pool);
        prop_assert_eq!((assembly.bytes(), assembly.next_timeout()), (0, None));
    }
}
