use proptest::prelude::*;

use super::*;
use crate::crypto::TAG_LEN;
use crate::datagram::DATAGRAM_OVERHEAD;
use crate::ids::{Bucket, FlowSeq, Label, StreamId};
use crate::ip::transport::Checksum;

fn written(room: usize, write: impl FnOnce(&mut FrameWriter<'_>) -> bool) -> Option<Vec<u8>> {
    let mut bytes = vec![0; room];
    let mut writer = FrameWriter::new(&mut bytes);
    let fits = write(&mut writer);
    let len = writer.len();
    bytes.truncate(len);
    fits.then_some(bytes)
}

fn only_frame(bytes: &[u8]) -> Frame<'_> {
    let mut frames = Frames::new(bytes);
    let frame = frames.next().expect("a frame").expect("well-formed");
    assert!(frames.next().is_none());
    frame
}

/// Disjoint runs that do not touch, largest first, as a receiver would report them.
fn runs() -> impl Strategy<Value = Vec<PacketRange>> {
    proptest::collection::vec((1u64..200, 1u64..200), 1..40).prop_map(|steps| {
        let mut next = 100_000u64;
        let range = |(gap, run): (u64, u64)| {
            let last = next - gap;
            next = last - run;
            PacketRange { first: PacketNumber(last - run + 1), last: PacketNumber(last) }
        };
        steps.into_iter().map(range).collect()
    })
}

proptest! {
    #[test]
    fn no_bytes_make_the_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..256)) {
        for frame in Frames::new(&bytes).flatten() {
            if let Frame::Ack(ack) = frame {
                let _ = ack.ranges(PacketNumber(5)).count();
            }
        }
    }

    #[test]
    fn an_acknowledgement_survives_the_wire(runs in runs(), delay_us in 0u32..500_000, received_at_us: u32, ect0: u16, ce: u16) {
        let header = AckHeader {
            path: PathId(7),
            largest: runs[0].last.truncated(),
            delay_us,
            received_at_us,
            ect0,
            congestion_experienced: ce,
        };
        let bytes = written(1400, |w| w.ack(&header, runs.iter().copied())).expect("fits");
        let Frame::Ack(ack) = only_frame(&bytes) else { panic!("not an acknowledgement") };
        prop_assert_eq!(AckHeader { delay_us: delay_us / 8 * 8, ..header }, ack.header);
        let read: Vec<_> = ack.ranges(PacketNumber(100_000)).collect();
        prop_assert_eq!(&read[..], &runs[..runs.len().min(MAX_ACK_GAPS + 1)]);
    }

    #[test]
    fn an_acknowledgement_in_a_small_room_says_less_but_nothing_false(runs in runs(), room in 0usize..160) {
        let header = AckHeader {
            path: PathId(0),
            largest: runs[0].last.truncated(),
            delay_us: 0,
            received_at_us: 0,
            ect0: 0,
            congestion_experienced: 0,
        };
        if let Some(bytes) = written(room, |w| w.ack(&header, runs.iter().copied())) {
            let Frame::Ack(ack) = only_frame(&bytes) else { panic!("not an acknowledgement") };
            let read: Vec<_> = ack.ranges(PacketNumber(100_000)).collect();
            prop_assert_eq!(&read[..], &runs[..read.len()]);
        }
    }

    #[test]
    fn a_key_exchange_survives_the_wire(regarding: u32, label: u32, public_key: [u8; EXCHANGE_KEY_LEN]) {
        let frame = RekeyFrame { regarding: Label(regarding), label: Label(label), public_key };
        let bytes = written(82, |w| w.rekey(&frame) && w.rekeyed(&frame)).expect("fits exactly");
        let frames: Vec<_> = Frames::new(&bytes).map(|frame| frame.expect("well-formed")).collect();
        assert!(matches!(frames[..], [Frame::Rekey(asked), Frame::Rekeyed(told)] if asked == frame && told == frame));
        prop_assert!(Frames::new(&bytes[..40]).any(|frame| frame.is_err()), "what is cut off is no frame");
    }

    #[test]
    fn data_survives_the_wire(
        number in 0..crate::ids::BUCKETS,
        seq: u32,
        ordered: bool,
        repaired: bool,
        partial: bool,
        place: Option<(u16, u16)>,
        packet in proptest::collection::vec(any::<u8>(), 1..1500),
    ) {
        let bucket = Bucket::new(number).expect("below the count");
        let part = place.map(|(offset, behind)| {
            let len = u16::try_from(packet.len()).expect("a short packet");
            let offset = offset.min(u16::MAX - len);
            Part { offset, total: (offset + len).saturating_add(behind) }
        });
        let checksum = if partial { Checksum::Partial } else { Checksum::Complete };
        let extra = if part.is_some() { PART_OVERHEAD } else { 0 };
        let frame = DataFrame { bucket, seq: FlowSeq(seq), ordered, repaired, checksum, part, packet: &packet };
        let bytes = written(2000, |w| w.data(&frame)).expect("fits");
        prop_assert_eq!(bytes.len(), packet.len() + DATA_OVERHEAD_WITH_LENGTH + extra);
        assert!(matches!(only_frame(&bytes), Frame::Data(read) if read == frame));

        let mut room = vec![0; packet.len() + DATA_OVERHEAD + extra];
        let len = FrameWriter::new(&mut room).last_data(&frame).expect("fits exactly");
        prop_assert_eq!(len, room.len());
        assert!(matches!(only_frame(&room), Frame::Data(read) if read == frame));
    }
}

proptest! {
    #[test]
    fn bytes_of_a_stream_survive_the_wire(
        id: u32,
        offset: u32,
        fin: bool,
        bytes in proptest::collection::vec(any::<u8>(), 1..1500),
    ) {
        let frame = StreamFrame { id: StreamId(id), offset, fin, bytes: &bytes };
        let written = written(2000, |w| w.stream(&frame)).expect("fits");
        prop_assert_eq!(written.len(), bytes.len() + STREAM_OVERHEAD_WITH_LENGTH);
        assert!(matches!(only_frame(&written), Frame::Stream(read) if read == frame));
        let mut room = vec![0; bytes.len() + STREAM_OVERHEAD];
        let len = FrameWriter::new(&mut room).last_stream(&frame).expect("fits exactly");
        prop_assert_eq!(len, room.len());
        assert!(matches!(only_frame(&room), Frame::Stream(read) if read == frame));
        let small = &mut room[1..];
        prop_assert_eq!(FrameWriter::new(small).last_stream(&frame), None);
    }

    #[test]
    fn what_is_said_of_streams_survives_the_wire(
        id: u32,
        credit: u32,
        dscp in 0u8..64,
        hosts: ([u8; 4], [u8; 4]),
        ports in (1u16.., 1u16..),
        outcome in proptest::sample::select(StreamOutcome::ALL.to_vec()),
    ) {
        let id = StreamId(id);
        let opening = StreamOpening { client: (hosts.0, ports.0).into(), server: (hosts.1, ports.1).into(), dscp };
        let all = [
            StreamControl::Open { id, credit, opening },
            StreamControl::Answer { id, outcome, credit },
            StreamControl::Credit { id, limit: credit },
            StreamControl::Reset { id },
        ];
        let mut bytes = Vec::new();
        for control in all {
            control.encode(&mut bytes);
            assert!(matches!(only_frame(&bytes), Frame::StreamControl(read) if read == control));
            for len in 1..bytes.len() {
                prop_assert!(Frames::new(&bytes[..len]).next().is_some_and(|frame| frame.is_err()));
            }
        }
    }
}

#[test]
fn streams_that_make_no_sense_are_refused() {
    let is_refused =
        |bytes: &[u8]| matches!(Frames::new(bytes).next(), Some(Err(crate::Malformed::Illegal(_))));
    // No bytes and no end, an outcome that there is not, a client and a server of two families.
    assert!(is_refused(&[0x60, 0, 0, 0, 1, 0, 0, 0, 0]));
    assert!(!is_refused(&[0x62, 0, 0, 0, 1, 0, 0, 0, 0]));
    assert!(is_refused(&[0x69, 0, 0, 0, 1, 6, 0, 0, 0, 0]));
    let mut bytes = Vec::new();
    let [client, server] = ["10.0.0.1:1", "[fd00::1]:1"].map(|address| address.parse().expect("an address"));
    let opening = StreamOpening { client, server, dscp: 0 };
    StreamControl::Open { id: StreamId(1), credit: 0, opening }.encode(&mut bytes);
    assert!(is_refused(&bytes));
}

#[test]
fn a_repair_survives_the_wire() {
    let bucket = |number| Bucket::new(number).expect("a small number");
    let runs = [
        Run { bucket: bucket(3), first: FlowSeq(u32::MAX), count: 2 },
        Run { bucket: bucket(5), first: FlowSeq(7), count: 1 },
    ];
    let mut body = Vec::new();
    RepairFrame::write_body(&mut body, 9, (1, 4), 2, &runs, b"shard!");
    assert_eq!(body.len(), RepairFrame::body_len(2, 6));
    let mut bytes = vec![0; 7 + body.len()];
    let len = FrameWriter::new(&mut bytes).last_repair(bucket(3), FlowSeq(u32::MAX), &body);
    assert_eq!(len, Some(bytes.len()));
    let Frame::Repair(frame) = only_frame(&bytes) else { panic!("no repair") };
    let RepairFrame { group, index, repairs, cells, shard, .. } = frame;
    assert_eq!((group, index, repairs, cells, shard), (9, 1, 4, 2, &b"shard!"[..]));
    let places: Vec<_> = frame.places().collect();
    assert_eq!(places, [(bucket(3), FlowSeq(u32::MAX)), (bucket(3), FlowSeq(0)), (bucket(5), FlowSeq(7))]);
    // No shard, no packets, an index beyond the number of repairs.
    let illegal: [&[u8]; 3] = [&[0, 0, 0, 1, 0, 1], &[0, 0, 0, 1, 0, 0, 9], &[0, 0, 1, 1, 0, 1, 9]];
    for body in illegal {
        let mut bytes = vec![0; 7 + body.len()];
        FrameWriter::new(&mut bytes).last_repair(bucket(0), FlowSeq(0), body).expect("fits exactly");
        assert!(matches!(Frames::new(&bytes).next(), Some(Err(crate::Malformed::Illegal(_)))), "{body:?}");
    }
}

#[test]
fn the_small_frames_survive_the_wire() {
    let stats = PathStats { packets: 1, bytes: 2, owd_min_us: 3, owd_smoothed_us: 4, jitter_us: 5 };
    let usage = PathUseFrame { path: PathId(4), sequence: 5, usage: PathUse::Closed };
    let bytes = written(100, |w| {
        w.ping()
            && w.path_challenge([1; 8])
            && w.path_response([2; 8])
            && w.path_stats(PathId(3), &stats)
            && w.path_use(usage)
    })
    .expect("fits");
    let frames: Vec<_> = Frames::new(&bytes).map(|frame| frame.expect("well-formed")).collect();
    assert!(matches!(
        frames[..],
        [
            Frame::Ping,
            Frame::PathChallenge([1, ..]),
            Frame::PathResponse([2, ..]),
            Frame::PathStats(PathId(3), read),
            Frame::PathUse(read_use),
        ] if read == stats && read_use == usage
    ));
}

#[test]
fn runs_below_zero_end_an_acknowledgement() {
    let header = AckHeader {
        path: PathId(0),
        largest: 3,
        delay_us: 0,
        received_at_us: 0,
        ect0: 0,
        congestion_experienced: 0,
    };
    let run = PacketRange { first: PacketNumber(0), last: PacketNumber(9) };
    let bytes = written(100, |w| w.ack(&header, std::iter::once(run))).expect("fits");
    let Frame::Ack(ack) = only_frame(&bytes) else { panic!("not an acknowledgement") };
    assert_eq!(ack.ranges(PacketNumber(4)).count(), 0);
}

#[test]
fn a_full_size_packet_costs_at_most_forty_bytes_beyond_udp() {
    const { assert!(DATAGRAM_OVERHEAD + DATA_OVERHEAD <= 40) };
    const { assert!(TAG_LEN == 16) };
}

#[test]
fn parts_that_are_empty_or_reach_beyond_their_packet_are_refused() {
    let part = |offset: u8, total: u8, bytes: &[u8]| {
        let head = [DATA_PART, 0, 1, 0, 0, 0, 2, 0, offset, 0, total];
        let bytes = [&head[..], bytes].concat();
        Frames::new(&bytes).all(|frame| frame.is_ok())
    };
    assert!(part(0, 5, &[1; 5]) && part(4, 5, &[1]));
    assert!(!part(0, 5, &[]) && !part(0, 5, &[1; 6]) && !part(5, 5, &[1]) && !part(6, 5, &[1]));
}

#[test]
fn unknown_frames_and_buckets_are_refused() {
    assert!(matches!(Frames::new(&[0xff]).next(), Some(Err(crate::Malformed::UnknownType(0xff)))));
    let out_of_range = [DATA, 0xff, 0xff, 0, 0, 0, 0];
    assert!(matches!(Frames::new(&out_of_range).next(), Some(Err(crate::Malformed::Illegal(_)))));
    let mut after_error = Frames::new(&[0xff, PING]);
    assert!(after_error.next().is_some_and(|frame| frame.is_err()));
    assert!(after_error.next().is_none());
}
