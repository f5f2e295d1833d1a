//! Strangers connect to the control port, and a peer talks nonsense.

use std::collections::VecDeque;
use std::fs;
use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::scope;
use std::time::{Duration, Instant};

use nix::sys::resource::{Resource, getrlimit, setrlimit};
use psmc_net::keys::PrivateKey;
use psmc_net::tls::TlsError;
use psmc_net::tls::tcp::connect_tcp;
use tokio::io::AsyncWriteExt;
use tokio::task::JoinSet;
use tokio::time::timeout;

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

/// How many connections strangers open in a second, if the machine lets them.
const FLOOD: usize = 3000;

/// Every ten milliseconds.
const AT_A_BEAT: u8 = 30;

/// From how many addresses.
const SOURCES: u8 = 20;

/// How long the way of a peer that is far away takes, in either direction.
const FAR: Duration = Duration::from_millis(100);

/// Handshakes that twenty sources get answered: twenty of each at once, and ten a second.
fn answered_within(time: Duration) -> f64 {
    f64::from(SOURCES) * (20.0 + 10.0 * time.as_secs_f64())
}

/// The first message of real handshakes, with all that makes one expensive, comes from twenty sources, which wait for the answers. A peer with a
/// round trip of 200 ms is started amid them.
#[test]
fn three_thousand_handshakes_a_second_keep_no_far_peer_out() {
    raise_limit_on_files();
    let (mut tunnel, _emulator) = Tunnel::prepare_delayed(FAR);
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let stranger = Stranger::new(&tunnel.hq);
    // Somebody who does not know the key of headquarters.
    let greeting = stranger.first_message(PrivateKey::generate().public());
    let (opened, enough) = (AtomicUsize::new(0), AtomicBool::new(false));
    let stream = Stream::start(&tunnel.van, &tunnel.hq, Duration::from_millis(10));
    let (accepted, quiet) = (tunnel.hq.counter("control_accepted"), tunnel.hq.processor_time().0);
    let (unanswered, begun) = (unanswered(&tunnel), Instant::now());
    scope(|scope| {
        scope.spawn(|| greet(&stranger, &greeting, &opened, &enough));
        wait_for("a flood", 6 * PATIENCE, || (opened.load(Ordering::Relaxed) >= FLOOD).then_some(()));
        tunnel.van.kill();
        let (restarted, before) = (Instant::now(), opened.load(Ordering::Relaxed));
        tunnel.van.start();
        let back = stream.wait_until_back(restarted, 3 * PATIENCE);
        let rate = (opened.load(Ordering::Relaxed) - before) as f64 / restarted.elapsed().as_secs_f64();
        println!("back {back:.0?} after a restart amid {rate:.0} handshakes a second");
        enough.store(true, Ordering::Relaxed);
    });
    let (opened, time) = (opened.into_inner(), begun.elapsed());
    // What comes late is counted before the next answer of the daemon, or is in its queue.
    let refused = self::unanswered(&tunnel) - unanswered;
    let busy = tunnel.hq.processor_time().0 - quiet;
    println!(
        "of {opened} in {time:.1?} {refused} were not answered; {:.0?} each",
        busy / u32::try_from(opened).unwrap()
    );
    assert!(
        (opened as f64) - refused as f64 <= answered_within(time) + IN_QUEUES,
        "{refused} of {opened} in {time:?}"
    );
    assert_eq!(tunnel.hq.counter("control_accepted"), accepted + 1, "the first call of the van got through");
    stream.finish();
    tunnel.ping(Family::V4);
}

/// Connections that wait to be accepted, and handshakes in progress.
const IN_QUEUES: f64 = 1600.0;

/// Handshakes for which headquarters have computed nothing.
fn unanswered(tunnel: &Tunnel) -> u64 {
    tunnel.hq.counter("control_put_off") + tunnel.hq.counter("control_evicted")
}

/// Opens connections from many addresses, says `greeting` on each of them and waits for what comes, until there are `enough`.
fn greet(stranger: &Stranger, greeting: &[u8], opened: &AtomicUsize, enough: &AtomicBool) {
    let flood = async || {
        let mut beat = tokio::time::interval(Duration::from_millis(10));
        let (mut greeters, greeting) = (JoinSet::new(), Arc::<[u8]>::from(greeting));
        while !enough.load(Ordering::Relaxed) {
            beat.tick().await;
            while greeters.try_join_next().is_some() {}
            for number in 0..AT_A_BEAT {
                // Who finds no room in queues counts for nothing, and sends nothing.
                if greeters.len() >= HALF_OPEN {
                    break;
                }
                let from = stranger_address(number % SOURCES);
                let greeting = greeting.clone();
                greeters.spawn(async move {
                    let connected = connect_tcp(None, Some(from), Stranger::target(), PATIENCE).await;
                    let Ok(mut stream) = connected else { return };
                    let said = stream.write_all(&greeting).await;
                    if said.is_ok() {
                        // Whatever the answer is, and however the connection ends.
                        let _ = timeout(PATIENCE, tokio::io::copy(&mut stream, &mut tokio::io::sink())).await;
                    }
                });
                opened.fetch_add(1, Ordering::Relaxed);
            }
        }
    };
    stranger.namespace.block_on(flood).unwrap();
}

#[test]
fn a_quiet_site_says_nothing_to_strangers_and_serves_its_peers() {
    let mut tunnel = Tunnel::prepare(Plan::default());
    let text = fs::read_to_string(tunnel.hq.file("toml")).unwrap();
    tunnel.hq.configure(&text.replacen("[site]", "[site]\nquiet = true", 1));
    tunnel.hq.start();
    tunnel.van.start();
    tunnel.wait_until_up();
    let stranger = Stranger::new(&tunnel.hq);
    let of_the_van = stranger.first_message(tunnel.hq.key.public());
    let words = [
        b"GET / HTTP/1.0\r\n\r\n".to_vec(),
        client_hello(b""),
        client_hello(b"\x00\x10\x00\x09\x00\x07\x06psmc/1"),
        stranger.first_message(PrivateKey::generate().public()),
        of_the_van.clone(),
        of_the_van,
    ];
    for (position, words) in words.iter().enumerate() {
        let mut connection = stranger.connect();
        connection.write_all(words).unwrap();
        let mut answer = Vec::new();
        // An answer of TLS is more, and the connection then stays open for a while.
        let _ = connection.take(1).read_to_end(&mut answer);
        // Only the first message that knows the key is answered, with a record of a handshake; repeated, it is not.
        let expected: &[u8] = if position == 4 { &[22] } else { &[] };
        assert_eq!(answer, expected, "{position}");
    }
    // Who knows the key, and is no peer, is told so.
    let refused = stranger.talk(&PrivateKey::generate(), tunnel.hq.key.public(), b"");
    assert!(matches!(refused, Err(TlsError::KeyRefused)), "{refused:?}");
    tunnel.van.kill();
    tunnel.van.start();
    tunnel.wait_until_up();
    tunnel.ping(Family::V4);
}

fn wait_for_count(tunnel: &Tunnel, counter: &str, count: u64) {
    wait_for(counter, PATIENCE, || (tunnel.hq.counter(counter) == count).then_some(()));
}
