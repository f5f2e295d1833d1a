//! How much a TCP sender may have on its way.

mod bbr;
mod cubic;

use std::time::{Duration, Instant};

use bbr::Bbr;
use cubic::Cubic;

/// The window at the beginning, in segments (RFC 6928).
pub(super) const INITIAL_WINDOW: f64 = 10.0;

/// The smallest slow start threshold, in segments (RFC 5681 §3.1).
const MIN_THRESHOLD: f64 = 2.0;

/// A congestion control for TCP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CongestionControl {
    /// CUBIC (RFC 9438) with HyStart, as Linux has it.
    Cubic,
    /// Reno (RFC 5681).
    Reno,
    /// BBR, version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), as Linux has it. It does not heed marks.
    Bbr,
}

impl CongestionControl {
    /// One that draws what it leaves to chance from this seed.
    pub(super) fn build(self, seed: u64) -> Box<dyn Controller> {
        match self {
            Self::Cubic => Box::new(Cubic::new()),
            Self::Reno => Box::new(Reno::new()),
            Self::Bbr => Box::new(Bbr::new(seed)),
        }
    }
}

/// What was acknowledged while the window was in full use.
#[derive(Clone, Copy, Debug)]
pub(super) struct Acked {
    /// How many segments' worth.
    pub(super) segments: f64,
    /// The round trip it took, if that is known.
    pub(super) rtt: Option<Duration>,
    /// The smoothed one.
    pub(super) smoothed_rtt: Duration,
    /// Everything up to here has arrived, in bytes from the beginning of the stream.
    pub(super) acknowledged: u64,
    /// Everything up to here was sent.
    pub(super) sent: u64,
}

/// What an acknowledgement says, whatever it finds the sender doing. Counts are in segments' worth.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivered {
    /// Of which nobody knew before that they have arrived.
    pub(super) segments: f64,
    /// That were found lost since the last one.
    pub(super) lost: f64,
    /// That were on their way before it, and are after it.
    pub(super) in_flight_before: f64,
    pub(super) in_flight: f64,
    /// All bytes that have arrived so far.
    pub(super) total: u64,
    /// Whether that is less than a first window.
    pub(super) is_young: bool,
    /// The round trip it took, if that is known.
    pub(super) rtt: Option<Duration>,
    /// The smoothed one, once there is one.
    pub(super) smoothed_rtt: Option<Duration>,
    pub(super) rate: Option<Rate>,
    /// Whether losses are being repaired.
    pub(super) is_repairing: bool,
}

/// How fast segments arrive.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rate {
    pub(super) segments_per_s: f64,
    /// Bytes that had arrived when the newest segment was sent of those that have arrived.
    pub(super) before: u64,
    /// Whether there was too little to send to find out what the path carries.
    pub(super) is_limited: bool,
}

/// Finds the window, and the rate if it paces. All windows are in segments.
pub(super) trait Controller {
    /// Segments have arrived while the window was in full use, and none is known to be lost.
    fn on_acked(&mut self, _acked: &Acked, _now: Instant) {}

    /// The same after each acknowledgement.
    fn on_delivered(&mut self, _seen: &Delivered, _now: Instant) {}

    /// Something is sent after there was nothing to send and nothing on its way.
    fn on_idle_end(&mut self, _now: Instant) {}

    /// Segments were lost, for the first time in this window.
    fn on_loss(&mut self, now: Instant);

    /// A packet of this window was marked, for the first time.
    fn on_mark(&mut self, now: Instant) {
        self.on_loss(now);
    }

    /// Nothing has come back for so long that everything counts as lost.
    fn on_timeout(&mut self, now: Instant);

    /// The last loss or timeout was none.
    fn undo(&mut self);

    /// How many segments may be on their way.
    fn window(&self) -> f64;

    /// Whether it still looks for the capacity, doubling the window each round trip.
    fn in_slow_start(&self) -> bool;

    /// Segments per second at which they leave; as the window allows if `None`. Who says so also says what may be on its way while
    /// losses are repaired.
    fn pacing(&self) -> Option<f64> {
        None
    }

    /// Whether it sends less than the path carries, on purpose.
    fn holds_back(&self) -> bool {
        false
    }
}

// Reno: add one segment each round trip, halve when one is lost (RFC 5681).

/// A window and a threshold, in segments.
#[derive(Debug)]
struct Reno {
    window: f64,
    threshold: f64,
    /// Both before the last loss.
    before: (f64, f64),
}

impl Reno {
    /// At the beginning.
    fn new() -> Self {
        Self { window: INITIAL_WINDOW, threshold: f64::INFINITY, before: (INITIAL_WINDOW, f64::INFINITY) }
    }
}

impl Controller for Reno {
    fn on_acked(&mut self, acked: &Acked, _now: Instant) {
        if self.in_slow_start() {
            self.window = (self.window + acked.segments).min(self.threshold.max(self.window));
        } else {
            self.window += acked.segments / self.window;
        }
    }

    fn on_loss(&mut self, _now: Instant) {
        self.before = (self.window, self.threshold);
        self.threshold = (self.window / 2.0).max(MIN_THRESHOLD);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, now: Instant) {
        self.on_loss(now);
        self.window = 1.0;
    }

    fn undo(&mut self) {
        let (window, threshold) = self.before;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
    }

    fn window(&self) -> f64 {
        self.window
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Long enough that CUBIC is faster than Reno.
    const RTT: Duration = Duration::from_millis(100);

    fn acked(segments: f64, rtt: Duration) -> Acked {
        Acked { segments, rtt: Some(rtt), smoothed_rtt: rtt, acknowledged: 0, sent: 0 }
    }

    /// Acknowledges a window's worth each round trip, a segment at a time; returns the window after each.
    fn rounds(controller: &mut dyn Controller, now: &mut Instant, count: usize) -> Vec<f64> {
        let mut windows = Vec::new();
        for _ in 0..count {
            let window = controller.window();
            let mut left = window;
            while left > 0.0 {
                *now += RTT.div_f64(window);
                controller.on_acked(&acked(1.0, RTT), *now);
                left -= 1.0;
            }
            windows.push(controller.window());
        }
        windows
    }

    #[test]
    fn reno_doubles_then_adds_one_a_round_trip_and_halves() {
        let mut now = Instant::now();
        let mut reno = Reno::new();
        assert_eq!(rounds(&mut reno, &mut now, 3), [20.0, 40.0, 80.0]);
        reno.on_loss(now);
        assert!((reno.window() - 40.0).abs() < 1e-9);
        let window = rounds(&mut reno, &mut now, 10)[9];
        assert!((49.0..50.5).contains(&window), "{window}");
        reno.on_timeout(now);
        assert!((reno.window() - 1.0).abs() < 1e-9 && reno.in_slow_start());
    }

    #[test]
    fn cubic_is_back_at_its_plateau_after_the_time_of_the_equation() {
        let mut now = Instant::now();
        let mut cubic = Cubic::new();
        rounds(&mut cubic, &mut now, 5);
        let plateau = cubic.window();
        cubic.on_loss(now);
        assert!((cubic.window() - 0.7 * plateau).abs() < 1e-6);
        // RFC 9438, equation 2: K is the cube root of (W_max - cwnd) / C.
        let to_plateau = (0.3 * plateau / 0.4f64).cbrt();
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a few hundred rounds")]
        let count = (to_plateau / RTT.as_secs_f64()) as usize;
        let windows = rounds(&mut cubic, &mut now, count);
        let last = windows[count - 1];
        assert!((0.97..1.03).contains(&(last / plateau)), "{last} of {plateau}");
        let half = windows[count / 2];
        assert!(half > 0.93 * plateau, "concave: {half} of {plateau} after half of the time");
        assert!(windows.is_sorted());
    }

    #[test]
    fn hystart_ends_slow_start_when_the_delay_grows() {
        let mut now = Instant::now();
        let mut cubic = Cubic::new();
        let mut sent = 0;
        for round in 0..10u32 {
            let rtt = RTT + Duration::from_millis(5) * round;
            sent += 100;
            for number in 0..20 {
                now += Duration::from_millis(3);
                let acknowledged = sent - 100 + number;
                cubic.on_acked(&Acked { acknowledged, sent, ..acked(1.0, rtt) }, now);
            }
        }
        assert!(!cubic.in_slow_start());
        assert!(cubic.window() < 110.0, "{}", cubic.window());
    }
}
