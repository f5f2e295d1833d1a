use psmc_api::{SegmentBlock, WayStatus, Witness, WitnessCount};

use super::*;
use crate::config::DelayLimit;

fn promise() -> Promise {
    Promise {
        name: "hq".parse().unwrap(),
        measured: Measured::Peer("hq".parse().unwrap()),
        delay: None,
        loss_ppm: Some(5000),
        throughput: None,
        class: None,
        probe: false,
        window: Duration::from_secs(10),
        on_breach: None,
        method: Method::Counted,
    }
}

/// A direction with one relay, of which these datagrams arrive at each in a block.
fn way(names: [&str; 3], number: i64, counts: [u64; 3]) -> WayStatus {
    let count = |(at, &count): (usize, &u64)| {
        Some(WitnessCount { received: (at > 0).then_some(count), handed_on: (at < 2).then_some(count) })
    };
    let block = SegmentBlock { number, blocks: 1, counts: counts.iter().enumerate().map(count).collect() };
    WayStatus {
        witnesses: names.map(|name| Witness { name: name.to_owned(), counts: true }).to_vec(),
        blocks: vec![block.clone()],
        total: block,
        passages: Vec::new(),
    }
}

fn path(number: i64, to: [u64; 3], from: [u64; 3]) -> PathSegments {
    PathSegments {
        peer: "hq".to_owned(),
        path: "dsl".to_owned(),
        id: 1,
        to_peer: way(["van", "r0", "hq"], number, to),
        from_peer: way(["hq", "r0", "van"], number, from),
    }
}

/// Runs through half seconds, of which a few datagrams of fifty are lost each way; returns the events with their times.
fn run(watch: &mut Watch, blocks: std::ops::Range<i64>, to: u64, from: u64) -> Vec<(i64, Event)> {
    let events = blocks.filter_map(|number| {
        let now = Duration::from_millis(500) * u32::try_from(number).unwrap();
        watch.counted(now, &[path(number, [50, 50, 50 - to], [50, 50 - from, 50 - from])]);
        watch.judge(now).map(|event| (number, event))
    });
    events.collect()
}

#[test]
fn a_breach_is_one_event_and_names_the_segment() {
    let mut watch = Watch::new(promise(), "van");
    assert_eq!(run(&mut watch, 0..40, 0, 0), []);
    assert_eq!(watch.status(Duration::from_secs(20)).state, SlaState::Met);
    // 100 packets/s of which 4 % are lost: more than 5 of 1,000 after three blocks.
    assert_eq!(run(&mut watch, 40..80, 2, 0), [(42, Event::Breach)]);
    let status = watch.status(Duration::from_secs(40));
    assert_eq!((status.state, status.breaches, status.since_s), (SlaState::Broken, 1, 19.0));
    assert_eq!(status.broken, ["loss to hq"]);
    let [fault] = &status.faults[..] else { panic!("{status:?}") };
    assert_eq!((fault.from.as_str(), fault.to.as_str(), fault.proven), ("r0", "hq", true));
    assert!((fault.low..fault.high).contains(&4.0) && fault.what == "loss", "{fault:?}");
    let events = run(&mut watch, 80..160, 0, 0);
    assert!(matches!(events[..], [(_, Event::Recovered)]), "{events:?}");
    assert_eq!(watch.status(Duration::from_secs(80)).faults, []);
}

#[test]
fn what_the_peer_sends_is_watched_as_well() {
    let mut watch = Watch::new(promise(), "van");
    run(&mut watch, 0..40, 0, 0);
    assert_eq!(run(&mut watch, 40..60, 0, 2), [(42, Event::Breach)]);
    let status = watch.status(Duration::from_secs(30));
    assert_eq!(status.broken, ["loss from hq"]);
    assert_eq!((status.faults[0].from.as_str(), status.faults[0].to.as_str()), ("hq", "r0"));
    // It goes on the other way beside it: that is no other breach.
    assert_eq!(run(&mut watch, 60..80, 2, 2), []);
}

#[test]
fn without_traffic_it_is_not_known_and_why_is_said() {
    let mut watch = Watch::new(promise(), "van");
    assert_eq!(watch.judge(Duration::from_secs(1)), None);
    let status = watch.status(Duration::from_secs(1));
    assert_eq!(status.state, SlaState::Unknown);
    assert!(status.why.unwrap().contains("no path to the peer counts"));
}

fn delays(watch: &mut Watch, from_s: u64, to_s: u64, ms: u64) -> Vec<Event> {
    let mut recent = RoundTrips::default();
    // As many as there were before.
    (0..4 * from_s).for_each(|_| recent.add(Duration::ZERO));
    let events = (4 * from_s..4 * to_s).filter_map(|tick| {
        let now = Duration::from_millis(250 * tick);
        watch.counted(now, &[path(i64::try_from(tick).unwrap(), [50; 3], [50; 3])]);
        recent.add(Duration::from_millis(ms));
        let round_trips = vec![(1, recent, Some(Duration::from_millis(20)))];
        watch.carried(now, &Carried { round_trips, ..Carried::default() });
        watch.judge(now)
    });
    events.collect()
}

#[test]
fn delay_is_that_of_the_round_trip() {
    let limit = DelayLimit { percentile: 95, most: Duration::from_millis(60) };
    let mut watch = Watch::new(Promise { delay: Some(limit), ..promise() }, "van");
    assert_eq!(delays(&mut watch, 0, 20, 30), []);
    assert_eq!(delays(&mut watch, 20, 40, 90), [Event::Breach]);
    let status = watch.status(Duration::from_secs(40));
    assert_eq!(status.broken, ["delay"]);
    assert!(status.round_trip_ms.unwrap() > 89.0, "{status:?}");
    // Nobody has seen a datagram pass: no segment is named.
    assert!(status.faults.is_empty() && !status.untold.is_empty(), "{status:?}");
}

#[test]
fn the_same_sample_counts_once() {
    let limit = DelayLimit { percentile: 50, most: Duration::from_millis(60) };
    let mut watch = Watch::new(Promise { delay: Some(limit), loss_ppm: None, ..promise() }, "van");
    for tick in 0..100 {
        let now = Duration::from_millis(100) * tick;
        watch.counted(now, &[path(tick.into(), [0; 3], [0; 3])]);
        let mut recent = RoundTrips::default();
        recent.add(Duration::from_secs(1));
        let round_trips = vec![(1, recent, None)];
        watch.carried(now, &Carried { round_trips, ..Carried::default() });
        assert_eq!(watch.judge(now), None);
    }
}

#[test]
fn throughput_is_judged_only_while_packets_wait() {
    let throughput = Some("8mbit".parse().unwrap());
    let mut watch = Watch::new(Promise { throughput, loss_ppm: None, ..promise() }, "van");
    let mut run = |seconds: std::ops::Range<u64>, waits| -> Vec<Event> {
        let events = seconds.filter_map(|second| {
            let now = Duration::from_secs(second);
            // 4 Mbit/s.
            watch.carried(now, &Carried { bytes: 500_000 * second, waits, ..Carried::default() });
            watch.judge(now)
        });
        events.collect()
    };
    assert_eq!(run(0..30, false), []);
    assert_eq!(run(30..60, true), [Event::Breach]);
}

#[test]
fn the_literatures_method_asks_only_once_delay_is_high() {
    let limit = DelayLimit { percentile: 95, most: Duration::from_millis(60) };
    let promise = Promise { delay: Some(limit), method: Method::Seed, ..promise() };
    let mut watch = Watch::new(promise, "van");
    assert!(!watch.wants_witnesses());
    assert_eq!(delays(&mut watch, 0, 10, 30), []);
    assert!(!watch.wants_witnesses());
    // No loss: conditions are abnormal, and nothing is violated.
    assert_eq!(delays(&mut watch, 10, 20, 200), []);
    assert!(watch.wants_witnesses());
    assert_eq!(run(&mut watch, 200..201, 2, 0), [(200, Event::Breach)]);
}

#[test]
fn what_is_suspected_is_looked_at_closer_and_an_idle_path_only_if_that_is_wanted() {
    for (probe, idle) in [(false, None), (true, Some(Duration::from_millis(250)))] {
        let mut watch = Watch::new(Promise { probe, ..promise() }, "van");
        let at = Duration::from_secs;
        assert_eq!(watch.filling(at(0)), idle);
        run(&mut watch, 0..20, 0, 0);
        assert_eq!(watch.filling(at(10)), idle);
        // One of fifty datagrams is no breach yet.
        assert_eq!(run(&mut watch, 20..21, 1, 0), []);
        assert_eq!(watch.filling(at(10)), Some(SUSPECTED_INTERVAL));
        run(&mut watch, 21..30, 0, 0);
        assert_eq!(watch.filling(at(15)), idle);
        assert_eq!(run(&mut watch, 30..31, 25, 0), [(30, Event::Breach)]);
        assert_eq!(watch.filling(at(15)), idle, "what is broken is known");
    }
}

#[test]
fn what_is_usual_is_what_all_classes_carry_while_all_is_well() {
    let mut watch = Watch::new(promise(), "van");
    for second in 0..60_u32 {
        let sent = 125_000 * u64::from(second);
        watch.carried(
            Duration::from_secs(second.into()),
            &Carried { sent, received: 2 * sent, ..Carried::default() },
        );
    }
    assert_eq!([true, false].map(|is_sent| watch.usual(is_sent)), [Some(1e6), Some(2e6)]);
}

#[test]
fn where_no_segment_is_named_it_is_the_whole_way() {
    let mut watch = Watch::new(Promise { throughput: Some("8mbit".parse().unwrap()), ..promise() }, "van");
    for second in 0..40_u32 {
        let now = Duration::from_secs(second.into());
        watch.counted(now, &[path(second.into(), [50; 3], [50; 3])]);
        let round_trips = vec![(1, RoundTrips::default(), None)];
        watch.carried(now, &Carried { round_trips, waits: true, ..Carried::default() });
        watch.judge(now);
    }
    let crossed = Crossed { from: "van".to_owned(), to: "hq".to_owned(), path: 1, is_sent: true };
    assert_eq!(watch.crossed(), [crossed]);
    let mut watch = Watch::new(promise(), "van");
    run(&mut watch, 0..40, 0, 0);
    run(&mut watch, 40..60, 0, 3);
    let crossed = Crossed { from: "hq".to_owned(), to: "r0".to_owned(), path: 1, is_sent: false };
    assert_eq!(watch.crossed(), [crossed]);
}
