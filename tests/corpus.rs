//! Replays the fuzzers' corpora on stable Rust: what was found once stays fixed.
//!
//! The files named `seed-*` are what our own encoders write, so a change of the wire format shows here as a
//! changed file: `UPDATE_SEEDS=1 cargo test --test corpus` writes them anew.

#[path = "../fuzz/src/alerts.rs"]
pub mod alerts;
#[path = "../fuzz/src/engine.rs"]
pub mod engine;
#[path = "../fuzz/src/files.rs"]
pub mod files;
#[path = "../fuzz/src/front.rs"]
pub mod front;
#[path = "../fuzz/src/heads.rs"]
pub mod heads;
#[path = "../fuzz/src/names.rs"]
pub mod names;
#[path = "../fuzz/src/raw.rs"]
pub mod raw;
#[path = "../fuzz/src/said.rs"]
pub mod said;
#[path = "../fuzz/src/server.rs"]
pub mod server;
#[path = "../fuzz/src/wire.rs"]
pub mod wire;

use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use hickory_proto::rr::Name;
use psmc_net::keys::PrivateKey;
use psmc_routes::{AltRecord, Relay, RouteSet, Validity};
use psmc_wire::control::{
    About, Capabilities, CloseReason, Hello, LENGTH_LEN, Message, PathInfo, PathVia, Probe, ProbeStep, Seen,
    Tier, VERSION,
};
use psmc_wire::counts::{Arrived, Counts, LaneCounts, Passed, PathCounts};
use psmc_wire::crypto::{Aead, TAG_LEN};
use psmc_wire::datagram::{HEADER_LEN, Header, Marks, TIMESTAMP_LEN};
use psmc_wire::frame::{
    AckHeader, DataFrame, FrameWriter, PacketRange, Part, PathStats, PathUse, PathUseFrame, RekeyFrame,
    StreamControl, StreamFrame, StreamOpening, StreamOutcome,
};
use psmc_wire::hop::{HOP_HEADER_LEN, HOP_KEY_LEN, Hop, HopChallenge, HopKey, HopResponse, write_hop_header};
use psmc_wire::probe::ProbeTokens;
use psmc_wire::relay::{
    self, Abilities, Cap, CapTarget, Counted, Far, Grant, Refusal, Refused, RequestId, Reserve,
    ReserveTunnel, Reserved, Revoke, SIGNATURE_LEN, SessionId, SignedGrant, StreamId, Welcome,
};
use psmc_wire::shed::{Answer, Ask, Outcome, Packets, Rule, Told, Verdict, What};
use psmc_wire::{Bucket, Checksum, FlowSeq, Incarnation, KeyBytes, Label, PacketNumber, PathId};

/// What the bytes of a target go to.
type Entry = fn(&[u8]);

/// Every target.
const TARGETS: [(&str, Entry); 21] = [
    ("alert", alerts::alert),
    ("capture", files::capture),
    ("config", files::config),
    ("control", wire::control),
    ("datagram", wire::datagram),
    ("engine", engine::engine),
    ("front", front::front),
    ("head", heads::head),
    ("hop", wire::hop),
    ("message", names::message),
    ("preface", front::preface),
    ("raw", raw::raw),
    ("relay", wire::relay),
    ("routes", names::routes),
    ("scenario", files::scenario),
    ("server", server::server),
    ("signal", said::signal),
    ("socket", said::socket),
    ("trace", files::trace),
    ("transfer", names::transfer),
    ("zone_file", names::zone_file),
];

#[test]
fn what_was_found_stays_fixed() {
    for (target, entry) in TARGETS {
        for (path, bytes) in files(target) {
            println!("{}", path.display());
            entry(&bytes);
        }
    }
}

/// What a fuzzer does in its first moments, without looking which code is reached: the fuzzers themselves take minutes to build.
#[test]
fn mutants_of_the_corpora_break_no_promise() {
    for (target, entry) in TARGETS {
        let inputs: Vec<_> = files(target).into_iter().map(|(_, bytes)| bytes).collect();
        let mut chance = Chance(1);
        for number in 0..MUTANTS {
            let mutant = mutant(&inputs, &mut chance);
            let outcome = std::panic::catch_unwind(|| entry(&mutant));
            assert!(outcome.is_ok(), "{target}, mutant {number}: {}", mutant.escape_ascii());
        }
    }
}

#[test]
fn every_target_is_built_and_told_of() {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    let read =
        |file: &str| fs::read_to_string(fuzz.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
    let names: Vec<_> = TARGETS.iter().map(|(target, _)| (*target).to_owned()).collect();
    let listed = |directory: &str| {
        let entries = fs::read_dir(fuzz.join(directory)).expect("it is there");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("it can be listed").file_name().into_string().expect("it is text"))
            .map(|name| name.trim_end_matches(".rs").to_owned())
            .collect();
        names.sort();
        names
    };
    assert_eq!(listed("corpus"), names);
    assert_eq!(listed("fuzz_targets"), names);
    for name in names {
        assert!(read("Cargo.toml").contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
        assert!(read("README.md").contains(&format!("| `{name}` |")), "{name}");
        assert!(
            read(&format!("fuzz_targets/{name}.rs")).contains(&format!("psmc_fuzz::{name}(bytes)")),
            "{name}"
        );
    }
}

/// One input, or the beginning of one and the end of another, with some bytes changed, left out or doubled.
fn mutant(inputs: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut bytes = inputs[chance.below(inputs.len())].clone();
    if chance.below(4) == 0 {
        let other = &inputs[chance.below(inputs.len())];
        bytes.truncate(chance.below(bytes.len() + 1));
        bytes.extend_from_slice(&other[chance.below(other.len() + 1)..]);
    }
    for _ in 0..=chance.below(4) {
        let at = chance.below(bytes.len() + 1);
        match chance.below(5) {
            0 => bytes.insert(at, chance.byte()),
            1 => bytes.truncate(at.max(1)),
            2 => bytes.drain(at..(at + chance.below(8)).min(bytes.len())).for_each(drop),
            // Lengths and counts are broken most by what is as large or as small as can be.
            3 => bytes
                .get_mut(at)
                .into_iter()
                .for_each(|byte| *byte = [0, 1, 0x7f, 0x80, 0xff][chance.below(5)]),
            _ => bytes.get_mut(at).into_iter().for_each(|byte| *byte ^= 1 << chance.below(8)),
        }
    }
    bytes
}

/// Chance that is the same each time (SplitMix64: Steele, Lea and Flood, "Fast splittable pseudorandom number generators", 2014).
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).expect("it is below a usize")
    }

    fn byte(&mut self) -> u8 {
        self.next().to_le_bytes()[0]
    }
}

/// Mutants of each target: a few seconds for all.
const MUTANTS: usize = 500;

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

/// Every file of a target's corpus.
fn files(target: &str) -> Vec<(PathBuf, Vec<u8>)> {
    let directory = corpus().join(target);
    let files = fs::read_dir(&directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let paths = files.map(|file| file.expect("a directory that opens can be listed").path());
    let mut files: Vec<_> = paths
        .map(|path| {
            let bytes = fs::read(&path).expect("a file of the corpus can be read");
            (path, bytes)
        })
        .collect();
    // The order of a directory is nobody's.
    files.sort();
    assert!(!files.is_empty(), "{} is empty", directory.display());
    files
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
        ("shed", Message::Shed(shed())),
        ("shedding", Message::Shedding(shedding())),
        ("close", Message::Close(CloseReason::Shutdown)),
    ];
    // The same to an engine that believes them; and what else happens there.
    let frames = |bytes: &[u8]| bytes[HEADER_LEN + TIMESTAMP_LEN..bytes.len() - TAG_LEN].to_vec();
    let received = datagrams.iter().map(|(name, bytes)| (*name, operation(0, &frames(bytes))));
    let heard = messages.iter().map(|(name, message)| (*name, operation(3, &encoded(message)[LENGTH_LEN..])));
    let operations: Vec<(&str, Vec<u8>)> = received.chain(heard).collect();
    let peer: Vec<u8> = operations.iter().flat_map(|(_, bytes)| bytes.iter().copied()).collect();
    let conversation: Vec<u8> = messages.iter().flat_map(|(_, message)| encoded(message)).collect();
    let named = |target: &str, name: &str| format!("{target}/seed-{name}");
    let mut seeds: Vec<(String, Vec<u8>)> = Vec::new();
    seeds.extend(datagrams.map(|(name, bytes)| (named("datagram", name), bytes)));
    seeds.extend(messages.map(|(name, message)| (named("control", name), encoded(&message))));
    seeds.push((named("control", "conversation"), conversation));
    seeds.extend(relay_messages().map(|(name, message)| (named("relay", name), encoded_for_relay(&message))));
    seeds.push((named("engine", "peer"), peer));
    let here = [operation(5, &INNER), operation(7, &[]), operation(4, &[3, 0, 0]), operation(6, &[2, b'x'])];
    seeds.push((named("engine", "hosts"), here.concat()));
    seeds.push((named("raw", "tunnel"), operation(0, &TUNNELLED)));
    let conversation = relay_messages().iter().flat_map(|(_, message)| encoded_for_relay(message)).collect();
    seeds.push((named("relay", "conversation"), conversation));
    seeds.push((named("hop", "datagram"), hop_datagram()));
    let challenge = HopChallenge { path: PathId(2), label: Label(0x8d3a_51c7), token: [7; 8] };
    let near = hop(0xc0ff_ee01);
    seeds.push((named("hop", "challenge"), challenge.encode(&near).to_vec()));
    seeds.push((named("hop", "response"), HopResponse::encode([7; 8], &near).to_vec()));
    seeds.push((named("routes", "open"), open_routes()));
    seeds
}

/// A datagram with the frames that `write` adds in clear, padding where its tag would be.
/// An operation of a target that takes several, with its argument.
fn operation(number: u8, argument: &[u8]) -> Vec<u8> {
    let length = u16::try_from(argument.len()).expect("it is short").to_be_bytes();
    [&[number], &length[..], argument].concat()
}

/// UDP over IPv4 from a host of the site to one of its peer.
const INNER: [u8; 29] =
    *b"\x45\0\0\x1d\0\0\0\0\x40\x11\0\0\x0a\x4d\0\x02\x0a\x4d\0\x01\x10\0\0\x35\0\x09\0\0x";

/// The same between the ends of a tunnel, in IPv4.
const TUNNELLED: [u8; 49] = *b"\x45\0\0\x31\0\0\0\0\x40\x04\0\0\xc0\0\x02\x01\xc0\0\x02\x09\
    \x45\0\0\x1d\0\0\0\0\x40\x11\0\0\x0a\x01\0\x02\x0a\x02\0\x01\x10\0\0\x35\0\x09\0\0x";

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

fn shed() -> Ask {
    let [destination, source] =
        ["203.0.113.10/32", "198.51.100.0/24"].map(|net| net.parse().expect("a prefix"));
    let packets = Packets { destination, source: Some(source), protocol: Some(17), ports: Some((9, 10)) };
    let rules = vec![
        Rule { what: What::Packets(packets), rate: Some(500_000) },
        Rule { what: What::Datagrams(Some(2)), rate: None },
        Rule { what: What::Label(hop(5), None), rate: Some(0) },
    ];
    Ask { request: 7, serial: 1_800_000_000_000, lifetime_ms: 10_000, rules }
}

fn shedding() -> Answer {
    let verdicts = [Verdict::Taken, Verdict::Taken, Verdict::Foreign];
    let told = |(rule, verdict)| Told { rule, verdict, offered: 4_000_000, dropped: 3_500_000 };
    Answer {
        request: 7,
        outcome: Outcome::Taken,
        serial: 1_800_000_000_000,
        lasts_ms: 10_000,
        max_rules: 16,
        clock_us: 20_113_056,
        rules: shed().rules.into_iter().zip(verdicts).map(told).collect(),
    }
}

/// A message of each kind between a site and a relay.
fn relay_messages() -> [(&'static str, relay::Message); 22] {
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
        abilities: Abilities { counts: true, revokes: true, sheds: true },
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
        ("revoke", Message::Revoke(Revoke { request, site: KeyBytes([2; 32]), until_s: 2_000_000_000 })),
        ("chain", Message::Chain(request, session, hop(4))),
        ("connect", Message::Connect(request, Far::Gateway(KeyBytes([5; 32])))),
        ("connected", Message::Connected(request)),
        ("register", Message::Register(request)),
        ("incoming", Message::Incoming(stream)),
        ("accept", Message::Accept(request, stream)),
        ("count", Message::Count(request, session)),
        ("counted", Message::Counted(counted)),
        ("shed", Message::Shed(shed())),
        ("shedding", Message::Shedding(shedding())),
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
