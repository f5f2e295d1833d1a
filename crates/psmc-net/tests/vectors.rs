//! The test vectors of `docs/PROTOCOL.md`, read from there: the code and the document say the same bytes.

use std::path::Path;

use aws_lc_rs::hkdf::{HKDF_SHA256, KeyType, Prk};
use psmc_net::aead::{ExportedKeys, SECRET_LEN};
use psmc_wire::control::{
    About, Capabilities, CloseReason, Hello, LENGTH_LEN, Limits, Message, PathInfo, PathVia, Probe,
    ProbeStep, Seen, Tier, VERSION,
};
use psmc_wire::counts::{Arrived, Counts, LaneCounts, Passed, PathCounts};
use psmc_wire::crypto::{Aead, KeySource, NONCE_LEN, Role, TAG_LEN};
use psmc_wire::datagram::{HEADER_LEN, Header, Marks, nonce, split_timestamp};
use psmc_wire::drops::{Drops, DropsOf, Kind};
use psmc_wire::frame::{
    AckHeader, DataFrame, Frame, FrameWriter, Frames, PacketRange, PathStats, PathUse, PathUseFrame,
};
use psmc_wire::hop::{HOP_HEADER_LEN, Hop, HopChallenge, HopHeader, HopKey, HopResponse, write_hop_header};
use psmc_wire::probe::ProbeTokens;
use psmc_wire::relay::{self, Counted, RequestId, SessionId};
use psmc_wire::{Bucket, Checksum, FlowSeq, Incarnation, KeyBytes, Label, PacketNumber, PathId};

/// A datagram of the document, in all its stages.
struct Vector {
    /// With what its blocks' names begin.
    name: &'static str,
    aead: Aead,
    /// What HKDF is told of the AEAD, the sealing side and the epoch.
    selector: [u8; 3],
    sealer: Role,
    epoch: u8,
    label: Label,
    path: PathId,
    packet_number: PacketNumber,
    sent_at_us: u32,
    /// Writes the frames and returns their length.
    frames: fn(&Document, FrameWriter<'_>) -> usize,
}

const VECTORS: [Vector; 2] = [
    Vector {
        name: "a",
        aead: Aead::Aes256Gcm,
        selector: [1, 0, 17],
        sealer: Role::Dialer,
        epoch: 17,
        label: Label(0x8d3a_51c7),
        path: PathId(2),
        packet_number: PacketNumber(0x1_0000_0007),
        sent_at_us: 12_345_678,
        frames: ack_and_packet,
    },
    Vector {
        name: "b",
        aead: Aead::ChaCha20Poly1305,
        selector: [2, 1, 0],
        sealer: Role::Acceptor,
        epoch: 0,
        label: Label(0x0102_0304),
        path: PathId(2),
        packet_number: PacketNumber(0),
        sent_at_us: 0,
        frames: all_the_others,
    },
];

fn ack_and_packet(document: &Document, mut writer: FrameWriter<'_>) -> usize {
    let header = AckHeader {
        path: PathId(2),
        largest: 0x105,
        delay_us: 1200,
        received_at_us: 0x00bc_5a46,
        ect0: 0,
        congestion_experienced: 0,
    };
    let ranges = [run(0x102, 0x105), run(0xf6, 0xff)];
    assert!(writer.ack(&header, ranges.into_iter()));
    let packet = document.block("inner-packet");
    let frame = data(&packet, 0xabc, 41, false);
    writer.last_data(&frame).expect("there is room")
}

fn all_the_others(document: &Document, mut writer: FrameWriter<'_>) -> usize {
    let stats = PathStats {
        packets: 1000,
        bytes: 1_400_000,
        owd_min_us: 5u32.wrapping_neg(),
        owd_smoothed_us: 250,
        jitter_us: 90,
    };
    let wish = PathUseFrame { path: PathId(3), sequence: 1, usage: PathUse::Standby };
    let packet = document.block("inner-packet");
    let written = writer.path_response([0x11; 8])
        && writer.path_challenge([0, 0, 0, 0, 0, 0, 0, 5])
        && writer.path_stats(PathId(2), &stats)
        && writer.path_use(wish)
        && writer.data(&data(&packet, 7, u32::MAX, true))
        && writer.ping()
        && writer.raw(&[0]);
    assert!(written, "there is room");
    writer.len()
}

fn run(first: u64, last: u64) -> PacketRange {
    PacketRange { first: PacketNumber(first), last: PacketNumber(last) }
}

fn data(packet: &[u8], bucket: u16, seq: u32, ordered: bool) -> DataFrame<'_> {
    let bucket = Bucket::new(bucket).expect("below the count");
    DataFrame {
        bucket,
        seq: FlowSeq(seq),
        ordered,
        repaired: false,
        checksum: Checksum::Complete,
        part: None,
        packet,
    }
}

impl Vector {
    fn header(&self) -> Header {
        Header {
            epoch: self.epoch % 16,
            marks: Marks::default(),
            path: self.path,
            label: self.label,
            packet_number: self.packet_number.truncated(),
        }
    }

    fn plaintext(&self, document: &Document) -> Vec<u8> {
        let mut plaintext = self.sent_at_us.to_be_bytes().to_vec();
        let mut room = [0; 300];
        let len = (self.frames)(document, FrameWriter::new(&mut room));
        plaintext.extend(&room[..len]);
        plaintext
    }

    fn seal(&self, keys: &ExportedKeys, plaintext: &[u8]) -> Vec<u8> {
        let header = self.header();
        let mut payload = plaintext.to_vec();
        let key = keys.packet_key(self.aead, self.sealer, self.epoch);
        let nonce = nonce(self.path, self.packet_number);
        let tag = key.seal(nonce, &header.associated_data(), &mut payload);
        [&header.encode()[..], &payload, &tag].concat()
    }

    /// Key and IV as the document's text derives them, without our own code.
    fn derived(&self, secret: &[u8]) -> ([u8; 32], [u8; NONCE_LEN]) {
        let secret = Prk::new_less_safe(HKDF_SHA256, secret);
        let (mut key, mut iv) = ([0; 32], [0; NONCE_LEN]);
        expand(&secret, &[b"psmc key", &self.selector], &mut key);
        expand(&secret, &[b"psmc iv", &self.selector], &mut iv);
        (key, iv)
    }
}

fn expand(secret: &Prk, info: &[&[u8]], out: &mut [u8]) {
    struct Len(usize);
    impl KeyType for Len {
        fn len(&self) -> usize {
            self.0
        }
    }
    let filled = secret.expand(info, Len(out.len())).and_then(|okm| okm.fill(out));
    filled.expect("a key is shorter than HKDF's limit");
}

#[test]
fn keys_are_derived_as_the_document_says() {
    let document = Document::read();
    for vector in VECTORS {
        let (key, iv) = vector.derived(&document.block("secret"));
        document.agrees(vector.name, "key", &key);
        document.agrees(vector.name, "iv", &iv);
        let nonce = nonce(vector.path, vector.packet_number);
        let mixed: Vec<_> = nonce.iter().zip(iv).map(|(byte, iv)| byte ^ iv).collect();
        document.agrees(vector.name, "nonce", &mixed);
    }
}

#[test]
fn datagrams_are_sealed_as_the_document_says() {
    let document = Document::read();
    for vector in VECTORS {
        let plaintext = vector.plaintext(&document);
        document.agrees(vector.name, "plaintext", &plaintext);
        document.agrees(vector.name, "associated-data", &vector.header().associated_data());
        document.agrees(vector.name, "datagram", &vector.seal(&document.keys(), &plaintext));
    }
}

#[test]
fn the_documents_datagrams_are_opened_whatever_relays_may_change() {
    let document = Document::read();
    for vector in VECTORS {
        let mut datagram = document.block(&format!("{}-datagram", vector.name));
        datagram[1] = 0xff;
        datagram[4..8].fill(0xee);
        let header = Header::parse(&datagram).expect("a datagram");
        assert_eq!(header.epoch, vector.epoch % 16);
        let expected = PacketNumber(vector.packet_number.0 + 1000);
        let packet_number = PacketNumber::expand(header.packet_number, expected);
        assert_eq!(packet_number, vector.packet_number);

        let key = document.keys().packet_key(vector.aead, vector.sealer, vector.epoch);
        let sealed = &mut datagram[HEADER_LEN..];
        key.open(nonce(header.path, packet_number), &header.associated_data(), sealed).expect("authentic");
        let opened = &sealed[..sealed.len() - TAG_LEN];
        document.agrees(vector.name, "plaintext", opened);
        let (sent_at_us, frames) = split_timestamp(opened).expect("a timestamp");
        assert_eq!(sent_at_us, vector.sent_at_us);
        let packets = Frames::new(frames).filter_map(|frame| match frame.expect("well-formed") {
            Frame::Data(data) => Some(data.packet.to_vec()),
            Frame::Padding
            | Frame::Ping
            | Frame::Ack(_)
            | Frame::PathStats(..)
            | Frame::PathChallenge(_)
            | Frame::PathResponse(_)
            | Frame::PathUse(_)
            | Frame::Rekey(_)
            | Frame::Rekeyed(_)
            | Frame::Repair(_)
            | Frame::Stream(_)
            | Frame::StreamControl(_) => None,
        });
        assert_eq!(packets.collect::<Vec<_>>(), [document.block("inner-packet")]);
    }
}

#[test]
fn messages_are_written_as_the_document_says() {
    let document = Document::read();
    let hello = Hello {
        version: VERSION,
        incarnation: Incarnation(0x1122_3344_5566_7788),
        label: Label(0x8d3a_51c7),
        aead: Aead::Aes256Gcm,
        mtu: 1400,
        name: "van".to_owned(),
        capabilities: Capabilities::REKEY,
    };
    let (name, tier) = ("lte".to_owned(), Tier::Backup);
    let info = PathInfo { path: PathId(2), weight: 2, max_rate: Some(20_000_000), name, tier };
    let via = PathVia {
        path: PathId(2),
        relay: KeyBytes([0xa1; 32]),
        address: "198.51.100.7:5115".parse().expect("an address"),
        hop: document.hop(),
    };
    let seen = [
        (PathId(2), "198.51.100.7:40011".parse().expect("an address")),
        (PathId(4), "[2001:db8::7]:40012".parse().expect("an address")),
    ];
    let tokens = ProbeTokens {
        question: 0x0001_0203_0405_0607_0809_0a0b_0c0d_0e0f_u128.to_be_bytes(),
        answer: 0xf0f1_f2f3_f4f5_f6f7_f8f9_fafb_fcfd_feff_u128.to_be_bytes(),
    };
    let dropped = DropsOf {
        kind: Kind::Plain,
        sources: "10.1.0.0/16".parse().expect("a prefix"),
        destinations: "10.2.0.7/32".parse().expect("a prefix"),
        delivered: 25_000,
        dropped: 50_000,
        held_back: 10_000,
    };
    let messages = [
        ("hello", Message::Hello(hello)),
        ("path-info", Message::PathInfo(info)),
        ("close", Message::Close(CloseReason::Superseded)),
        ("limits", Message::Limits(Limits { udp_rate: Some(20_000_000) })),
        ("path-via", Message::PathVia(via)),
        ("about", Message::About(About { software: "psmcd 0.1.0".to_owned() })),
        ("probe", Message::Probe(Probe { step: ProbeStep::Open, tokens })),
        ("seen", Message::Seen(Seen { paths: seen.to_vec() })),
        ("drops", Message::Drops(Drops { of: vec![dropped] })),
        ("counts-wanted", Message::CountsWanted(7)),
        ("counts", Message::Counts(counts())),
    ];
    document.agrees("probe", "answer", &tokens.write_answer(seen[0].1));
    for (name, message) in messages {
        let mut bytes = Vec::new();
        message.encode(&mut bytes);
        document.agrees("message", name, &bytes);
        assert_eq!(Message::decode(&bytes[LENGTH_LEN..]), Ok(message));
    }
}

fn counts() -> Counts {
    let samples = vec![Arrived { number: 0x105, sent_us: 0x00bc_5a46, received_us: 0x0132_c3c0 }];
    let path = PathCounts { path: PathId(2), sent: [1000, 1002], received: [999, 1000], samples };
    Counts { request: 7, clock_us: 20_113_056, paths: vec![path] }
}

#[test]
fn what_a_relay_has_counted_is_written_as_the_document_says() {
    let samples = vec![Passed { number: 0x105, at_us: 0x0132_c3c0 }];
    let message = relay::Message::Counted(Counted {
        request: RequestId(9),
        session: SessionId(0x1122_3344_5566_7788),
        clock_us: 20_113_056,
        to_far: LaneCounts { received: [1000, 1002], handed_on: [992, 1002], samples },
        to_near: LaneCounts { received: [999, 1000], handed_on: [999, 1000], samples: Vec::new() },
    });
    let mut bytes = Vec::new();
    message.encode(&mut bytes);
    Document::read().agrees("relay", "counted", &bytes);
    assert_eq!(relay::Message::decode(&bytes[LENGTH_LEN..]), Ok(message));
}

#[test]
fn hop_headers_are_written_as_the_document_says() {
    let (document, number) = (Document::read(), PacketNumber(0x2_0000_0009));
    let inner = document.block("a-datagram");
    let mut datagram = [&[0; HOP_HEADER_LEN][..], &inner].concat();
    let marks = Marks { drop_precedence: 2, ..Marks::default() };
    write_hop_header(&mut datagram, &document.hop(), number, marks);
    document.agrees("hop", "header", &datagram[..HOP_HEADER_LEN]);
    let header = HopHeader::parse(&datagram).expect("a hop header");
    assert!(header.is_authentic(&datagram, number, &document.hop().key));
    assert_eq!(
        (header.label, header.marks, &datagram[HOP_HEADER_LEN..]),
        (document.hop().label, marks, &inner[..])
    );
}

#[test]
fn challenges_of_relays_are_written_as_the_document_says() {
    let (document, token) = (Document::read(), [0xa1, 0xa2, 0xa3, 0xa4, 0xa5, 0xa6, 0xa7, 0xa8]);
    let challenge = HopChallenge { path: PathId(2), label: Label(0x8d3a_51c7), token };
    document.agrees("hop", "challenge", &challenge.encode(&document.hop()));
    let response = HopResponse::encode(token, &document.hop());
    document.agrees("hop", "response", &response);
    assert_eq!(HopResponse::parse(&response), Ok(HopResponse { label: document.hop().label, token }));
}

/// The text of the document.
struct Document(String);

impl Document {
    fn read() -> Self {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/PROTOCOL.md");
        let text = std::fs::read_to_string(&path);
        Self(text.unwrap_or_else(|error| panic!("{}: {error}", path.display())))
    }

    /// The bytes of the block that begins with the line "```hex NAME"; what follows a # is a remark.
    fn block(&self, name: &str) -> Vec<u8> {
        let mut lines = self.0.lines().skip_while(|line| *line != format!("```hex {name}"));
        assert!(lines.next().is_some(), "the document has no block {name}");
        let body = lines.take_while(|line| !line.starts_with("```"));
        let digits: String =
            body.flat_map(|line| line.split('#').next().unwrap_or_default().split_whitespace()).collect();
        let byte = |at| u8::from_str_radix(&digits[at..at + 2], 16).expect("two hexadecimal digits");
        (0..digits.len()).step_by(2).map(byte).collect()
    }

    fn agrees(&self, vector: &str, stage: &str, bytes: &[u8]) {
        let name = format!("{vector}-{stage}");
        let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
        assert_eq!(hex(&self.block(&name)), hex(bytes), "{name}: document left, code right");
    }

    fn hop(&self) -> Hop {
        let key = self.block("hop-key").try_into().expect("16 bytes");
        Hop { label: Label(0xc0ff_ee01), key: HopKey(key) }
    }

    fn keys(&self) -> ExportedKeys {
        let secret: [u8; SECRET_LEN] = self.block("secret").try_into().expect("32 bytes");
        ExportedKeys::new(&secret)
    }
}
