//! Links and networks in virtual time, as far as their rates and losses go.

use super::*;

const MBIT: f64 = 125_000.0;
const DATAGRAM: f64 = 1400.0;

/// A path by UDP and, when one is wanted, a stream beside it.
struct Bench {
    throttle: Throttle,
    look: Look,
    now: Instant,
    start: Instant,
    /// When streams were wanted, and were not any more, in seconds.
    changes: Vec<u64>,
    /// Since when none is wanted any more while there is one, and how many have ended.
    unwanted: Option<Instant>,
    ended: u32,
}

/// A stream that is not wanted any more is kept for as long.
const KEPT: Duration = Duration::from_secs(10);

/// What the network carries, in Mbit/s: by UDP beside a stream, in the stream, and by UDP alone; and the share of UDP that is lost.
#[derive(Clone, Copy)]
struct Weather {
    beside: f64,
    stream: f64,
    alone: f64,
    lost: f64,
}

const FINE: Weather = Weather { beside: 20.0, stream: 20.0, alone: 40.0, lost: 0.001 };
const THROTTLED: Weather = Weather { beside: 1.0, stream: 38.0, alone: 1.0, lost: 0.1 };

impl Bench {
    fn new() -> Self {
        let start = Instant::now();
        let (look, changes) = (Look::default(), Vec::new());
        Self { throttle: Throttle::new(), look, now: start, start, changes, unwanted: None, ended: 0 }
    }

    /// Some seconds of that, towards the peer or from it. Streams take a second until they carry anything.
    fn run(&mut self, seconds: u32, direction: usize, weather: Weather) {
        for _ in 0..2 * seconds {
            let wanted = self.throttle.wants_stream();
            let has_stream = self.look.stream.is_some();
            let by_udp = if has_stream { weather.beside } else { weather.alone };
            add(&mut self.look.path[direction], by_udp, weather.lost);
            match &mut self.look.stream {
                Some(stream) => add(&mut stream[direction], weather.stream, 0.0),
                None if wanted => self.look.stream = Some(Default::default()),
                None => {}
            }
            self.unwanted = (!wanted && has_stream).then(|| self.unwanted.unwrap_or(self.now));
            if self.unwanted.take_if(|since| self.now >= *since + KEPT).is_some() {
                self.look.stream = None;
                self.throttle.on_stream_end();
                self.ended += 1;
            }
            self.now += INTERVAL;
            self.throttle.look(self.look, self.now);
            if self.throttle.wants_stream() != wanted {
                self.changes.push((self.now - self.start).as_secs());
            }
        }
    }
}

#[expect(clippy::cast_possible_truncation, reason = "they are whole numbers of bytes and datagrams")]
fn add(carried: &mut Carried, mbit: f64, lost: f64) {
    let bytes = mbit * MBIT * INTERVAL.as_secs_f64();
    let arrived = bytes / DATAGRAM;
    carried.bytes += bytes as u64;
    carried.arrived += arrived as u64;
    carried.lost += (arrived * lost / (1.0 - lost)) as u64;
}

#[test]
fn a_network_that_throttles_udp_gets_a_stream_for_as_long_as_it_does() {
    for direction in [0, 1] {
        let mut bench = Bench::new();
        bench.run(10, direction, FINE);
        bench.run(60, direction, THROTTLED);
        assert_eq!(bench.changes[0], 11);
        let changes = bench.changes.clone();
        for pair in changes.windows(2).step_by(2) {
            assert!(
                (12..=20).contains(&(pair[1] - pair[0])),
                "it is seen whether it still does: {changes:?}"
            );
        }
        for pair in changes.windows(2).skip(1).step_by(2) {
            assert!(pair[1] - pair[0] <= 2, "it does: {changes:?}");
        }
        assert_eq!(bench.ended, 0, "what is lost says enough: {changes:?}");
        bench.run(30, direction, FINE);
        assert!(!bench.throttle.wants_stream() && bench.changes[bench.changes.len() - 1] <= 71);
    }
}

/// What is dropped of it again and again would hold up what the stream carries.
#[test]
fn udp_stands_by_while_a_stream_is_known_to_carry_more() {
    let mut bench = Bench::new();
    bench.run(10, 0, FINE);
    assert!(!bench.throttle.is_to_be_spared());
    bench.run(3, 0, THROTTLED);
    assert!(bench.throttle.wants_stream() && !bench.throttle.is_to_be_spared(), "it is being tried");
    bench.run(2, 0, THROTTLED);
    assert!(bench.throttle.is_to_be_spared(), "what is clear takes no five seconds");
    bench.run(14, 0, THROTTLED);
    assert!(bench.changes.len() > 1, "it is seen whether it still is: {:?}", bench.changes);
}

#[test]
fn udp_that_has_next_to_nothing_beside_a_stream_is_tried_without_it() {
    let mut bench = Bench::new();
    bench.run(10, 0, FINE);
    bench.run(10, 0, THROTTLED);
    bench.run(60, 0, Weather { beside: 1.2, stream: 36.0, ..FINE });
    assert_eq!((bench.changes.len(), bench.throttle.wants_stream()), (2, false), "{:?}", bench.changes);
}

/// Chance loses as much of what is on its way, but does not hold UDP down.
#[test]
fn losses_do_not_have_udp_held_to_be_throttled_for_ever() {
    let mut bench = Bench::new();
    bench.run(10, 0, FINE);
    bench.run(10, 0, THROTTLED);
    bench.run(120, 0, Weather { beside: 1.2, stream: 36.0, alone: 36.0, lost: 0.08 });
    assert_eq!((bench.ended, bench.throttle.wants_stream()), (1, false), "{:?}", bench.changes);
}

#[test]
fn a_link_that_has_become_slow_is_tried_with_a_stream_ever_less_often() {
    let mut bench = Bench::new();
    bench.run(10, 0, FINE);
    let slow = Weather { beside: 1.0, stream: 1.5, alone: 2.5, lost: 0.1 };
    for _ in 0..60 {
        bench.run(60, 0, slow);
        // It is fast for a moment, so that it seems throttled right after that.
        bench.run(2, 0, FINE);
    }
    let began: Vec<_> = bench.changes.iter().step_by(2).collect();
    assert!((5..=12).contains(&began.len()), "{began:?}");
    let gaps: Vec<_> = began.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(gaps.iter().rev().take(2).all(|gap| *gap >= 600), "{gaps:?}");
}

#[test]
fn losses_alone_or_little_traffic_alone_say_nothing() {
    let lossy = Weather { lost: 0.2, ..FINE };
    let quiet = Weather { alone: 0.5, ..FINE };
    for weather in [lossy, quiet] {
        let mut bench = Bench::new();
        bench.run(10, 1, FINE);
        bench.run(60, 1, weather);
        assert!(bench.changes.is_empty(), "{:?}", bench.changes);
    }
}

#[test]
fn an_outage_of_a_second_gets_no_stream_that_stays() {
    let mut bench = Bench::new();
    bench.run(10, 0, FINE);
    bench.run(1, 0, Weather { beside: 1.0, stream: 1.0, alone: 1.0, lost: 0.5 });
    bench.run(30, 0, FINE);
    assert!(matches!(bench.changes[..], [] | [11, 16]), "{:?}", bench.changes);
}

#[test]
fn a_transfer_that_ends_while_a_stream_is_tried_leaves_the_question_open() {
    let mut bench = Bench::new();
    bench.run(10, 0, FINE);
    bench.run(2, 0, THROTTLED);
    bench.run(10, 0, Weather { beside: 0.0, stream: 0.0, alone: 0.0, lost: 0.0 });
    assert!(!bench.throttle.wants_stream());
    bench.run(2, 0, FINE);
    bench.run(20, 0, THROTTLED);
    assert!(bench.throttle.wants_stream(), "{:?}", bench.changes);
}
