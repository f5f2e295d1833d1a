//! What the fuzzers feed with bytes. `tests/corpus.rs` replays the corpora through the same functions, so this
//! file depends on nothing but the crates under test.
//!
//! Each function panics when its bytes break a promise of the parser, and is silent about bytes that are merely
//! wrong.

use std::path::Path;

use hickory_proto::rr::{Name, RecordData, RecordType};
use hickory_proto::serialize::binary::BinEncodable;
use http::{HeaderName, HeaderValue};
use psmc_dns::zone::{Delta, Zone, read_zone_text};
use psmc_front::class::{Pair, Rule, Urgency};
use psmc_front::config::Forwarded;
use psmc_front::headers::{self, Asker};
use psmc_lab::scenario::Scenario;
use psmc_routes::wire::{read_message, read_record};
use psmc_routes::{AltRecord, svcb_records, svcb_routes};
use psmc_wire::PacketNumber;
use psmc_wire::control::{self, LENGTH_LEN, Message};
use psmc_wire::datagram::{DATAGRAM_OVERHEAD, HEADER_LEN, Header, split_timestamp};
use psmc_wire::frame::{AckFrame, Frame, FrameWriter, Frames, MAX_ACK_GAPS, PacketRange, RepairFrame, Run};
use psmc_wire::hop::{
    HOP_HEADER_LEN, HOP_KEY_LEN, Hop, HopHeader, HopKey, INNER, replace_hop_header, strip_hop_header,
};
use psmc_wire::relay;
use psmcd::config::{Complaint, Config, ConfigError};

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

/// A datagram on its hop to a relay, which hands it on.
pub fn hop(bytes: &[u8]) {
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

/// The data of an ALT record, and what SVCB records make of the same routes.
pub fn routes(bytes: &[u8]) {
    let service = Name::from_ascii("www.example.com.").expect("it is a name");
    let Ok(record) = AltRecord::decode(&service, bytes) else { return };
    assert_eq!(record.encode(), bytes);
    let AltRecord::Open(routes) = record else { return };
    let again = svcb_routes(&service, svcb_records(&routes).iter());
    assert_eq!(again.as_deref(), Ok(&[routes][..]));
}

/// A DNS message from anywhere: what is read of it reads back the same, whatever is in its records.
pub fn message(bytes: &[u8]) {
    let Ok(incoming) = read_message(bytes) else { return };
    let message = incoming.message;
    for record in message.all_sections() {
        // An update's record that stands for a set has no data, which is no data of no length.
        if record.data.is_update() {
            continue;
        }
        let stored = record.to_bytes().expect("a record that was read can be written");
        assert_eq!(read_record(&stored).as_ref().map(|record| &record.data), Ok(&record.data));
    }
    // Names that were compressed may make it longer than a message can be.
    let Ok(again) = message.to_vec() else { return };
    let again = read_message(&again).expect("what we write is well-formed").message;
    assert!(again.all_sections().eq(message.all_sections()));
}

/// The records of a message as a zone: what it answers, and that it is the same after a transfer.
pub fn transfer(bytes: &[u8]) {
    let Ok(incoming) = read_message(bytes) else { return };
    let records = incoming.message.answers;
    let Some(origin) = records.first().map(|record| record.name.clone()) else { return };
    let Ok(zone) = Zone::new(&origin, records) else { return };
    let owners: Vec<(Name, RecordType)> =
        zone.records().map(|record| (record.name.clone(), record.record_type())).collect();
    for (owner, kind) in owners {
        for dnssec in [false, true] {
            let _ = zone.answer(&owner, kind, dnssec);
            let _ = zone.answer(&owner, RecordType::ANY, dnssec);
            let below = owner.prepend_label("x").and_then(|below| below.prepend_label("*"));
            let _ = below.map(|below| zone.answer(&below, kind, dnssec));
        }
    }
    let again = Zone::new(&origin, zone.records().cloned()).expect("a zone's records are a zone");
    assert_eq!(zone.delta(&again), Delta::default());
}

/// A zone file. One that generates records is passed over: a line of it may stand for millions.
pub fn zone_file(bytes: &[u8]) {
    if bytes.windows(4).any(|window| window.eq_ignore_ascii_case(b"$GEN")) {
        return;
    }
    let origin = Name::from_ascii("example.com.").expect("it is a name");
    let Ok(records) = read_zone_text(bytes, &origin) else { return };
    for record in records {
        let stored = record.to_bytes().expect("a record that was read can be written");
        assert_eq!(read_record(&stored).as_ref().map(|record| &record.data), Ok(&record.data));
    }
}

/// A configuration file. One that keeps its key in another file is passed over: a fuzzer must not open what it names.
pub fn config(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains("private_key_file") {
        return;
    }
    if let Err(error) = Config::parse(text, Path::new("site.toml")) {
        can_be_shown(&error, text);
    }
}

/// A scenario of the lab. One that names files of rates or delays is passed over: a fuzzer must not open them.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return;
    };
    if text.contains("trace") || text.contains("file") {
        return;
    }
    match Scenario::parse(text, Path::new("scenario.toml")) {
        Ok(scenario) => assert!(!scenario.summary().to_string().is_empty()),
        Err(error) => can_be_shown(&error, text),
    }
}

/// The head of a request to a front: the target in the first line, a field in each of the others.
pub fn front(bytes: &[u8]) {
    let mut lines = bytes.split(|byte| *byte == b'\n');
    let target = lines.next().unwrap_or_default();
    let Ok(mut request) = http::Request::builder().uri(target).body(()) else { return };
    for line in lines {
        let Some(at) = line.iter().position(|byte| *byte == b':') else { continue };
        let (Ok(name), Ok(value)) =
            (HeaderName::from_bytes(&line[..at]), HeaderValue::from_bytes(line[at + 1..].trim_ascii()))
        else {
            continue;
        };
        // What a listener takes at most.
        if request.headers().len() < 100 {
            request.headers_mut().append(name, value);
        }
    }
    let (head, ()) = request.into_parts();
    let rule = Rule { cookie: Pair::cookie("tier=gold"), urgency: Urgency::parse("0-7"), ..Rule::default() };
    let source = std::net::Ipv4Addr::LOCALHOST.into();
    let fits = rule.fits(head.uri.path(), &head.headers, source);
    assert!(!fits || head.headers.contains_key("cookie"), "a cookie out of nothing");
    let host = headers::host(&head);
    if let Ok(host) = &host {
        assert!(!host.as_bytes().contains(&b'@') && !host.as_bytes().contains(&b' '), "{host:?}");
        assert!(head.uri.path().starts_with(['/', '*']), "{}", head.uri);
    }
    let mut fields = head.headers.clone();
    headers::strip(&mut fields);
    let of_connection =
        ["connection", "keep-alive", "te", "transfer-encoding", "upgrade", "proxy-connection"];
    assert!(of_connection.iter().all(|name| !fields.contains_key(*name)), "{fields:?}");
    assert!(fields.iter().all(|(name, _)| head.headers.contains_key(name)), "a field out of nothing");
    if let Some(protocol) = headers::upgrade(&head) {
        assert!(!protocol.as_bytes().to_ascii_lowercase().starts_with(b"h2c"), "{protocol:?}");
    }
    headers::join_cookies(&mut fields);
    let asker = Asker { address: (source, 80).into(), is_tls: true, is_trusted: true };
    asker.tell(&mut fields, host.as_ref().unwrap_or(&HeaderValue::from_static("")), Forwarded::Both);
    for name in ["x-forwarded-for", "forwarded"] {
        assert_eq!(fields.get_all(name).iter().count(), 1, "{fields:?}");
    }
}

/// Asserts that an error says something, about places that are in the text.
fn can_be_shown(error: &ConfigError, text: &str) {
    assert!(!error.complaints().is_empty(), "refused without a complaint");
    for place in error.complaints().iter().filter_map(Complaint::span) {
        assert!(text.get(place.clone()).is_some(), "{place:?} is not in the text");
    }
    assert!(!error.render(false).is_empty());
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
