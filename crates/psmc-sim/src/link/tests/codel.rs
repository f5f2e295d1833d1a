//! Controlled delay against its control law, and against senders that heed it.

use std::collections::VecDeque;

use super::super::codel::CoDel;
use super::super::queue::Queue;
use super::*;

const TARGET: Duration = millis(5);
const INTERVAL: Duration = millis(100);

fn codel(ecn: bool) -> Discipline {
    Discipline::CoDel { target: TARGET, interval: INTERVAL, ecn }
}

/// A packet that has waited since the start.
fn waiting() -> Queued<()> {
    let info = PacketInfo { ecn_capable: true, ..PacketInfo::new(1000) };
    Queued { packet: (), info, entered: Nanos::default(), marked: false }
}

/// When packets are dropped or marked, in ms, in a queue that never gets shorter; one is sent at each of `times`.
fn signals(codel: &mut CoDel, times: impl Iterator<Item = u64>) -> Vec<u64> {
    let mut queue = Queue::new();
    let mut signals = Vec::new();
    for now in times {
        while queue.len() < 100 {
            queue.push(waiting());
        }
        let sent = codel.dequeue(&mut queue, millis(now).into(), &mut |_| signals.push(now));
        signals.extend(sent.filter(|sent| sent.marked).map(|_| now));
    }
    signals
}

#[test]
fn drops_and_marks_follow_the_control_law() {
    for ecn in [false, true] {
        let mut codel = CoDel::new(TARGET.into(), INTERVAL.into(), ecn);
        assert_control_law(&signals(&mut codel, 1000..3000));
    }
}

/// Whether signals in a queue that is too long from 1000 to 3000 ms come when they should.
fn assert_control_law(found: &[u64]) {
    let mut expected = vec![1100.0];
    for count in 1.. {
        let next = expected[expected.len() - 1] + 100.0 / f64::from(count).sqrt();
        if next >= 3000.0 {
            break;
        }
        expected.push(next);
    }
    assert_eq!(found.len(), expected.len());
    for (found, expected) in found.iter().zip(expected) {
        // Packets come out of the queue each millisecond.
        assert!((0.0..1.001).contains(&(*found as f64 - expected)), "{found} is not just after {expected}");
    }
}

#[test]
fn a_sequence_soon_after_another_goes_on_at_its_pace() {
    let mut codel = CoDel::new(TARGET.into(), INTERVAL.into(), false);
    let first = signals(&mut codel, 1000..2000).len() as f64;
    codel.dequeue(&mut Queue::<()>::new(), millis(2000).into(), &mut |_| {});
    let found = signals(&mut codel, 2001..2300);
    // The new count is how much the last sequence has added to the one with which it began.
    let gap = 100.0 / (first - 1.0).sqrt();
    assert_eq!(found[0], 2101);
    assert!((0.0..1.001).contains(&(found[1] as f64 - 2101.0 - gap)), "{found:?} {gap}");
}

#[test]
fn a_sequence_long_after_another_begins_anew() {
    let mut codel = CoDel::new(TARGET.into(), INTERVAL.into(), false);
    signals(&mut codel, 1000..2000);
    codel.dequeue(&mut Queue::<()>::new(), millis(2000).into(), &mut |_| {});
    assert_eq!(signals(&mut codel, 4000..4250), [4100, 4200]);
}

#[test]
fn a_queue_of_one_packet_is_never_too_long() {
    let mut codel = CoDel::new(TARGET.into(), INTERVAL.into(), false);
    for now in 1000..2000 {
        let mut queue = Queue::new();
        queue.push(waiting());
        queue.push(waiting());
        let sent = codel.dequeue(&mut queue, millis(now).into(), &mut |_| panic!("a packet was dropped"));
        assert!(sent.is_some());
    }
}

#[test]
fn a_change_of_something_else_leaves_it_alone() {
    let overload = |delays: [u64; 2]| {
        let mut rig = Rig::new(LinkConfig::default());
        for n in 0..600u32 {
            let delay = millis(delays[usize::from(n % 2 == 1)]);
            rig.reconfigure(LinkConfig::new(8 * MBIT, delay).with_discipline(codel(false)), micros(900) * n);
            rig.enter(1000, micros(900) * n);
        }
        rig.arrivals(END);
        rig.dropped()
    };
    let dropped = overload([1, 2]);
    assert!(!dropped.is_empty());
    assert_eq!(dropped, overload([1, 1]));
}

#[test]
fn it_marks_when_it_would_drop() {
    let overload = |ecn| {
        let mut rig = Rig::new(LinkConfig::new(8 * MBIT, millis(0)).with_discipline(codel(ecn)));
        let info = PacketInfo { ecn_capable: true, ..PacketInfo::new(1000) };
        (0..600).for_each(|n| rig.enter_with(info, micros(900 * n)));
        (rig.poll(END), rig.dropped())
    };
    let (arrivals, dropped) = overload(true);
    let marked: Vec<_> = arrivals.iter().filter(|arrival| arrival.congestion_experienced).collect();
    assert!(dropped.is_empty());
    let (_, dropped) = overload(false);
    // The first is the same; drops shorten the queue, marks don't.
    assert_eq!(marked[0].packet, dropped[0].0);
    assert!(dropped.len() >= 3 && marked.len() >= dropped.len());
}

/// A sender that adds a packet to its window each round trip and halves it when one is dropped.
struct Sender {
    window: f64,
    outstanding: usize,
    /// Drops until then belong to the round trip that was punished.
    recovers: Duration,
}

impl Sender {
    fn on_ack(&mut self) {
        self.outstanding -= 1;
        self.window += 1.0 / self.window;
    }

    fn on_drop(&mut self, now: Duration, round_trip: Duration) {
        self.outstanding -= 1;
        if now >= self.recovers {
            self.window = (self.window / 2.0).max(2.0);
            self.recovers = now + round_trip;
        }
    }

    fn may_send(&self) -> bool {
        self.outstanding as f64 + 1.0 <= self.window
    }
}

/// The times that packets of such a sender are in the queue, sorted, over a minute at 10 Mb/s; and the bytes that
/// arrive.
fn queueing_of_a_sender(discipline: Discipline) -> (Vec<Duration>, u64) {
    const ROUND_TRIP: Duration = millis(50);
    let config = LinkConfig::new(10 * MBIT, millis(0)).with_discipline(discipline);
    let mut rig = Rig::new(config);
    let mut sender = Sender { window: 10.0, outstanding: 0, recovers: Duration::ZERO };
    let mut acks: VecDeque<Duration> = VecDeque::new();
    let (mut entered, mut queueing) = (Vec::new(), Vec::new());
    let mut now = Duration::ZERO;
    while now < Duration::from_secs(60) {
        while acks.pop_front_if(|at| *at <= now).is_some() {
            sender.on_ack();
        }
        while sender.may_send() {
            sender.outstanding += 1;
            entered.push(now);
            rig.enter(1250, now);
        }
        for (packet, at) in rig.arrivals(now) {
            queueing.push(at - entered[packet] - millis(1));
            acks.push_back(at + ROUND_TRIP);
        }
        rig.dropped().iter().for_each(|_| sender.on_drop(now, ROUND_TRIP));
        now = rig.timeout().into_iter().chain(acks.front().copied()).min().unwrap().max(now);
    }
    queueing.sort_unstable();
    (queueing, rig.link.counters().carried_bytes)
}

#[test]
fn it_keeps_the_queue_of_a_sender_that_heeds_drops_near_the_target() {
    let (queueing, carried) = queueing_of_a_sender(codel(false));
    let median = queueing[queueing.len() / 2];
    assert!(median < 2 * TARGET, "{median:?}");
    assert!(queueing[queueing.len() * 99 / 100] < 8 * TARGET);
    let utilisation = carried as f64 * 8.0 / (60.0 * 10e6);
    // Such a sender reaches three quarters without any queue.
    assert!(utilisation > 0.8, "{utilisation}");
    let (queueing, _) = queueing_of_a_sender(Discipline::DropTail);
    assert!(queueing[queueing.len() / 2] > 20 * TARGET);
}
