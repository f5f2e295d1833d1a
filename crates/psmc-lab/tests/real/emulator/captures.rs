//! Logs of packets.

use std::fs;
use std::path::Path;
use std::time::Duration;

use psmc_sim::link::LinkConfig;

use super::bench::{Bench, frames};

/// The records of a capture: nanoseconds since 1970, and the frame.
fn records(path: &Path) -> Vec<(u128, Vec<u8>)> {
    let bytes = fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert_eq!((word(0), word(20)), (0xa1b2_3c4d, 1), "nanoseconds, Ethernet");
    let mut records = Vec::new();
    let mut at = 24;
    while at < bytes.len() {
        let nanos = Duration::new(word(at).into(), word(at + 4)).as_nanos();
        let length = word(at + 8) as usize;
        assert_eq!(word(at + 12) as usize, length);
        records.push((nanos, bytes[at + 16..at + 16 + length].to_vec()));
        at += 16 + length;
    }
    records
}

#[test]
fn each_end_logs_what_enters_and_what_leaves() {
    let directory = tempfile::tempdir().unwrap();
    let paths = ["a.pcap", "b.pcap"].map(|name| directory.path().join(name));
    let config = LinkConfig { delay: Duration::from_millis(50), ..LinkConfig::default() };
    let mut bench = Bench::with_captures(&config, Some(paths.clone()));
    let (there, back) = (frames(300, 1000), frames(200, 500));
    bench.send(0, &there);
    bench.send(1, &back);
    bench.receive(1, 300);
    bench.receive(0, 200);
    assert_eq!(bench.health().warnings().iter().filter(|it| it.contains("capture")).count(), 0);
    drop(bench);
    let [at_a, at_b] = paths.each_ref().map(|path| records(path));
    for (log, entered, left) in [(&at_a, &there, &back), (&at_b, &back, &there)] {
        assert_eq!(log.len(), 500);
        for frames in [entered, left] {
            let of_this_kind =
                log.iter().map(|(_, frame)| frame).filter(|frame| frame.len() == frames[0].len());
            assert!(of_this_kind.eq(frames));
        }
    }
    let first = |log: &[(u128, Vec<u8>)]| log.iter().find(|(_, frame)| *frame == there[0]).unwrap().0;
    assert!(first(&at_b) - first(&at_a) >= Duration::from_millis(50).as_nanos());
}

#[test]
fn a_full_disk_ends_a_log_and_not_the_link() {
    let directory = tempfile::tempdir().unwrap();
    let paths = [Path::new("/dev/full").to_owned(), directory.path().join("b.pcap")];
    let mut bench = Bench::with_captures(&LinkConfig::default(), Some(paths.clone()));
    let sent = frames(500, 1000);
    for _ in 0..4 {
        bench.send(0, &sent);
        bench.receive(1, 500);
    }
    let end = std::time::Instant::now() + Duration::from_secs(20);
    while bench.health().capture_failures.is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(10));
    }
    let warnings = bench.health().warnings();
    assert!(warnings.iter().any(|warning| warning.contains("/dev/full: No space left")), "{warnings:?}");
    drop(bench);
    assert_eq!(records(&paths[1]).len(), 2000);
}
