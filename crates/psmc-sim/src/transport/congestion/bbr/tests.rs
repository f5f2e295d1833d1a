use super::super::Rate;
use super::*;

/// Segments that are acknowledged in a round trip.
const ROUND: u64 = 10;
const RTT: Duration = Duration::from_millis(50);

/// A connection of which the model is told.
struct Bench {
    bbr: Bbr,
    now: Instant,
    /// Segments that have arrived.
    arrived: u64,
    in_flight: f64,
    is_limited: bool,
    is_repairing: bool,
}

impl Bench {
    fn new() -> Self {
        let (in_flight, is_limited, is_repairing) = (10.0, false, false);
        Self { bbr: Bbr::new(1), now: Instant::now(), arrived: 0, in_flight, is_limited, is_repairing }
    }

    /// A segment has arrived that was sent a round trip ago; segments arrive at this rate.
    fn ack(&mut self, segments_per_s: f64, lost: f64) {
        self.now += RTT / u32::try_from(ROUND).unwrap_or(1);
        self.arrived += 1;
        let before = self.arrived.saturating_sub(ROUND);
        let seen = Delivered {
            segments: 1.0,
            lost,
            in_flight_before: self.in_flight + 1.0,
            in_flight: self.in_flight,
            total: self.arrived,
            is_young: self.arrived < ROUND,
            rtt: Some(RTT),
            smoothed_rtt: Some(RTT),
            rate: Some(Rate { segments_per_s, before, is_limited: self.is_limited }),
            is_repairing: self.is_repairing,
        };
        self.bbr.on_delivered(&seen, self.now);
    }

    fn rounds(&mut self, count: u64, segments_per_s: f64) {
        (0..count * ROUND).for_each(|_| self.ack(segments_per_s, 0.0));
    }

    /// One that has found what a path carries: 1000 segments a second, 50 on their way.
    fn settled() -> Self {
        let mut bench = Self::new();
        bench.in_flight = 100.0;
        bench.rounds(5, 1000.0);
        assert_eq!(bench.bbr.mode, Mode::Drain, "more than that is on its way");
        bench.in_flight = 0.0;
        bench.rounds(1, 1000.0);
        bench.in_flight = 50.0;
        assert!(matches!(bench.bbr.mode, Mode::Cycle { .. }), "{:?}", bench.bbr.mode);
        bench
    }
}

#[test]
fn it_doubles_until_the_rate_grows_no_more() {
    let mut bench = Bench::new();
    bench.in_flight = 300.0;
    for round in 0..6 {
        bench.rounds(1, 100.0 * f64::from(1 << round));
        assert!(bench.bbr.in_slow_start(), "round {round}");
    }
    bench.rounds(2, 3200.0);
    assert!(bench.bbr.in_slow_start(), "two rounds may be chance");
    bench.rounds(2, 3300.0);
    assert_eq!(bench.bbr.mode, Mode::Drain);
    let gain = bench.bbr.pacing / bench.bbr.rates.largest();
    assert!((gain - 0.99 / 2.885).abs() < 1e-9, "{gain}");
}

#[test]
fn rounds_with_little_to_send_say_nothing() {
    let mut bench = Bench::new();
    bench.rounds(2, 1000.0);
    bench.is_limited = true;
    bench.rounds(10, 300.0);
    assert!(bench.bbr.in_slow_start());
    let mut bench = Bench::settled();
    bench.is_limited = true;
    bench.rounds(50, 300.0);
    assert!((bench.bbr.rates.largest() - 1000.0).abs() < 1e-9, "nor that the path has become slower");
    bench.rounds(1, 1200.0);
    assert!((bench.bbr.rates.largest() - 1200.0).abs() < 1e-9, "a larger one is one all the same");
}

#[test]
fn the_largest_rate_is_remembered_for_ten_rounds() {
    let mut bench = Bench::settled();
    bench.rounds(10, 500.0);
    assert!((bench.bbr.rates.largest() - 1000.0).abs() < 1e-9);
    bench.rounds(2, 500.0);
    assert!((bench.bbr.rates.largest() - 500.0).abs() < 1e-9);
}

#[test]
fn it_looks_for_more_one_round_trip_of_eight() {
    let mut bench = Bench::settled();
    bench.in_flight = 75.0;
    let mut gains = Vec::new();
    for _ in 0..80 * ROUND {
        bench.ack(1000.0, 0.0);
        gains.push(bench.bbr.pacing / 990.0);
    }
    let share = |gain: f64| {
        let of = gains.iter().filter(|seen| (**seen - gain).abs() < 1e-9).count();
        of as f64 / gains.len() as f64
    };
    assert!([1.25, 0.75].iter().all(|gain| (0.09..0.15).contains(&share(*gain))));
    assert!((share(1.25) + share(0.75) + share(1.0) - 1.0).abs() < 1e-9);
    // Twice 50 segments, three bursts of two, some for bunches of acknowledgements; two more while it looks for more.
    assert!((106.0..=112.0).contains(&bench.bbr.window), "{}", bench.bbr.window);
}

#[test]
fn queues_are_let_drain_when_the_shortest_round_trip_is_old() {
    let mut bench = Bench::settled();
    let window = bench.bbr.window;
    bench.rounds(150, 1000.0);
    assert!(!bench.bbr.holds_back(), "7.5 s are not 10");
    bench.rounds(60, 1000.0);
    assert!(bench.bbr.holds_back());
    assert!((bench.bbr.window - 4.0).abs() < 1e-9);
    bench.rounds(10, 1000.0);
    assert!(bench.bbr.holds_back(), "there are still more than four on their way");
    bench.in_flight = 3.0;
    bench.rounds(4, 80.0);
    assert!(bench.bbr.holds_back(), "for 200 ms");
    bench.rounds(1, 80.0);
    assert!(matches!(bench.bbr.mode, Mode::Cycle { .. }), "{:?}", bench.bbr.mode);
    assert!(bench.bbr.window >= window, "{}", bench.bbr.window);
}

#[test]
fn what_was_idle_has_no_queue_to_drain() {
    let mut bench = Bench::settled();
    bench.now += Duration::from_secs(11);
    bench.bbr.on_idle_end(bench.now);
    bench.rounds(1, 1000.0);
    assert!(!bench.bbr.holds_back());
}

#[test]
fn in_the_first_round_of_a_repair_a_segment_leaves_for_each_that_has_arrived() {
    let mut bench = Bench::settled();
    bench.rounds(20, 1000.0);
    let window = bench.bbr.window;
    bench.bbr.on_loss(bench.now);
    bench.is_repairing = true;
    bench.ack(1000.0, 3.0);
    assert!((bench.bbr.window - 51.0).abs() < 1e-9, "{}", bench.bbr.window);
    bench.rounds(1, 1000.0);
    assert!(bench.bbr.window < 55.0, "{}", bench.bbr.window);
    bench.rounds(2, 1000.0);
    assert!(bench.bbr.window > 60.0, "then it grows: {}", bench.bbr.window);
    bench.is_repairing = false;
    bench.ack(1000.0, 0.0);
    assert!(bench.bbr.window >= window.min(106.0), "{} of {window}", bench.bbr.window);
}

#[test]
fn a_timeout_leaves_one_segment_and_the_model() {
    let mut bench = Bench::settled();
    bench.bbr.on_timeout(bench.now);
    assert!((bench.bbr.window - 1.0).abs() < 1e-9);
    bench.is_repairing = true;
    bench.in_flight = 0.0;
    bench.rounds(2, 1000.0);
    assert!((20.0..30.0).contains(&bench.bbr.window), "{}", bench.bbr.window);
    assert!((bench.bbr.rates.largest() - 1000.0).abs() < 1e-9);
}

#[test]
fn marks_are_not_heeded() {
    let mut bench = Bench::settled();
    let window = bench.bbr.window;
    bench.bbr.on_mark(bench.now);
    bench.ack(1000.0, 0.0);
    assert!(bench.bbr.window >= window);
}

/// Of a hundred segments that it sends thirty are lost, whatever the rate: 700 a second arrive.
#[test]
fn a_policer_is_found_kept_and_forgotten() {
    let mut bench = Bench::settled();
    let lossy = |bench: &mut Bench, rounds: u64, lost: f64| {
        (0..rounds * ROUND).for_each(|number| bench.ack(1000.0, if number % 10 == 9 { lost } else { 0.0 }));
    };
    lossy(&mut bench, 4, 3.0);
    assert!(bench.bbr.policer.rate().is_none(), "one interval is none to compare with");
    lossy(&mut bench, 6, 3.0);
    // An acknowledgement every 5 ms.
    let rate = bench.bbr.policer.rate().unwrap_or_default();
    assert!((195.0..205.0).contains(&rate), "{rate}");
    assert!((bench.bbr.pacing - 0.99 * rate).abs() < 1e-9, "without looking for more");
    lossy(&mut bench, 40, 0.0);
    assert!(bench.bbr.policer.rate().is_some());
    lossy(&mut bench, 10, 0.0);
    assert!(bench.bbr.policer.rate().is_none(), "48 rounds later");
}

#[test]
fn a_loss_of_a_tenth_is_no_policer() {
    let mut bench = Bench::settled();
    (0..300).for_each(|number| bench.ack(1000.0, if number % 10 == 9 { 1.0 } else { 0.0 }));
    assert!(bench.bbr.policer.rate().is_none());
}

#[test]
fn bunches_of_acknowledgements_widen_the_window_for_ten_rounds() {
    let (mut bunches, start) = (Bunches::default(), Instant::now());
    let at = |ms: u64| start + Duration::from_millis(ms);
    // Twenty at once, every 20 ms, of a path that carries one each millisecond.
    (0..10).for_each(|number| bunches.update(20.0, 1000.0, 100.0, false, at(20 * number)));
    assert!((bunches.allowance(1000.0) - 20.0).abs() < 1e-9, "{bunches:?}");
    assert!((bunches.allowance(100.0) - 10.0).abs() < 1e-9, "100 ms of the rate at most");
    (200..209).for_each(|ms| bunches.update(1.0, 1000.0, 100.0, true, at(ms)));
    assert!(bunches.allowance(1000.0) >= 20.0, "{bunches:?}");
    (209..215).for_each(|ms| bunches.update(1.0, 1000.0, 100.0, true, at(ms)));
    assert!(bunches.allowance(1000.0) < 5.0, "{bunches:?}");
}
