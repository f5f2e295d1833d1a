//! What share of the paths a class gets, and how long it waits for it.

use super::*;
use crate::classify::{ClassMatch, Classes, Classified, Priority, QuicHint};

const LEN: usize = 1400;

/// High priority with a weight of 5, low with 1, and best effort with 10.
const WEIGHTS: [(Priority, u16); 3] = [(Priority::High, 5), (Priority::Low, 1), (Priority::Normal, 10)];

/// The place of each of them in [`WEIGHTS`].
const HIGH: usize = 0;
const LOW: usize = 1;
const NORMAL: usize = 2;

/// A bench with these classes; their flows are in the buckets of the same numbers.
struct Competition {
    bench: Bench,
    ids: Vec<ClassId>,
}

impl Competition {
    fn new() -> Self {
        let class = |(code, (priority, weight)): (u8, (Priority, u16))| {
            let packets = ClassMatch { dscp: 1 << code, ..ClassMatch::default() };
            let name = code.to_string();
            ClassConfig { packets, priority, weight, name, ..ClassConfig::best_effort() }
        };
        let classes = Classes::new((0..).zip(WEIGHTS).map(class).collect());
        let mut bench = Bench::new(MTU);
        bench.queue = EgressQueue::new(classes.list(), MTU);
        let id = |dscp| {
            let address = std::net::Ipv4Addr::LOCALHOST.into();
            let (source, destination, bucket) = (address, address, Bucket::of_hash(0));
            let (protocol, ports, ordered, quic) = (17, None, false, QuicHint::No);
            let (is_ce, flow) = (false, 0);
            let headers =
                Classified { source, destination, protocol, dscp, is_ce, ports, flow, bucket, ordered, quic };
            classes.of(&headers)
        };
        Self { bench, ids: (0..3).map(id).collect() }
    }

    fn push(&mut self, class: usize) {
        let bucket = u16::try_from(class).expect("few classes");
        let packet = queued(bucket, 0, LEN, LEN, self.bench.now);
        let packet = Queued { class: self.ids[class], ..packet };
        self.bench.queue.push(packet, &mut self.bench.pool);
    }

    /// How many packets of each class go if these always have some waiting.
    fn serve(&mut self, packets: usize, backlogged: &[usize]) -> [usize; 3] {
        let mut served = [0; 3];
        backlogged.iter().for_each(|&class| (0..3).for_each(|_| self.push(class)));
        for _ in 0..packets {
            let (bucket, _) = self.bench.pop().expect("they are backlogged");
            served[usize::from(bucket)] += 1;
            self.push(usize::from(bucket));
        }
        served
    }
}

#[test]
fn classes_that_compete_get_their_weights() {
    for (backlogged, expected) in [
        (vec![HIGH, LOW, NORMAL], [500, 100, 1000]),
        (vec![HIGH, NORMAL], [500, 0, 1000]),
        (vec![LOW, NORMAL], [0, 100, 1000]),
        (vec![LOW], [0, 1600, 0]),
    ] {
        let served = Competition::new().serve(expected.iter().sum(), &backlogged);
        assert_eq!(served, expected, "{backlogged:?}");
    }
}

#[test]
fn a_class_of_high_priority_within_its_share_is_served_at_once() {
    let mut competition = Competition::new();
    competition.serve(100, &[LOW, NORMAL]);
    for _ in 0..200 {
        // One packet in six: less than 5 of 16.
        competition.push(HIGH);
        let first = competition.bench.pop().map(|(bucket, _)| usize::from(bucket));
        assert_eq!(first, Some(HIGH));
        let others = competition.serve(5, &[]);
        assert_eq!(others[HIGH], 0);
    }
}

#[test]
fn an_idle_class_saves_nothing_for_later() {
    let mut competition = Competition::new();
    competition.serve(1000, &[NORMAL]);
    let served = competition.serve(16, &[HIGH]);
    assert!(served[HIGH] <= 2 * usize::from(WEIGHTS[HIGH].1), "{served:?}");
}

#[test]
fn classes_have_counters_of_their_own() {
    let mut competition = Competition::new();
    (0..10_000).for_each(|_| competition.push(LOW));
    (0..10).for_each(|_| competition.push(HIGH));
    let of = |competition: &Competition, class: usize| {
        competition.bench.queue.classes().find(|status| status.name == class.to_string()).expect("a class")
    };
    let (low, high) = (of(&competition, LOW), of(&competition, HIGH));
    assert_eq!((high.queued_packets, high.queued_bytes), (10, 10 * LEN as u64));
    assert_eq!(high.counters, QueueCounters::default());
    assert_eq!(low.counters.dropped_full + low.queued_packets as u64, 10_000);
    assert_eq!(competition.bench.queue.dropped(), low.counters.dropped());
    competition.bench.pop();
    assert_eq!(of(&competition, HIGH).counters.passed, 1);
}

/// The classes are others, and packets wait.
#[test]
fn what_waits_goes_first_in_its_order_and_is_counted_on() {
    let class = |name: &str| ClassConfig { name: name.to_owned(), ..ClassConfig::best_effort() };
    let mut bench = Bench::new(MTU);
    for number in 0..20 {
        bench.push(u16::try_from(number % 3).expect("small"), number, 100);
        bench.now += Duration::from_micros(1);
    }
    assert!(bench.pop().is_some());
    // One more is out of its queue, and next to go.
    assert!(bench.queue.front(&mut bench.pool, bench.now).is_some());
    let passed = bench.counters().passed;
    bench.queue.set_classes(&[class("voice"), ClassConfig::best_effort()]);
    let names: Vec<_> = bench.queue.classes().map(|class| (class.name, class.counters.passed)).collect();
    assert_eq!(names, [("voice".to_owned(), 0), (ClassConfig::best_effort().name, passed)]);
    assert_eq!(bench.queue.len(), 19);
    bench.push(0, 100, 100);
    let left: Vec<_> = std::iter::from_fn(|| bench.pop()).map(|(_, number)| number).collect();
    assert_eq!(left.len(), 20);
    assert!(left[1..].is_sorted(), "{left:?}");
    assert_eq!(left.last(), Some(&100));
}
