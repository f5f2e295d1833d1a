//! What comes from the network: datagrams, and the byte streams of control connections.

use psmc_wire::control::{self, LENGTH_LEN, Message};
use psmc_wire::datagram::{DATAGRAM_OVERHEAD, HEADER_LEN, Header, split_timestamp};
use psmc_wire::frame::{AckFrame, Frame, FrameWriter, Frames, MAX_ACK_GAPS, PacketRange, RepairFrame, Run};
use psmc_wire::hop::{
    HOP_HEADER_LEN, HOP_KEY_LEN, Hop, HopChallenge, HopHeader, HopKey, HopResponse, INNER,
    replace_hop_header, strip_hop_header,
};
use psmc_wire::relay;
use psmc_wire::{Label, PacketNumber};

/// A datagram as it would be after decryption: header, timestamp, frames. The place of the tag is parsed as frames too.
pub fn datagram(bytes: &[u8]) {
    if bytes.len() > MAX_DATAGRAM {
        return;
    }
    let Ok(header) = Header::parse(bytes) else { return };
    let mut again = header.encode().to_vec();
    again.resize(DATAGRAM_OVERHEAD, 0);
    assert_eq!(Header::parse(&again), Ok(header));

    let (_, frames) =
        split_timestamp(&bytes[HEADER_LEN..]).expect("a parsed datagram has room for a timestamp");
    // A frame is never longer when written again, but for a length field, and the header made room for that.
    let mut room = vec![0; bytes.len()];
    let mut failed = false;
    for frame in Frames::new(frames) {
        assert!(!failed, "frames after an error");
        match frame {
            Ok(frame) => survives_the_wire(&frame, &mut room),
            Err(_) => failed = true,
        }
    }
}

/// A control connection's byte stream, from its beginning.
pub fn control(mut bytes: &[u8]) {
    while let Some((field, rest)) = bytes.split_first_chunk::<LENGTH_LEN>() {
        let Ok(length) = control::message_length(*field) else {
            return;
        };
        let Some((body, rest)) = rest.split_at_checked(length) else {
            return;
        };
        bytes = rest;
        let Ok(message) = Message::decode(body) else {
            return;
        };
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(Message::decode(&again[LENGTH_LEN..]), Ok(message));
    }
}

/// A connection between a site and a relay, in either direction, from its beginning.
pub fn relay(mut bytes: &[u8]) {
    while let Some((field, rest)) = bytes.split_first_chunk::<LENGTH_LEN>() {
        let Ok(length) = control::message_length(*field) else {
            return;
        };
        let Some((body, rest)) = rest.split_at_checked(length) else {
            return;
        };
        bytes = rest;
        // What cannot be read is answered all the same, if it is a request.
        let request = relay::Message::request_of(body);
        assert_ne!(request, Some(relay::RequestId::CONNECTION));
        let Ok(message) = relay::Message::decode(body) else {
            return;
        };
        let mut again = Vec::new();
        message.encode(&mut again);
        assert_eq!(relay::Message::decode(&again[LENGTH_LEN..]), Ok(message));
    }
}

/// A datagram on its hop to a relay, which hands it on; or a relay's challenge, or the answer.
pub fn hop(bytes: &[u8]) {
    let to = Hop { label: Label(1), key: HopKey([7; HOP_KEY_LEN]) };
    if let Ok(challenge) = HopChallenge::parse(bytes) {
        let again = challenge.encode(&to);
        assert_eq!(HopChallenge::parse(&again), Ok(challenge));
        assert!(HopChallenge::is_authentic(&again, &to));
    }
    if let Ok(HopResponse { label, token }) = HopResponse::parse(bytes) {
        let again = HopResponse::encode(token, &Hop { label, ..to });
        assert_eq!(HopResponse::parse(&again), Ok(HopResponse { label, token }));
    }
    let Ok(header) = HopHeader::parse(bytes) else { return };
    let key = HopKey([7; HOP_KEY_LEN]);
    let number = PacketNumber(header.number.into());
    let mut datagram = bytes.to_vec();
    replace_hop_header(&mut datagram, &Hop { label: header.label, key: key.clone() }, number);
    let next = HopHeader::parse(&datagram).expect("our own header is well-formed");
    assert!(next.is_authentic(&datagram, number, &key));
    assert_eq!((next.label, next.marks, next.number), (header.label, header.marks, header.number));
    assert_eq!(next.hops_left, header.hops_left.saturating_sub(1));
    assert_eq!(datagram[INNER], bytes[INNER]);
    let length = datagram.len();
    let inner = strip_hop_header(&mut datagram);
    assert_eq!(inner.len() + HOP_HEADER_LEN, length);
    let inner = Header::parse(inner).expect("what a hop header is in front of is a datagram");
    assert_eq!(inner.marks, header.marks);
}

/// Asserts that `frame`, written again, reads back as the same.
fn survives_the_wire(frame: &Frame<'_>, room: &mut [u8]) {
    let mut writer = FrameWriter::new(room);
    let written = match *frame {
        Frame::Padding => return,
        Frame::Ack(ack) => return ack_survives_the_wire(&ack, room),
        Frame::Ping => writer.ping(),
        Frame::PathStats(path, stats) => writer.path_stats(path, &stats),
        Frame::PathChallenge(token) => writer.path_challenge(token),
        Frame::PathResponse(token) => writer.path_response(token),
        Frame::PathUse(path_use) => writer.path_use(path_use),
        Frame::Rekey(frame) => writer.rekey(&frame),
        Frame::Rekeyed(frame) => writer.rekeyed(&frame),
        Frame::Data(data) => writer.data(&data),
        Frame::Stream(bytes) => writer.stream(&bytes),
        Frame::StreamControl(control) => {
            let mut bytes = Vec::new();
            control.encode(&mut bytes);
            writer.raw(&bytes)
        }
        Frame::Repair(repair) => return repair_survives_the_wire(&repair, room),
    };
    assert!(written, "no room for {frame:?}");
    assert_eq!(format!("{:?}", first_frame(room)), format!("{frame:?}"));
}

/// The same for a repair whose places are a single run.
fn repair_survives_the_wire(repair: &RepairFrame<'_>, room: &mut [u8]) {
    let (bucket, first) = repair.places().next().expect("a repair is of something");
    let in_one_run = (0..).zip(repair.places()).all(|(i, place)| place == (bucket, first.plus(i)));
    let Some(count) = u8::try_from(repair.places().count()).ok().filter(|_| in_one_run) else { return };
    let (mut body, run) = (Vec::new(), Run { bucket, first, count });
    let RepairFrame { group, index, repairs, cells, shard, .. } = *repair;
    RepairFrame::write_body(&mut body, group, (index, repairs), cells, &[run], shard);
    let len = FrameWriter::new(room).last_repair(bucket, first, &body).expect("there is room");
    let Frame::Repair(again) = first_frame(&room[..len]) else {
        panic!("{repair:?} reads back as something else")
    };
    assert!(again.places().eq(repair.places()) && again.shard == shard && again.cells == cells);
}

/// The same for an acknowledgement, of which a writer may leave out the smaller ranges.
fn ack_survives_the_wire(ack: &AckFrame<'_>, room: &mut [u8]) {
    let ranges: Vec<PacketRange> = ack.ranges(SOME_NUMBER).collect();
    for pair in ranges.windows(2) {
        assert!(pair[1].last < pair[0].first, "not in descending order: {pair:?}");
    }
    let mut writer = FrameWriter::new(room);
    assert!(writer.ack(&ack.header, ranges.iter().copied()), "no room for {ack:?}");
    let Frame::Ack(again) = first_frame(room) else { panic!("{ack:?} reads back as something else") };
    assert_eq!(again.header, ack.header);
    let kept = ranges.len().min(MAX_ACK_GAPS + 1);
    assert_eq!(again.ranges(SOME_NUMBER).collect::<Vec<_>>(), ranges[..kept]);
}

fn first_frame(bytes: &[u8]) -> Frame<'_> {
    let frame = Frames::new(bytes).next().expect("there are bytes");
    frame.unwrap_or_else(|error| panic!("our own frame is {error}"))
}

/// The largest payload of a UDP datagram over IPv4, in bytes.
const MAX_DATAGRAM: usize = 65_507;

/// So large that no acknowledgement reaches below zero from near it.
const SOME_NUMBER: PacketNumber = PacketNumber(1 << 40);
