use std::time::{Duration, Instant};

use proptest::prelude::*;
use psmc_wire::frame::{Frame, FrameWriter, Frames, RepairFrame};
use psmc_wire::{Bucket, BufPool, FlowSeq, PathId};

use super::*;
use crate::classify::{ClassId, RepairKind};
use crate::egress::{Queued, Role};

const PATH: PathId = PathId(0);

fn queued(bucket: u16, seq: u32, ordered: bool, packet: &[u8], now: Instant) -> Queued {
    let mut buf = psmc_wire::PacketBuf::with_capacity(packet.len());
    buf.fill(packet);
    Queued {
        packet: buf,
        part: None,
        bucket: Bucket::new(bucket).expect("a small number"),
        class: ClassId::default(),
        seq: Some(FlowSeq(seq)),
        ordered,
        role: Role::Packet(RepairKind::Fec),
        marked: Default::default(),
        precedence: crate::condition::Precedence::Dp0,
        queued_at: now,
        turn: 0,
        flow: crate::flows::FlowRef::default(),
    }
}

/// The frames of the repairs of one group, as they are in datagrams that hold `room` bytes behind a place.
fn repairs_of(packets: &[Queued], coder: &mut Coder, room: usize, now: Instant) -> Vec<Vec<u8>> {
    for packet in packets {
        coder.add(packet, PATH, now);
    }
    let mut frames = Vec::new();
    let send = |repair: Repair<'_>| {
        assert!(repair.body.len() <= room);
        let mut bytes = vec![0; repair.body.len() + 7];
        let writer = FrameWriter::new(&mut bytes);
        writer.last_repair(repair.place.bucket, repair.place.seq(), repair.body).expect("it fits");
        frames.push(bytes);
    };
    coder.close(|body| body <= room, send);
    frames
}

fn repair_in(bytes: &[u8]) -> RepairFrame<'_> {
    let Some(Ok(Frame::Repair(frame))) = Frames::new(bytes).next() else { panic!("no repair") };
    frame
}

/// A receiver to which a repair has come before, so that it keeps what arrives.
fn receiver(pool: &mut BufPool, now: Instant) -> Decoder {
    let mut decoder = Decoder::default();
    let first = [queued(9, 7, true, b"before", now)];
    for bytes in repairs_of(&first, &mut Coder::default(), 1400, now) {
        decoder.on_repair(&repair_in(&bytes), &mut Vec::new(), pool, now);
    }
    decoder
}

#[derive(Clone, Debug)]
struct Sent {
    bucket: u16,
    ordered: bool,
    packet: Vec<u8>,
}

fn sent() -> impl Strategy<Value = Sent> {
    let packet = prop::collection::vec(any::<u8>(), 1..1400);
    (0u16..4, any::<bool>(), packet).prop_map(|(bucket, ordered, packet)| Sent { bucket, ordered, packet })
}

proptest! {
    /// As many packets as there are repairs may be lost, whichever they are; they come back as they were, once,
    /// whether packets or repairs come first.
    #[test]
    fn what_is_lost_is_recovered(
        sent in prop::collection::vec(sent(), 1..20),
        start: u32,
        room in 1300usize..1420,
        order in any::<prop::sample::Index>(),
        victims in prop::collection::vec(any::<prop::sample::Index>(), 1..3),
    ) {
        let now = Instant::now();
        let mut pool = BufPool::new(1500, 100);
        let packets: Vec<_> = sent.iter().enumerate().map(|(i, sent)| {
            let seq = start.wrapping_add(u32::try_from(i).expect("few"));
            queued(sent.bucket, seq, sent.ordered, &sent.packet, now)
        }).collect();
        let frames = repairs_of(&packets, &mut Coder::default(), room, now);
        let frame = repair_in(&frames[0]);
        prop_assert_eq!(frame.places().count(), packets.len());
        let repairs = usize::from(frame.repairs / frame.cells);
        prop_assert_eq!(frames.len(), repairs * usize::from(frame.cells));
        let mut lost: Vec<_> = victims.iter().map(|victim| victim.index(packets.len())).collect();
        lost.sort_unstable();
        lost.dedup();
        lost.truncate(repairs);

        let mut decoder = receiver(&mut pool, now);
        let mut recovered = Vec::new();
        // Some repairs come before some packets.
        let early = order.index(packets.len() + 1);
        for (i, packet) in packets.iter().enumerate() {
            if i == early {
                for bytes in &frames {
                    prop_assert!(decoder.on_repair(&repair_in(bytes), &mut recovered, &mut pool, now));
                }
            }
            if !lost.contains(&i) {
                let place = Place::new((packet.bucket, packet.seq.expect("it has a place")));
                let known = (place, packet.ordered, packet.packet.packet());
                decoder.on_packet(known, &mut recovered, &mut pool, now);
            }
        }
        if early == packets.len() {
            for bytes in &frames {
                decoder.on_repair(&repair_in(bytes), &mut recovered, &mut pool, now);
            }
        }
        for &victim in &lost {
            let packet = &packets[victim];
            let place = Place::new((packet.bucket, packet.seq.expect("it has a place")));
            let found: Vec<_> = recovered.iter().filter(|found| found.place == place).collect();
            prop_assert_eq!(found.len(), 1, "packet {} of {:?}", victim, &lost);
            prop_assert_eq!(found[0].packet.packet(), packet.packet.packet());
            prop_assert_eq!(found[0].ordered, packet.ordered);
        }
    }

    /// A peer may send what it likes: nothing panics, and little is kept.
    #[test]
    fn no_repair_makes_the_receiver_panic(
        bodies in prop::collection::vec((0u32..4, 0u8..4, 0u8..5, 0u8..4, 1u8..70, prop::collection::vec(any::<u8>(), 1..40)), 1..60),
    ) {
        let now = Instant::now();
        let mut pool = BufPool::new(1500, 100);
        let mut decoder = receiver(&mut pool, now);
        for (seq, index, repairs, shape, count, shard) in bodies {
            let mut body = vec![0, 0, index, repairs, shape << 6, count];
            body.extend_from_slice(&shard);
            let mut bytes = vec![0; body.len() + 7];
            let bucket = Bucket::new(1).expect("a small number");
            FrameWriter::new(&mut bytes).last_repair(bucket, FlowSeq(seq), &body).expect("it fits");
            let mut recovered = Vec::new();
            if let Some(Ok(Frame::Repair(frame))) = Frames::new(&bytes).next() {
                decoder.on_repair(&frame, &mut recovered, &mut pool, now);
            }
            let known = (Place::new((bucket, FlowSeq(seq + 1))), true, &shard[..]);
            decoder.on_packet(known, &mut recovered, &mut pool, now);
        }
    }
}

#[test]
fn groups_end_in_time_and_grow_with_the_rate() {
    let start = Instant::now();
    for (interval_us, least, most) in [(20_000, 1, 1), (1000, 9, 11), (100, 40, 48)] {
        let mut coder = Coder::default();
        let (mut now, mut sizes, mut size) = (start, Vec::new(), 0);
        for seq in 0..1000 {
            now += Duration::from_micros(interval_us);
            // The timer goes off between two packets.
            let due = coder.due_at().is_some_and(|at| at <= now);
            if due {
                sizes.push(std::mem::take(&mut size));
                coder.close(|_| true, |_| {});
            }
            size += 1;
            if coder.add(&queued(0, seq, true, b"packet", now), PATH, now) {
                sizes.push(std::mem::take(&mut size));
                coder.close(|_| true, |_| {});
            }
        }
        let settled = &sizes[10..];
        assert!(settled.iter().all(|size| (least..=most).contains(size)), "{interval_us}: {settled:?}");
    }
}

#[test]
fn solving_has_a_limit_in_time() {
    let now = Instant::now();
    let mut pool = BufPool::new(1500, 100);
    let (mut decoder, mut coder) = (receiver(&mut pool, now), Coder::default());
    let mut recovered = Vec::new();
    for seq in 0..1000 {
        let packets = [queued(0, seq, true, b"lost", now)];
        for bytes in repairs_of(&packets, &mut coder, 1400, now) {
            decoder.on_repair(&repair_in(&bytes), &mut recovered, &mut pool, now);
        }
    }
    assert!((100..400).contains(&recovered.len()), "{} in no time", recovered.len());
}
