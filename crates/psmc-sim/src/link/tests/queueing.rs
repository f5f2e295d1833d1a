//! Queues: what they hold, and how long packets wait in them.

use proptest::prelude::*;

use super::*;

/// A link of a fixed rate and a drop-tail queue, as its definition reads: times are in nanoseconds by the rate.
struct Naive {
    rate: u128,
    limit: QueueLimit,
    /// Of every packet accepted: when it began to be sent, when it had been, and its bytes.
    sent: Vec<(u128, u128, usize)>,
}

impl Naive {
    fn nanos(&self, time: u128) -> u128 {
        time / self.rate
    }

    /// When a packet has been sent; `None` if it is dropped.
    fn enter(&mut self, len: usize, now: u128) -> Option<u128> {
        let waiting = self.sent.iter().filter(|(begin, ..)| self.nanos(*begin) > now);
        let (packets, bytes) = waiting.fold((0, len), |(packets, bytes), sent| (packets + 1, bytes + sent.2));
        let busy = self.sent.last().is_some_and(|(_, end, _)| self.nanos(*end) > now);
        let fits = match self.limit {
            QueueLimit::Packets(limit) => packets < limit,
            QueueLimit::Bytes(limit) => bytes <= limit,
            QueueLimit::Time(limit) => bytes as u128 * 8_000_000_000 <= limit.as_nanos() * self.rate,
        };
        if busy && !fits {
            return None;
        }
        let begin = self.sent.last().map_or(0, |(_, end, _)| *end).max(now * self.rate);
        let end = begin + len as u128 * 8_000_000_000;
        self.sent.push((begin, end, len));
        Some(self.nanos(end))
    }
}

fn any_limit() -> impl Strategy<Value = QueueLimit> {
    prop_oneof![
        (0usize..8).prop_map(QueueLimit::Packets),
        (0usize..10_000).prop_map(QueueLimit::Bytes),
        (0u64..10_000).prop_map(|limit| QueueLimit::Time(micros(limit))),
    ]
}

proptest! {
    #[test]
    fn a_drop_tail_queue_agrees_with_its_definition(
        rate in 1_000u64..100_000_000,
        limit in any_limit(),
        packets in proptest::collection::vec((1usize..2000, 0u64..3_000_000), 1..80),
    ) {
        let mut rig = Rig::new(LinkConfig::new(rate, Duration::ZERO).with_queue(limit));
        let mut naive = Naive { rate: rate.into(), limit, sent: Vec::new() };
        let (mut now, mut expected) = (0, Vec::new());
        for (number, (len, gap)) in packets.into_iter().enumerate() {
            now += gap;
            rig.enter(len, Duration::from_nanos(now));
            expected.extend(naive.enter(len, now.into()).map(|at| (number, at)));
        }
        let arrivals = rig.arrivals(END * 1000);
        let arrivals: Vec<_> = arrivals.into_iter().map(|(packet, at)| (packet, at.as_nanos())).collect();
        prop_assert_eq!(arrivals, expected);
    }
}

/// The mean time in milliseconds that packets wait, which come at random, one in two milliseconds on average.
fn mean_wait(mut len: impl FnMut(&mut Dice) -> usize) -> f64 {
    const PACKETS: u32 = 400_000;
    let mut dice = Dice::new(7);
    let mut rig = Rig::new(LinkConfig::new(80 * MBIT, millis(0)).with_queue(QueueLimit::Packets(usize::MAX)));
    let (mut now, mut waits) = (Duration::ZERO, Duration::ZERO);
    let mut entered = Vec::new();
    for _ in 0..PACKETS {
        now += exponential(&mut dice, millis(2));
        let len = len(&mut dice);
        entered.push(now + Duration::from_nanos(len as u64 * 100));
        rig.enter(len, now);
        waits += rig.arrivals(now).into_iter().map(|(packet, at)| at.saturating_sub(entered[packet])).sum();
    }
    waits += rig.arrivals(END).into_iter().map(|(packet, at)| at.saturating_sub(entered[packet])).sum();
    (waits / PACKETS).as_secs_f64() * 1e3
}

#[test]
fn packets_of_one_length_wait_as_in_an_m_d_1_queue() {
    // Load 1/2, 1 ms a packet: 1/2 · 1 ms / (2 · (1 - 1/2)).
    let wait = mean_wait(|_| 10_000);
    assert!((wait - 0.5).abs() < 0.015, "{wait}");
}

#[test]
fn packets_of_exponential_lengths_wait_as_in_an_m_m_1_queue() {
    // Load 1/2, 1 ms a packet on average: 1/2 · 1 ms / (1 - 1/2).
    let wait = mean_wait(|dice| {
        let nanos = exponential(dice, millis(1)).as_nanos();
        usize::try_from(nanos / 100).unwrap()
    });
    assert!((wait - 1.0).abs() < 0.04, "{wait}");
}

#[test]
fn a_queue_shortened_keeps_what_it_has() {
    let config = LinkConfig::new(10 * MBIT, millis(0));
    let mut rig = Rig::new(config.clone());
    (0..5).for_each(|_| rig.enter(1250, millis(0)));
    assert_eq!((rig.link.queue_packets(), rig.link.queue_bytes()), (4, 5000));
    rig.reconfigure(config.with_queue(QueueLimit::Packets(2)), micros(500));
    rig.enter(1250, micros(500));
    assert_eq!(rig.arrivals(END).len(), 5);
    assert_eq!(rig.dropped(), [(5, DropReason::QueueFull)]);
    assert_eq!(rig.link.counters().longest_queueing, millis(4));
}

#[test]
fn the_limit_in_time_follows_the_opportunities_of_a_trace() {
    let trace = Arc::new(Trace::parse("10\n11\n12\n100").unwrap());
    let config = LinkConfig { rate: Rate::Trace(trace), ..LinkConfig::default() };
    let mut rig = Rig::new(config.with_queue(QueueLimit::Time(millis(11))));
    (0..4).for_each(|_| rig.enter(1500, millis(0)));
    assert_eq!(rig.dropped(), [(3, DropReason::QueueFull)]);
}

#[test]
fn a_bandwidth_delay_product_is_at_least_64_packets() {
    assert_eq!(QueueLimit::bandwidth_delay_product(50 * MBIT, millis(20)), QueueLimit::Packets(84));
    assert_eq!(QueueLimit::bandwidth_delay_product(12 * MBIT, millis(20)), QueueLimit::Packets(64));
    assert_eq!(QueueLimit::bandwidth_delay_product(300 * MBIT, millis(8)), QueueLimit::Packets(200));
}
