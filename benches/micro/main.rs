//! What functions that every packet goes through take of time, with the real ciphers: `cargo bench -p psmc-net --bench micro`.
//!
//! Instructions are counted by `cargo bench -p psmc-core --bench instructions`, which says the same on a busy machine as on an
//! idle one, but can tell nothing of ciphers: how long one takes depends on instructions of the CPU that take longer than
//! others, and valgrind knows few of them.

use divan::counter::{BytesCount, ItemsCount};
use divan::{Bencher, black_box};
use psmc_net::aead::ExportedKeys;
use psmc_wire::crypto::{Aead, KeySource, NONCE_LEN, PacketKey, Role, TAG_LEN};
use psmc_wire::frame::{AckHeader, DataFrame, Frame, FrameWriter, Frames, MAX_ACK_GAPS, PacketRange};
use psmc_wire::{Bucket, Checksum, FlowSeq, PacketNumber, PathId};

fn main() {
    divan::main();
}

/// Bytes of what is sealed: the smallest, a middling and a full-size packet.
const SIZES: [usize; 3] = [64, 512, 1400];

/// Calls that are timed together: what the clock can't tell apart is nothing beside so many.
const SAMPLE: u32 = 256;

/// What a datagram's header has, which is authenticated with the payload.
const HEADER: [u8; 8] = [7; 8];

fn key(aead: Aead) -> Box<dyn PacketKey> {
    ExportedKeys::new(&[7; 32]).packet_key(aead, Role::Dialer, 0)
}

/// The nonce of a packet.
fn nonce(number: u64) -> [u8; NONCE_LEN] {
    let mut nonce = [0; NONCE_LEN];
    nonce[NONCE_LEN - 8..].copy_from_slice(&number.to_be_bytes());
    nonce
}

fn seal(bencher: Bencher<'_, '_>, aead: Aead, size: usize) {
    let (key, mut payload, mut number) = (key(aead), vec![7; size], 0);
    bencher.counter(BytesCount::new(size)).bench_local(|| {
        number += 1;
        key.seal(nonce(number), &HEADER, black_box(&mut payload))
    });
}

fn open(bencher: Bencher<'_, '_>, aead: Aead, size: usize) {
    let key = key(aead);
    let mut sealed = vec![7; size];
    let tag = key.seal(nonce(1), &HEADER, &mut sealed);
    sealed.extend_from_slice(&tag);
    assert_eq!(sealed.len(), size + TAG_LEN);
    // What was opened is no longer sealed: every opening has a copy of its own, which is not timed.
    let bencher = bencher.counter(BytesCount::new(size)).with_inputs(|| sealed.clone());
    bencher.bench_local_refs(|sealed| key.open(nonce(1), &HEADER, sealed).expect("it is authentic"));
}

#[divan::bench(args = SIZES, sample_size = SAMPLE)]
fn seal_aes_256_gcm(bencher: Bencher<'_, '_>, size: usize) {
    seal(bencher, Aead::Aes256Gcm, size);
}

#[divan::bench(args = SIZES, sample_size = SAMPLE)]
fn open_aes_256_gcm(bencher: Bencher<'_, '_>, size: usize) {
    open(bencher, Aead::Aes256Gcm, size);
}

#[divan::bench(args = SIZES, sample_size = SAMPLE)]
fn seal_chacha20_poly1305(bencher: Bencher<'_, '_>, size: usize) {
    seal(bencher, Aead::ChaCha20Poly1305, size);
}

#[divan::bench(args = SIZES, sample_size = SAMPLE)]
fn open_chacha20_poly1305(bencher: Bencher<'_, '_>, size: usize) {
    open(bencher, Aead::ChaCha20Poly1305, size);
}

/// A datagram's payload of what `write` writes.
fn frames(write: impl FnOnce(&mut FrameWriter<'_>) -> bool) -> Vec<u8> {
    let mut room = vec![0; 1500];
    let mut writer = FrameWriter::new(&mut room);
    assert!(write(&mut writer), "there is room for one frame");
    let len = writer.len();
    room.truncate(len);
    room
}

#[divan::bench(args = SIZES, sample_size = SAMPLE)]
fn parse_data(bencher: Bencher<'_, '_>, size: usize) {
    let packet = vec![7; size];
    let bytes = frames(|writer| {
        writer.data(&DataFrame {
            bucket: Bucket::new(1).expect("there are more buckets"),
            seq: FlowSeq(1),
            ordered: true,
            repaired: true,
            checksum: Checksum::Complete,
            part: None,
            packet: &packet,
        })
    });
    bencher.counter(ItemsCount::new(1u32)).bench_local(|| Frames::new(black_box(&bytes)).count());
}

#[divan::bench(args = [0, 1, MAX_ACK_GAPS], sample_size = SAMPLE)]
fn parse_acknowledgement_with_gaps(bencher: Bencher<'_, '_>, gaps: usize) {
    const LARGEST: u64 = 1000;
    let header = AckHeader {
        path: PathId(0),
        largest: 1000,
        delay_us: 0,
        received_at_us: 0,
        ect0: 0,
        congestion_experienced: 0,
    };
    let runs = (0..=gaps as u64).map(|run| PacketNumber(LARGEST - 2 * run));
    let bytes =
        frames(|writer| writer.ack(&header, runs.map(|only| PacketRange { first: only, last: only })));
    bencher.counter(ItemsCount::new(gaps + 1)).bench_local(|| {
        let Some(Ok(Frame::Ack(frame))) = Frames::new(black_box(&bytes)).next() else { return 0 };
        frame.ranges(PacketNumber(LARGEST)).count()
    });
}
