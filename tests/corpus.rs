//! Replays the fuzzers' corpora on stable Rust: what was found once stays fixed.
//!
//! The files named `seed-*` are what our own encoders write, so a change of the wire format shows here as a
//! changed file: `UPDATE_SEEDS=1 cargo test --test corpus` writes them anew.

#[path = "../fuzz/src/lib.rs"]
pub mod entry;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hickory_proto::rr::Name;
use psmc_net::keys::PrivateKey;
use psmc_routes::{AltRecord, Relay, RouteSet, Validity};
use psmc_wire::control::{
    About, Capabilities, CloseReason, Hello, Message, PathInfo, PathVia, Probe, ProbeStep, Seen, Tier,
    VERSION,
};
use psmc_wire::counts::{Arrived, Counts, LaneCounts, Passed, PathCounts};
use psmc_wire::crypto::{Aead, TAG_LEN};
use psmc_wire::datagram::{Header, Marks};
use psmc_wire::frame::{
    AckHeader, DataFrame, FrameWriter, PacketRange, Part, PathStats, PathUse, PathUseFrame, RekeyFrame,
    StreamControl, StreamFrame, StreamOpening, StreamOutcome,
};
use psmc_wire::hop::{HOP_HEADER_LEN, HOP_KEY_LEN, Hop, HopKey, write_hop_header};
use psmc_wire::probe::ProbeTokens;
use psmc_wire::relay::{
    self, Abilities, Cap, CapTarget, Counted, Far, Grant, Refusal, Refused, RequestId, Reserve,
    ReserveTunnel, Reserved, SIGNATURE_LEN, SessionId, SignedGrant, StreamId, Welcome,
};
use psmc_wire::{Bucket, Checksum, FlowSeq, Incarnation, KeyBytes, Label, PacketNumber, PathId};

#[test]
fn datagram_corpus() {
    replay("datagram", entry::datagram);
}

#[test]
fn control_corpus() {
    replay("control", entry::control);
}

#[test]
fn relay_corpus() {
    replay("relay", entry::relay);
}

#[test]
fn hop_corpus() {
    replay("hop", entry::hop);
}

#[test]
fn routes_corpus() {
    replay("routes", entry::routes);
}

#[test]
fn message_corpus() {
    replay("message", entry::message);
}

#[test]
fn transfer_corpus() {
    replay("transfer", entry::transfer);
}

#[test]
fn zone_file_corpus() {
    replay("zone_file", entry::zone_file);
}

#[test]
fn config_corpus() {
    replay("config", entry::config);
}

#[test]
fn front_corpus() {
    replay("front", entry::front);
}

#[test]
fn scenario_corpus() {
    replay("scenario", entry::scenario);
}

#[test]
fn seeds_are_what_the_encoders_write() {
    let update = std::env::var_os("UPDATE_SEEDS").is_some();
    for (name, bytes) in seeds() {
        let file = corpus().join(&name);
        if update {
            fs::write(&file, &bytes).expect("the corpus is writable");
        }
        let stored = fs::read(&file).unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!(stored, bytes, "{name} has changed: see the top of tests/corpus.rs");
    }
}

/// Feeds every file of the corpus to `entry`, which panics if it finds fault.
fn replay(target: &str, entry: fn(&[u8])) {
    let directory = corpus().join(target);
    let files = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let mut count = 0;
    for file in files {
        let path = file.expect("a directory that opens can be listed").path();
        println!("{}", path.display());
        entry(&fs::read(&path).expect("a file of the corpus can be read"));
        count += 1;
    }
    assert!(count > 0, "{} is empty", directory.display());
}

fn corpus() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

/// Path below the corpus, and contents, of every seed that our encoders can write.
fn seeds() -> Vec<(String, Vec<u8>)> {
    let datagrams = [
        ("ack", datagram(ack)),
        ("ack-then-data", datagram(|writer| ack(writer) && small_packets(writer))),
        ("data", datagram(small_packets)),
        ("parts", datagram(parts)),
        ("path-management", datagram(path_management)),
        ("streams", datagram(streams)),
    ];
    let messages = [
        ("hello", hello()),
        ("path-info", path_info()),
        ("path-via", path_via()),
        ("about", Message::About(About { software: "psmcd 0.1.0".to_owned() })),
        ("seen", seen()),
        ("probe", Message::Probe(Probe { step: ProbeStep::Answer, tokens: probe_tokens() })),
        ("counts-wanted", Message::CountsWanted(7)),
        ("counts", counts()),
        ("close", Message::Close(CloseReason::Shutdown)),
    ];
    let conversation: Vec<u8> = messages.iter().flat_map(|(_, message)| encoded(message)).collect();
    let named = |target: &str, name: &str| format!("{target}/seed-{name}");
    let mut seeds: Vec<(String, Vec<u8>)> = Vec::new();
    seeds.extend(datagrams.map(|(name, bytes)| (named("datagram", name), bytes)));
    seeds.extend(messages.map(|(name, message)| (named("control", name), encoded(&message))));
    seeds.push((named("control", "conversation"), conversation));
    seeds.extend(relay_messages().map(|(name, message)| (named("relay", name), encoded_for_relay(&message))));
    let conversation = relay_messages().iter().flat_map(|(_, message)| encoded_for_relay(message)).collect();
    seeds.push((named("relay", "conversation"), conversation));
    seeds.push((named("hop", "datagram"), hop_datagram()));
    seeds.push((named("routes", "open"), open_routes()));
    seeds
}

/// A datagram with the frames that `write` adds in clear, padding where its tag would be.
fn datagram(write: impl FnOnce(&mut FrameWriter<'_>) -> bool) -> Vec<u8> {
    let header = Header {
        epoch: 3,
        marks: Marks { congestion_experienced: true, drop_precedence: 2, ..Marks::default() },
        path: PathId(1),
        label: Label(0x0bad_cafe),
        packet_number: 41,
    };
    let timestamp_us = 1_234_567_u32;
    let mut room = [0; 1200];
    let mut writer = FrameWriter::new(&mut room);
    assert!(write(&mut writer), "the seed's frames do not fit");
    let len = writer.len();
    let parts: [&[u8]; 4] = [&header.encode(), &timestamp_us.to_be_bytes(), &room[..len], &[0; TAG_LEN]];
    parts.concat()
}

fn ack(writer: &mut FrameWriter<'_>) -> bool {
    let header = AckHeader {
        path: PathId(1),
        largest: 90,
        delay_us: 800,
        received_at_us: 7_000_000,
        ect0: 70,
        congestion_experienced: 1,
    };
    let runs = [(80, 90), (40, 70), (1, 1)];
    let ranges =
        runs.map(|(first, last)| PacketRange { first: PacketNumber(first), last: PacketNumber(last) });
    writer.ack(&header, ranges.into_iter())
}

fn small_packets(writer: &mut FrameWriter<'_>) -> bool {
    let bucket = Bucket::of_hash(0x1234_5678_9abc_def0);
    let frame = |seq, ordered, packet| DataFrame {
        bucket,
        seq: FlowSeq(seq),
        ordered,
        repaired: false,
        checksum: Checksum::Complete,
        part: None,
        packet,
    };
    writer.data(&frame(8, true, &[0x45; 60])) && writer.data(&frame(9, false, &[0x60; 40]))
}

/// The second part of a packet, and the whole one behind it.
fn parts(writer: &mut FrameWriter<'_>) -> bool {
    let bucket = Bucket::of_hash(0x1234_5678_9abc_def0);
    let frame = |seq, part, packet| DataFrame {
        bucket,
        seq: FlowSeq(seq),
        ordered: true,
        repaired: true,
        checksum: Checksum::Partial,
        part,
        packet,
    };
    let part = Part { offset: 1189, total: 1400 };
    writer.data(&frame(10, Some(part), &[0x55; 211])) && writer.data(&frame(11, None, &[0x45; 60]))
}

fn path_management(writer: &mut FrameWriter<'_>) -> bool {
    let stats = PathStats {
        packets: 1000,
        bytes: 1_400_000,
        owd_min_us: 12_000,
        owd_smoothed_us: 13_500,
        jitter_us: 250,
    };
    let standby = PathUseFrame { path: PathId(2), sequence: 7, usage: PathUse::Standby };
    writer.ping()
        && writer.path_challenge(*b"challeng")
        && writer.path_response(*b"response")
        && writer.path_stats(PathId(1), &stats)
        && writer.path_use(standby)
        && writer.rekey(&RekeyFrame { regarding: Label(7), label: Label(8), public_key: [0x2a; 32] })
        && writer.rekeyed(&RekeyFrame { regarding: Label(8), label: Label(9), public_key: [0x2b; 32] })
}

fn streams(writer: &mut FrameWriter<'_>) -> bool {
    let id = psmc_wire::StreamId(4);
    let [client, server] =
        ["10.77.0.2:50000", "192.168.10.7:443"].map(|address| address.parse().expect("an address"));
    let opening = StreamOpening { client, server, dscp: 10 };
    let said = [
        StreamControl::Open { id, credit: 1 << 20, opening },
        StreamControl::Answer { id, outcome: StreamOutcome::Open, credit: 1 << 20 },
        StreamControl::Credit { id, limit: 3 << 20 },
        StreamControl::Reset { id },
    ];
    let mut bytes = Vec::new();
    let mut say = |said: &StreamControl| {
        said.encode(&mut bytes);
        writer.raw(&bytes)
    };
    said.iter().all(&mut say)
        && writer.stream(&StreamFrame { id, offset: u32::MAX - 3, fin: true, bytes: b"the end" })
}

fn hello() -> Message {
    Message::Hello(Hello {
        version: VERSION,
        incarnation: Incarnation(0x0102_0304_0506_0708),
        label: Label(7),
        aead: Aead::Aes256Gcm,
        mtu: 1420,
        name: "van".to_owned(),
        capabilities: Capabilities::REKEY,
    })
}

fn path_info() -> Message {
    Message::PathInfo(PathInfo {
        path: PathId(1),
        weight: 2,
        max_rate: Some(20_000_000),
        name: "lte".to_owned(),
        tier: Tier::Secondary,
    })
}

fn path_via() -> Message {
    let address = SocketAddr::from(([192, 0, 2, 7], 5115));
    Message::PathVia(PathVia { path: PathId(1), relay: KeyBytes([1; 32]), address, hop: hop(0xc0ff_ee01) })
}

fn seen() -> Message {
    let addresses = ["192.0.2.7:40011", "[2001:db8::7]:40012"];
    let addresses = addresses.map(|address| address.parse().expect("it is an address"));
    Message::Seen(Seen { paths: [PathId(0), PathId(2)].into_iter().zip(addresses).collect() })
}

fn probe_tokens() -> ProbeTokens {
    ProbeTokens { question: [0x51; 16], answer: [0xa5; 16] }
}

fn counts() -> Message {
    let samples = vec![Arrived { number: 41, sent_us: 12_000_000, received_us: 20_000_000 }];
    let path = PathCounts { path: PathId(1), sent: [1000, 1002], received: [999, 1000], samples };
    Message::Counts(Counts { request: 7, clock_us: 20_113_056, paths: vec![path] })
}

fn hop(label: u32) -> Hop {
    Hop { label: Label(label), key: HopKey([7; HOP_KEY_LEN]) }
}

/// A message of each kind between a site and a relay.
fn relay_messages() -> [(&'static str, relay::Message); 19] {
    use relay::Message;
    let (request, session, stream) = (RequestId(7), SessionId(0x0102_0304_0bad_cafe), StreamId(9));
    let at = SocketAddr::from(([192, 0, 2, 7], 5115));
    let grant = Grant {
        relay: KeyBytes([1; 32]),
        site: KeyBytes([2; 32]),
        expires_s: 2_000_000_000,
        sessions: 4,
        max_rate: Some(20_000_000),
        gateway: true,
    };
    let grant = Some(SignedGrant { grant, signature: [3; SIGNATURE_LEN] });
    let name = || "fra1".to_owned();
    let rate = Some(5_000_000);
    let reserve = |far| Message::Reserve(Reserve { request, rate, far });
    let cap = Cap { request, target: CapTarget::Session(session), rate };
    let reserved = Reserved { request, session, near: hop(1), far: hop(2), rate, idle_s: 60 };
    let welcome = Welcome {
        version: relay::VERSION,
        data_port: 5115,
        sessions: 64,
        max_rate: None,
        name: name(),
        abilities: Abilities { counts: true },
    };
    let samples = vec![Passed { number: 41, at_us: 20_000_000 }];
    let to_far = LaneCounts { received: [1000, 1002], handed_on: [999, 1002], samples };
    let to_near = LaneCounts { received: [7, 8], handed_on: [7, 8], samples: Vec::new() };
    let counted = Counted { request, session, clock_us: 20_113_056, to_far, to_near };
    [
        ("hello", Message::Hello(relay::Hello { version: relay::VERSION, name: name(), grant })),
        ("welcome", Message::Welcome(welcome)),
        ("refused", Message::Refused(Refused { request, reason: Refusal::Limit, text: name() })),
        ("done", Message::Done(request)),
        ("reserve-address", reserve(Far::Address(at))),
        ("reserve-relay", reserve(Far::Relay(at, hop(3)))),
        (
            "reserve-tunnel",
            Message::ReserveTunnel(ReserveTunnel {
                session: Reserve { request, rate, far: Far::Address(at) },
                inside: std::net::Ipv4Addr::new(192, 0, 2, 9),
            }),
        ),
        ("reserved", Message::Reserved(reserved)),
        ("release", Message::Release(request, session)),
        ("refresh", Message::Refresh(request, session)),
        ("cap", Message::Cap(cap)),
        ("chain", Message::Chain(request, session, hop(4))),
        ("connect", Message::Connect(request, Far::Gateway(KeyBytes([5; 32])))),
        ("connected", Message::Connected(request)),
        ("register", Message::Register(request)),
        ("incoming", Message::Incoming(stream)),
        ("accept", Message::Accept(request, stream)),
        ("count", Message::Count(request, session)),
        ("counted", Message::Counted(counted)),
    ]
}

fn encoded_for_relay(message: &relay::Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}

fn hop_datagram() -> Vec<u8> {
    let mut bytes = vec![0; HOP_HEADER_LEN];
    bytes.extend(datagram(small_packets));
    let marks = Marks { drop_precedence: 1, ..Marks::default() };
    write_hop_header(&mut bytes, &hop(0xc0ff_ee01), PacketNumber(41), marks);
    bytes
}

/// Routes through two relays, in the open.
fn open_routes() -> Vec<u8> {
    let key = |number| PrivateKey::from_seed([number; 32]);
    let relay = |address: &str, gateway| {
        let address = address.parse().expect("it is an address");
        Relay { address, key: key(7).public(), gateway }
    };
    let relays = vec![relay("192.0.2.7:5115", None), relay("[2001:db8::8]:5115", Some(key(8).public()))];
    let validity = Validity { serial: 5, expires_s: 2_000_000_600 };
    let service = Name::from_ascii("www.example.com.").expect("it is a name");
    let set = RouteSet::new(&service, validity, relays).expect("the relays are usable");
    AltRecord::Open(set.sign(&key(1))).encode()
}

fn encoded(message: &Message) -> Vec<u8> {
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    bytes
}
