//! How long packets wait: senders that answer to drops and marks, and a link of fixed rate behind the queue.

use std::collections::VecDeque;

use super::*;

/// Bytes of all packets here.
const LEN: usize = 1400;

/// The time that a packet takes on the link: 11.2 Mbit/s.
const SERVICE: Duration = Duration::from_millis(1);

/// What a sender's window is multiplied with when it is told of congestion: CUBIC's (RFC 9438 §4.6).
const DECREASE: f64 = 0.7;

/// Round trips until a window has doubled that would just fill the link.
const ROUNDS_TO_DOUBLE: f64 = 25.0;

/// A sender that increases its window with every round trip, and decreases it once in each that has losses or
/// marks (RFC 5681, RFC 3168). Its window grows at a rate that suits the link, as CUBIC's does.
struct Sender {
    bucket: u16,
    ecn: u8,
    round_trip: Duration,
    /// For how long the far end holds back what comes, until it lets all of it go.
    hold: Duration,
    window: f64,
    /// Packets by which the window grows in a round trip.
    growth: f64,
    in_flight: usize,
    next: u32,
    expected: u32,
    /// When acknowledgements come, and whether they tell of congestion.
    acks: VecDeque<(Instant, usize, bool)>,
    /// Nothing sent before is answered to any more.
    deaf_until: u32,
}

impl Sender {
    fn new(bucket: u16, ecn: u8, round_trip: Duration) -> Self {
        let fills = round_trip.div_duration_f64(SERVICE);
        Self {
            bucket,
            ecn,
            round_trip,
            hold: Duration::ZERO,
            window: fills,
            growth: (fills / ROUNDS_TO_DOUBLE).max(1.0),
            in_flight: 0,
            next: 0,
            expected: 0,
            acks: VecDeque::new(),
            deaf_until: 0,
        }
    }

    fn send(&mut self, bench: &mut Bench) {
        while let Some((_, packets, congested)) = self.acks.pop_front_if(|(at, ..)| *at <= bench.now) {
            self.in_flight -= packets;
            self.window += self.growth * packets as f64 / self.window;
            if congested && self.expected >= self.deaf_until {
                self.window = (self.window * DECREASE).max(2.0);
                self.deaf_until = self.next;
            }
        }
        while (self.in_flight as f64) < self.window {
            let mut packet = queued(self.bucket, self.next, LEN, LEN, bench.now);
            packet.packet.packet_mut()[1] = self.ecn;
            bench.queue.push(packet, &mut bench.pool);
            self.next += 1;
            self.in_flight += 1;
        }
    }

    /// A packet has left the link.
    fn on_served(&mut self, packet: &Queued, now: Instant) {
        let lost = number_of(packet) - self.expected;
        self.expected = number_of(packet) + 1;
        let congested = lost > 0 || packet.packet.packet()[1] == 0b11;
        let comes = now + self.round_trip;
        let with_others = self.acks.back().map(|(at, ..)| *at).filter(|at| *at >= comes);
        self.acks.push_back((with_others.unwrap_or(comes + self.hold), 1 + lost as usize, congested));
    }
}

/// What happened on the link after the first seconds.
#[derive(Default)]
struct Outcome {
    waits: Vec<Duration>,
    idle: usize,
    lost: u64,
    marked: u64,
}

impl Outcome {
    /// So many per cent of the packets waited for less.
    fn quantile(&mut self, percent: usize) -> Duration {
        self.waits.sort_unstable();
        self.waits[self.waits.len() * percent / 100]
    }

    fn utilisation(&self) -> f64 {
        self.waits.len() as f64 / (self.waits.len() + self.idle) as f64
    }
}

/// Runs senders for 30 s, of which the first 5 s don't count.
fn run(senders: &mut [Sender], bench: &mut Bench) -> Outcome {
    const WARM_UP: usize = 5_000;
    let mut outcome = Outcome::default();
    for step in 0..30_000 {
        bench.now += SERVICE;
        senders.iter_mut().for_each(|sender| sender.send(bench));
        let served = bench.pop_packet();
        match &served {
            Some(packet) if step > WARM_UP => outcome.waits.push(bench.now - packet.queued_at),
            None if step > WARM_UP => outcome.idle += 1,
            Some(_) | None => {}
        }
        if let Some(packet) = served {
            let sender = senders.iter_mut().find(|sender| sender.bucket == packet.bucket.number());
            sender.expect("its sender").on_served(&packet, bench.now);
        }
    }
    let counters = bench.counters();
    outcome.lost = counters.dropped();
    outcome.marked = counters.marked;
    outcome
}

#[test]
fn a_sender_that_listens_keeps_a_short_queue_and_a_full_link() {
    for ecn in [0b00, 0b10] {
        let mut bench = Bench::new(MTU);
        let mut outcome = run(&mut [Sender::new(1, ecn, Duration::from_millis(40))], &mut bench);
        let (median, high) = (outcome.quantile(50), outcome.quantile(95));
        assert!(median < Duration::from_millis(15), "half of the packets waited {median:?} or longer");
        assert!(high < Duration::from_millis(40), "one in twenty waited {high:?} or longer");
        assert!(outcome.utilisation() > 0.9, "the link was used for {}", outcome.utilisation());
        let told = if ecn == 0 { outcome.lost } else { outcome.marked };
        assert!(
            told > 10 && (ecn == 0 || outcome.lost == 0),
            "{} lost, {} marked",
            outcome.lost,
            outcome.marked
        );
    }
}

#[test]
fn several_senders_share_the_link_and_keep_short_queues() {
    let mut bench = Bench::new(MTU);
    let mut senders: Vec<_> =
        (0..4).map(|bucket| Sender::new(bucket, 0, Duration::from_millis(40))).collect();
    let mut outcome = run(&mut senders, &mut bench);
    assert!(outcome.utilisation() > 0.9, "the link was used for {}", outcome.utilisation());
    // Each may keep four packets whatever CoDel says: 16 ms on this link.
    assert!(outcome.quantile(50) < Duration::from_millis(30), "{:?}", outcome.quantile(50));
}

#[test]
fn a_long_round_trip_is_given_the_time_it_takes() {
    let round_trip = Duration::from_millis(600);
    let use_of_link = |told: bool| {
        let mut bench = Bench::new(MTU);
        if told {
            bench.queue.set_service(&Service { round_trip, hold: Duration::ZERO, rate: 1 }, bench.now);
        }
        let mut outcome = run(&mut [Sender::new(1, 0, round_trip)], &mut bench);
        (outcome.utilisation(), outcome.quantile(50))
    };
    let ((told, wait), (untold, _)) = (use_of_link(true), use_of_link(false));
    assert!(told > untold, "{told} with the round trip known, {untold} without");
    assert!(wait < round_trip * 3 / 5, "half of the packets waited {wait:?} or longer");
}

#[test]
fn a_far_end_that_holds_packets_back_leaves_the_link_full() {
    let (round_trip, hold) = (Duration::from_millis(50), Duration::from_millis(50));
    let use_of_link = |told: Duration| {
        let mut bench = Bench::new(MTU);
        bench.queue.set_service(&Service { round_trip, hold: told, rate: 1_400_000 }, bench.now);
        let mut outcome = run(&mut [Sender { hold, ..Sender::new(1, 0, round_trip) }], &mut bench);
        (outcome.utilisation(), outcome.quantile(50))
    };
    let ((told, wait), (untold, _)) = (use_of_link(hold), use_of_link(Duration::ZERO));
    assert!(told > 0.995 && untold < 0.99, "{told} with the time known, {untold} without");
    assert!(wait < round_trip / 2 + 2 * hold, "half of the packets waited {wait:?} or longer");
}

#[test]
fn a_burst_that_leaves_within_an_interval_loses_nothing() {
    let mut bench = Bench::new(MTU);
    let burst = (64 << 10) / u32::try_from(LEN).expect("small");
    for number in 0..50 * burst {
        if number % burst == 0 {
            // The next one comes when this one is gone.
            assert_eq!(bench.queue.len(), 0);
            (0..burst).for_each(|offset| bench.push(1, number + offset, LEN));
        }
        bench.now += SERVICE;
        assert_eq!(bench.pop(), Some((1, number)));
    }
    assert_eq!(bench.queue.dropped(), 0);
}

/// Makes so many packets come at first, and in each of the following milliseconds so many as this says; what has been dropped
/// after each.
fn drops(at_first: u32, then: impl Fn(u32) -> u32, milliseconds: u32) -> Vec<u64> {
    let mut bench = Bench::new(MTU);
    (0..at_first).for_each(|number| bench.push(1, number, LEN));
    let mut step = |millisecond| {
        bench.now += SERVICE;
        (0..then(millisecond)).for_each(|_| bench.push(1, millisecond, LEN));
        bench.pop();
        bench.queue.dropped()
    };
    (0..milliseconds).map(&mut step).collect()
}

#[test]
fn a_transfer_that_ends_is_not_told_to_slow_down() {
    // Twice what the link takes, and then nothing more, or a little.
    let twice_until = |end, after| drops(0, move |at| if at < end { 2 } else { after }, 300);
    assert_eq!(twice_until(80, 0).last(), Some(&0));
    assert!(twice_until(80, 1).last() > Some(&0), "more comes");
}

#[test]
fn senders_are_told_again_once_they_can_have_answered() {
    // A window of 300 packets more than the link holds, which nobody makes smaller.
    let drops = drops(300, |_| 1, 1000);
    let told = drops.iter().position(|&dropped| dropped > 0).expect("it stands");
    // A hundred milliseconds until what is sent answers to that, and it is behind 300 packets.
    let again = drops.iter().position(|&dropped| dropped > 1).expect("it stands still");
    assert!((395..405).contains(&(again - told)), "told after {told} and {again} ms");
    assert!(drops.last() > Some(&4), "and more and more often then: {:?}", drops.last());
}

#[test]
fn no_queue_is_judged_while_the_rate_of_the_paths_grows() {
    // What is dropped in 0.7 s of overload, less than fill the queue, if the paths deliver this at each tenth of a second.
    let drops = |rate: fn(u64) -> u64, changes_at: u64| {
        let mut bench = Bench::new(MTU);
        for step in 0..700u32 {
            let tenth = u64::from(step) / 100;
            if step % 100 == 0 && tenth == changes_at {
                bench.queue.on_paths_changed();
            }
            bench.now += SERVICE;
            bench.queue.set_service(
                &Service { round_trip: SERVICE, hold: Duration::ZERO, rate: rate(tenth) },
                bench.now,
            );
            (0..2).for_each(|_| bench.push(1, step, LEN));
            bench.pop();
        }
        bench.queue.dropped()
    };
    let constant = drops(|_| 10_000_000, u64::MAX);
    assert!(constant > 3);
    assert_eq!(drops(|tenth| 1_000_000 << tenth, u64::MAX), 0, "the rate doubles each time");
    assert_eq!(drops(|tenth| 10_000_000 + tenth, u64::MAX), constant, "the rate is as good as constant");
    assert!((1..constant).contains(&drops(|_| 10_000_000, 3)), "the paths change once");
}

#[test]
fn a_queue_has_the_room_of_what_the_paths_hold() {
    const BUFFER: usize = 2048;
    // What waits after far too much has come, beside paths of this rate and round trip.
    let waiting = |rate: u64, round_trip: Duration, hold: Duration| {
        let mut bench = Bench::new(MTU);
        bench.queue.set_service(&Service { round_trip, hold, rate }, bench.now);
        for number in 0..10_000 {
            let packet = queued(1, number, LEN, BUFFER, bench.now);
            bench.queue.push(packet, &mut bench.pool);
        }
        bench.queue.len() * BUFFER
    };
    let millisecond = Duration::from_millis(1);
    let room = |bytes: usize| bytes / BUFFER * BUFFER;
    let packets = |bytes: usize| bytes / LEN * BUFFER;
    assert_eq!(waiting(10_000, millisecond, Duration::ZERO), packets(64 * 1500), "the least of all");
    assert_eq!(waiting(1_000_000, millisecond, Duration::ZERO), packets(200_000), "a slow path");
    assert_eq!(
        waiting(1_000_000, 300 * millisecond, Duration::ZERO),
        packets(300_000),
        "a slow and long one"
    );
    assert_eq!(waiting(100_000_000, millisecond, Duration::ZERO), 1 << 20, "a short one");
    assert_eq!(waiting(500_000_000, 8 * millisecond, Duration::ZERO), room(4_000_000), "what it holds");
    assert_eq!(waiting(500_000_000, 4 * millisecond, millisecond), room(4_000_000), "and what is held back");
    assert_eq!(waiting(500_000_000, 100 * millisecond, Duration::ZERO), 4096 * BUFFER, "the bound for all");
}

#[test]
fn flows_take_longer_turns_where_paths_are_fast() {
    // How many packets of a flow leave before one of another does.
    let turn = |rate: u64| {
        let mut bench = Bench::new(MTU);
        bench.queue.set_service(&Service { round_trip: SERVICE, hold: Duration::ZERO, rate }, bench.now);
        for number in 0..150 {
            bench.push(1, number, LEN);
            bench.push(2, number, LEN);
        }
        let first = bench.pop_packet().expect("there are many").bucket;
        let same = (0..150).take_while(|_| bench.pop_packet().is_some_and(|packet| packet.bucket == first));
        1 + same.count()
    };
    assert_eq!(turn(1_000_000), usize::from(MTU).div_ceil(LEN), "8 Mbit/s");
    assert_eq!(turn(125_000_000), 31_250usize.div_ceil(LEN), "1 Gbit/s");
    assert_eq!(turn(12_500_000_000), (128usize << 10).div_ceil(LEN), "100 Gbit/s");
}

#[test]
fn a_turn_ends_with_a_packet_that_was_cut() {
    // Quanta of 15,625 bytes: eleven packets and a bit. What was cut into 20 is finished, what was cut into 40 is not,
    // and what is overdrawn is paid for later.
    for (pieces, expected) in [(1, 12), (20, 20), (40, 23)] {
        let mut bench = Bench::new(MTU);
        let service =
            Service { round_trip: Duration::from_millis(10), hold: Duration::ZERO, rate: 62_500_000 };
        bench.queue.set_service(&service, bench.now);
        for bucket in [1, 2] {
            for number in 0..280 {
                let mut packet = queued(bucket, number, 1400, usize::from(MTU), bench.now);
                packet.packet.set_continues(number % pieces > 0);
                bench.queue.push(packet, &mut bench.pool);
            }
        }
        let order: Vec<u16> = std::iter::from_fn(|| bench.pop()).map(|(bucket, _)| bucket).collect();
        let first = order.iter().take_while(|&&bucket| bucket == order[0]).count();
        assert_eq!(first, expected, "cut into {pieces}");
        let (fair, early) = (280, order[..280].iter().filter(|&&bucket| bucket == 1).count());
        assert!((early * 2).abs_diff(fair) <= 2 * 2 * expected, "{early} of the first {fair}");
    }
}

#[test]
fn a_sender_that_does_not_listen_hurts_itself_only() {
    let mut bench = Bench::new(MTU);
    let mut deaf = 0;
    let mut longest = Duration::ZERO;
    for step in 0..20_000 {
        bench.now += SERVICE;
        (0..2).for_each(|_| bench.push(1, step, LEN));
        if step % 20 == 0 {
            bench.push(2, step, 200);
        }
        let packet = bench.pop_packet().expect("it is overloaded");
        match packet.bucket.number() {
            1 => deaf += 1,
            _ => longest = longest.max(bench.now - packet.queued_at),
        }
    }
    assert!(longest <= 2 * SERVICE, "the sparse flow waited {longest:?}");
    assert_eq!(deaf, 19_000, "the link stays full");
    assert_eq!(bench.pool.free() + bench.queue.len(), 21_000, "the rest was dropped or waits");
}
