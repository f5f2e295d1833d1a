use psmc_core::Passage;
use psmc_wire::PathId;

use super::*;

const TICK: Duration = Duration::from_millis(250);

fn segment(from: &str, to: &str) -> Segment {
    (from.to_owned(), to.to_owned())
}

fn suspects(peers: &[u32], usual: Option<f64>) -> Suspects {
    let mut suspects = Suspects::default();
    for &peer in peers {
        let passing = Passing { peer: PeerId(peer), path: 1, is_sent: true };
        suspects.add(segment("r0", "r1"), passing, usual);
    }
    suspects
}

fn sample(peer: u32, is_sent: bool, source: [u8; 4], destination: [u8; 4]) -> Sample {
    let passage = Passage { peer: PeerId(peer), path: PathId(1), is_sent };
    Sample { passage, source: source.into(), destination: destination.into(), bytes: 1000 }
}

/// Four seconds of a flood through two peers to hosts of one of them, and a few packets besides.
fn run(crossings: &mut Crossings, from: u32, ticks: u32, peers: &[u32], usual: Option<f64>) {
    for tick in from..from + ticks {
        let mut packets = Vec::new();
        for host in 0..250 {
            packets.push(sample(1, true, [10, 1, host, 1], [203, 0, 113, 80]));
            packets.push(sample(2, true, [10, 2, 0, host], [198, 51, 100, host]));
            packets.push(sample(3, true, [10, 3, 0, 1], [192, 0, 2, 1]));
        }
        let now = TICK * tick;
        crossings.suspect(suspects(peers, usual), now);
        let name = |peer: PeerId, path| format!("path {path} of {}", peer.0);
        crossings.advance(&Samples { packets, every: 2 }, name, now);
    }
}

#[test]
fn what_several_targets_share_is_one_segment() {
    let mut crossings = Crossings::default();
    assert!(!crossings.is_counting());
    run(&mut crossings, 1, 16, &[1, 2], Some(1e6));
    let found = crossings.found(&[segment("r0", "r1")].into());
    let prefixes: Vec<_> = found.iter().map(|found| found.prefix.as_str()).collect();
    // Nothing of what takes other ways.
    assert_eq!(prefixes, ["203.0.113.80/32", "198.51.100.0/24"], "{found:?}");
    assert!(found.iter().all(|found| found.cause == SlaCause::Attack && found.from == "r0"), "{found:?}");
    // 2 packets of 1,000 bytes for each of 250 samples in a quarter of a second, against what both peers had.
    assert!((found[0].rate_mbps / 16.0 - 1.0).abs() < 0.1, "{found:?}");
    assert!((found[0].risen.unwrap() / 8.0 - 1.0).abs() < 0.1, "{found:?}");
    assert_eq!(found[1].ingresses, [SlaIngress { name: "10.2.0.0/24".to_owned(), share_pct: 100.0 }]);
    assert!(crossings.is_settled(&[segment("r0", "r1")].into()));
    assert_eq!(crossings.found(&[segment("r1", "r2")].into()), []);
}

#[test]
fn what_is_usual_of_one_peer_alone_does_not_do() {
    let mut crossings = Crossings::default();
    run(&mut crossings, 1, 16, &[1, 2], None);
    let found: Vec<_> = crossings.all().map(|found| found.cause).collect();
    assert_eq!(found, [SlaCause::CannotBeTold; 2]);
    let segments = [segment("r0", "r1")].into();
    assert!(!crossings.is_settled(&segments), "more may become known");
    run(&mut crossings, 17, 40, &[1, 2], None);
    assert!(crossings.is_settled(&segments));
}

#[test]
fn it_counts_for_a_minute_and_ten_seconds_of_each_other_one() {
    let mut crossings = Crossings::default();
    let counts = (1..4 * 300).filter(|tick| {
        run(&mut crossings, *tick, 1, &[1], Some(1e6));
        crossings.is_counting()
    });
    let counted = TICK * u32::try_from(counts.count()).unwrap();
    assert!((98..=102).contains(&counted.as_secs()), "{counted:?}");
    assert_eq!(crossings.all().count(), 1);
    run(&mut crossings, 1200, 1, &[], None);
    assert!(!crossings.is_counting() && crossings.all().count() == 0);
}
