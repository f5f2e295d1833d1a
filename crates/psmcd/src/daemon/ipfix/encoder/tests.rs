use std::net::IpAddr;
use std::sync::Arc;

use netflow_parser::{NetflowPacket, NetflowParser};
use proptest::prelude::*;
use psmc_core::{FlowCounts, FlowEnd, FlowId, FlowRecord, PeerId};

use super::*;
use crate::daemon::ipfix::elements::{Carried, Interval};

const INTERVAL: Duration = Duration::from_secs(60);
const ENTERPRISE: u32 = 32473;

fn flow(source: Option<IpAddr>, peer: &str, bytes: u64) -> Record {
    let now = Instant::now();
    let flow = source.map(|source| FlowId {
        source,
        destination: source,
        protocol: 6,
        ports: [7, 80],
        tos: 8,
        tcp_flags: 0x1B,
    });
    let counts = FlowCounts {
        packets: 3,
        bytes,
        dropped_packets: 1,
        dropped_bytes: 60,
        resent_packets: 2,
        recovered_packets: 0,
    };
    let record = FlowRecord {
        peer: PeerId(0),
        is_sent: true,
        class: Arc::from("voice"),
        flow,
        first: now,
        last: now,
        counts,
        end: FlowEnd::Idle,
    };
    Record::Flow(FlowRow {
        peer: Arc::from(peer),
        first_ms: 1_700_000_000_000,
        last_ms: 1_700_000_001_000,
        record,
    })
}

fn v4() -> Option<IpAddr> {
    Some("10.77.0.1".parse().expect("an address"))
}

fn path(peer: &str) -> PathRow {
    let sent = Carried { packets: 5, bytes: 5000 };
    PathRow {
        peer: Arc::from(peer),
        path: Arc::from("dsl"),
        state: "active".to_owned(),
        sent,
        ..PathRow::default()
    }
}

fn segment(name: &str) -> SegmentRow {
    let [target, path, from, to] = [name, name, name, name].map(str::to_owned);
    let untold = "x".repeat(100);
    let loss_ppm = Interval { value: 50_000, low: 38_000, high: 67_000 };
    SegmentRow { target, path, from, to, kind: "segment", untold, loss_ppm, ..SegmentRow::default() }
}

fn target(name: &str) -> TargetRow {
    let words = || "x".repeat(100);
    TargetRow {
        name: name.to_owned(),
        measured: name.to_owned(),
        limits: words(),
        state: "unknown",
        broken: words(),
        at_fault: words(),
        ..TargetRow::default()
    }
}

fn encoder() -> Encoder {
    Encoder::new(9, ENTERPRISE, INTERVAL)
}

/// What a message says, as a collector reads it that keeps the templates.
fn read(parser: &mut NetflowParser, message: &Message) -> IPFix {
    let mut packets = parser.parse_bytes(&message.bytes).packets;
    assert_eq!(packets.len(), 1, "one message");
    let Some(NetflowPacket::IPFix(message)) = packets.pop() else { panic!("IPFIX") };
    message
}

/// Records of data and of options in a message.
fn rows(message: &IPFix) -> Vec<(u16, Vec<(IPFixField, FieldValue)>)> {
    let of_set = |set: &FlowSet| {
        let id = set.header.header_id;
        let rows = if let FlowSetBody::Data(data) = &set.body {
            data.fields.clone()
        } else if let FlowSetBody::OptionsData(data) = &set.body {
            data.fields.clone()
        } else {
            assert!(!matches!(set.body, FlowSetBody::NoTemplate(_)), "a set without its template");
            Vec::new()
        };
        rows.into_iter().map(move |row| (id, row)).collect::<Vec<_>>()
    };
    message.flowsets.iter().flat_map(of_set).collect()
}

#[test]
fn a_collector_reads_what_was_written() {
    let (mut encoder, mut parser) = (encoder(), NetflowParser::default());
    let v6 = Some("2001:db8::7".parse().expect("an address"));
    let share = ShareRow { path: path("hq"), class: Arc::from("bulk"), ..ShareRow::default() };
    let records = [
        flow(v4(), "hq", 1234),
        flow(v6, "hq", 99),
        flow(None, "", 7),
        Record::Path(path("hq")),
        Record::Share(share),
        Record::Segment(segment("hq")),
        Record::Target(target("hq")),
    ];
    let messages = encoder.messages(&records, Instant::now(), 1_700_000_000);
    let mut read_rows = Vec::new();
    for message in &messages {
        let message = read(&mut parser, message);
        assert_eq!((message.header.observation_domain_id, message.header.export_time), (9, 1_700_000_000));
        read_rows.extend(rows(&message));
    }
    let ids: Vec<_> = read_rows.iter().map(|(id, _)| *id).collect();
    assert_eq!(ids, [256, 257, 258, 259, 260, 261, 262]);
    for ((_, read), written) in read_rows.iter().zip(&records) {
        let Encoded { values, .. } = encoder.encode(written);
        assert_eq!(
            read.iter().map(|(name, _)| name).collect::<Vec<_>>(),
            values.iter().map(|(name, _)| name).collect::<Vec<_>>()
        );
        let bytes = |values: &[(IPFixField, FieldValue)]| {
            let mut bytes = Vec::new();
            values.iter().for_each(|(_, value)| value.write_be_bytes(&mut bytes).expect("bytes"));
            bytes
        };
        assert_eq!(bytes(read), bytes(&values));
    }
}

#[test]
fn values_are_as_long_as_their_templates_say() {
    fn check<R>(template: &Template<R>, row: &R) {
        for field in template.fields() {
            let length = (field.value)(row).byte_len();
            let is_right =
                if field.length == VARIABLE { length > 0 } else { length == usize::from(field.length) };
            assert!(is_right, "{}: {length} bytes", field.name);
        }
    }
    let v6 = Some("2001:db8::7".parse().expect("an address"));
    for (source, template) in [(v4(), &FLOW_V4), (v6, &FLOW_V6), (None, &OTHERS)] {
        let Record::Flow(row) = flow(source, "hq", 1) else { continue };
        check(template, &row);
    }
    check(&PATH, &path("hq"));
    check(&SHARE, &ShareRow::default());
    check(&SEGMENT, &SegmentRow::default());
    check(&TARGET, &TargetRow::default());
}

#[test]
fn elements_are_what_they_are_in_all_templates() {
    let mut known: Vec<(bool, u16, &str, u16)> = Vec::new();
    let mut note = |is_own, number, name, length| {
        let same = known.iter().find(|other| (other.0, other.1) == (is_own, number) || other.2 == name);
        assert!(same.is_none_or(|other| *other == (is_own, number, name, length)), "{name}: {number}");
        known.push((is_own, number, name, length));
    };
    for field in FLOW_V4.fields().chain(FLOW_V6.fields()).chain(OTHERS.fields()) {
        note(field.is_own, field.number, field.name, field.length);
    }
    PATH.fields().for_each(|field| note(field.is_own, field.number, field.name, field.length));
    SHARE.fields().for_each(|field| note(field.is_own, field.number, field.name, field.length));
    SEGMENT.fields().for_each(|field| note(field.is_own, field.number, field.name, field.length));
    TARGET.fields().for_each(|field| note(field.is_own, field.number, field.name, field.length));
}

#[test]
fn templates_come_again_and_the_sequence_counts_records_alone() {
    let mut encoder = encoder();
    let start = Instant::now();
    let mut send = |count: usize, seconds: u64| {
        let records: Vec<_> = (0..count).map(|_| flow(v4(), "hq", 1)).collect();
        let messages = encoder.messages(&records, start + Duration::from_secs(seconds), 0);
        assert!(messages.len() <= 1);
        let sequence =
            |message: &Message| u32::from_be_bytes(*message.bytes[8..].first_chunk().expect("a header"));
        let begins_with =
            |message: &Message| u16::from_be_bytes(*message.bytes[16..].first_chunk().expect("a set"));
        messages.first().map(|message| (sequence(message), begins_with(message)))
    };
    assert_eq!(send(0, 0), Some((0, TEMPLATES)), "a collector is told at once");
    assert_eq!(send(0, 1), None);
    assert_eq!(send(2, 2), Some((0, 256)));
    assert_eq!(send(3, 3), Some((2, 256)));
    assert_eq!(send(0, 60), Some((5, TEMPLATES)));
    assert_eq!(send(1, 61), Some((5, 256)));
}

proptest! {
    /// However long names are: each record is in one message, none of which is longer than it may be, and lengths are right.
    #[test]
    fn messages_are_short_and_have_all_records(
        lengths in prop::collection::vec((1..64_usize, 0..5_u8), 0..200),
    ) {
        let (mut encoder, mut parser) = (encoder(), NetflowParser::default());
        let v6 = Some("2001:db8::7".parse().expect("an address"));
        let record = |&(length, kind): &(usize, u8)| match kind {
            0 => flow(v4(), &"n".repeat(length), 1),
            1 => flow(v6, &"n".repeat(length), 2),
            2 => Record::Segment(segment(&"s".repeat(length))),
            3 => Record::Target(target(&"t".repeat(length))),
            _ => Record::Path(path(&"p".repeat(length))),
        };
        let records: Vec<_> = lengths.iter().map(record).collect();
        let messages = encoder.messages(&records, Instant::now(), 0);
        let mut sequence = 0;
        for message in &messages {
            prop_assert!(message.bytes.len() <= MAX_MESSAGE, "{}", message.bytes.len());
            let read = read(&mut parser, message);
            prop_assert_eq!(usize::from(read.header.length), message.bytes.len());
            prop_assert_eq!(read.header.sequence_number, sequence);
            prop_assert_eq!(rows(&read).len(), message.records as usize);
            sequence += message.records;
        }
        prop_assert_eq!(sequence as usize, records.len());
        prop_assert!(messages.len() <= 4 + records.len() / 2, "{} for {}", messages.len(), records.len());
    }
}
