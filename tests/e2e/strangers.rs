//! Strangers connect to the control port, and a peer talks nonsense.

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use psmc_net::keys::PrivateKey;
use psmc_net::tls::TlsError;
use psmc_net::tls::tcp::connect_tcp;
use tokio::task::JoinSet;

use crate::harness::{ADDRESSES, Family, Plan, Stranger, Stream, Tunnel, stranger_address, wait_for};

/// For what takes no time to speak of.
const PATIENCE: Duration = Duration::from_secs(10);

/// Connections that somebody opens without ever saying a word.
const HALF_OPEN: usize = 10_000;

/// How many of them at once.
const AT_ONCE: u8 = 200;

/// How long a restarted van may take to come back amid them.
const BACK_WITHIN: Duration = Duration::from_secs(3);

/// By how much a daemon may grow for nothing, in bytes.
const GROWTH: usize = 8 << 20;

/// By how much it may grow for the handshakes that are in progress.
const GROWTH_HALF_OPEN: usize = 64 << 20;

#[test]
fn a_stranger_is_refused_and_counted() {
    let tunnel = Tunnel::start(Plan::default());
    let stranger = Stranger::new(&tunnel.hq);
    let refused = stranger.talk(&PrivateKey::generate(), tunnel.hq.key.public(), b"");
    assert!(matches!(refused, Err(TlsError::KeyRefused)), "{refused:?}");
    wait_for_count(&tunnel, "control_unknown_key", 1);
    assert_eq!(tunnel.hq.counter("control_accepted"), 1);
    tunnel.ping(Family::V4);
}

#[test]
fn a_peer_that_announces_four_gigabytes_is_hung_up_on() {
    let tunnel = Tunnel::start(Plan::default());
    let stranger = Stranger::new(&tunnel.hq);
    let before = tunnel.hq.memory();
    let nonsense: [&[u8]; 3] = [&[0xff; 4], &[0xff; 4000], b"\x00\x00\x00\x05\x01nope"];
    for (count, bytes) in (1..).zip(nonsense.iter().cycle().take(30)) {
        // Whether it is closed or reset depends on what is still on its way.
        drop(stranger.talk(&tunnel.van.key, tunnel.hq.key.public(), bytes));
        wait_for_count(&tunnel, "control_malformed", count);
    }
    let growth = tunnel.hq.memory().saturating_sub(before);
    println!("30 connections of nonsense: grown by {} KiB", growth >> 10);
    assert!(growth < GROWTH, "{growth}");
    tunnel.ping(Family::V4);
}

#[test]
fn a_scan_sees_nothing_but_a_tls_alert() {
    let tunnel = Tunnel::start(Plan::default());
    let stranger = Stranger::new(&tunnel.hq);
    // Of two addresses the van dials, and gives the later one up.
    let before = tunnel.hq.counter("control_failed_handshake");
    let probes: [&[u8]; 5] = [
        b"GET / HTTP/1.0\r\n\r\n",
        b"SSH-2.0-scan\r\n",
        &[0; 5000],
        &client_hello(b""),
        &client_hello(b"\x00\x10\x00\x05\x00\x03\x02h2"),
    ];
    for probe in probes {
        let mut connection = stranger.connect();
        connection.write_all(probe).unwrap();
        let mut answer = Vec::new();
        connection.read_to_end(&mut answer).unwrap();
        // RFC 8446 §5.1 and §6: a record of type 21, of two bytes, the first of which says that it is fatal.
        assert!(matches!(*answer, [21, 3, _, 0, 2, 2, _]), "{probe:?}: {answer:?}");
    }
    wait_for_count(&tunnel, "control_failed_handshake", before + probes.len() as u64);
    tunnel.ping(Family::V4);
}

/// The greeting of a TLS 1.3 client that knows nothing of us (RFC 8446 §4.1.2), with more extensions.
fn client_hello(more: &[u8]) -> Vec<u8> {
    let extensions = [
        b"\x00\x2b\x00\x03\x02\x03\x04".as_slice(), // supported_versions: TLS 1.3
        b"\x00\x0a\x00\x04\x00\x02\x00\x1d",        // supported_groups: x25519
        b"\x00\x0d\x00\x06\x00\x04\x08\x07\x04\x03", // signature_algorithms: ed25519, ecdsa_secp256r1_sha256
        b"\x00\x33\x00\x26\x00\x24\x00\x1d\x00\x20", // key_share: x25519
        &[9; 32],
        more,
    ]
    .concat();
    let body = [
        b"\x03\x03".as_slice(),
        &[7; 32],                        // random
        b"\x00\x00\x02\x13\x01\x01\x00", // no session, TLS_AES_128_GCM_SHA256, no compression
        &length(&extensions, 2),
        &extensions,
    ]
    .concat();
    let message = [b"\x01".as_slice(), &length(&body, 3), &body].concat();
    [b"\x16\x03\x01".as_slice(), &length(&message, 2), &message].concat()
}

/// The length of `bytes` in so many bytes.
fn length(bytes: &[u8], size: usize) -> Vec<u8> {
    bytes.len().to_be_bytes()[8 - size..].to_vec()
}

#[test]
fn ten_thousand_half_open_connections_keep_nobody_out() {
    raise_limit_on_files();
    let mut tunnel = Tunnel::start(Plan::default());
    let stranger = Stranger::new(&tunnel.hq);
    let before = tunnel.hq.memory();
    let stream = Stream::start(&tunnel.van, &tunnel.hq, Duration::from_millis(10));
    let (opened, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let back = scope(|scope| {
        scope.spawn(|| open_half(&stranger, &opened, &enough));
        wait_for("half-open connections", 6 * PATIENCE, || {
            (opened.load(Ordering::Relaxed) >= HALF_OPEN).then_some(())
        });
        let traffic = stream.wait_until_back(Instant::now(), PATIENCE);
        assert!(traffic < Duration::from_secs(1), "{traffic:?}");
        tunnel.van.kill();
        let restarted = Instant::now();
        tunnel.van.start();
        let back = stream.wait_until_back(restarted, PATIENCE);
        println!("back {back:.0?} after a restart amid {HALF_OPEN} half-open connections");
        enough.store(true, Ordering::Relaxed);
        back
    });
    stream.finish();
    assert!(back < BACK_WITHIN, "{back:?}");
    let growth = tunnel.hq.memory().saturating_sub(before);
    println!(
        "{HALF_OPEN} half-open connections: grown by {} KiB, {} files open",
        growth >> 10,
        tunnel.hq.open_files()
    );
    assert!(growth < GROWTH_HALF_OPEN, "{growth}");
    assert!(tunnel.hq.open_files() < 1000, "{}", tunnel.hq.open_files());
    assert!(tunnel.hq.counter("control_evicted") > 0);
    tunnel.ping(Family::V4);
}

/// Opens connections from many addresses and counts them, until there are `enough`. The last of them stay open.
fn open_half(stranger: &Stranger, opened: &AtomicUsize, enough: &AtomicBool) {
    let flood = async || {
        let mut connections = VecDeque::new();
        while !enough.load(Ordering::Relaxed) {
            let mut batch = JoinSet::new();
            for number in 0..AT_ONCE {
                let from = stranger_address(number % ADDRESSES);
                batch.spawn(connect_tcp(None, Some(from), Stranger::target(), PATIENCE));
            }
            connections.extend(batch.join_all().await.into_iter().map(Result::unwrap));
            connections.drain(..connections.len().saturating_sub(HALF_OPEN));
            opened.fetch_add(AT_ONCE.into(), Ordering::Relaxed);
        }
    };
    stranger.namespace.block_on(flood).unwrap();
}

/// This process holds the strangers' ends of all connections.
fn raise_limit_on_files() {
    let (_, most) = getrlimit(Resource::RLIMIT_NOFILE).unwrap();
    assert!(most > HALF_OPEN as u64 + 1000, "the limit on open files is {most}: raise it (ulimit -Hn)");
    setrlimit(Resource::RLIMIT_NOFILE, most, most).unwrap();
}

fn wait_for_count(tunnel: &Tunnel, counter: &str, count: u64) {
    wait_for(counter, PATIENCE, || (tunnel.hq.counter(counter) == count).then_some(()));
}
