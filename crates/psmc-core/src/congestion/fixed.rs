//! A constant rate, for links whose rate is known and belongs to the tunnel.

use std::time::{Duration, Instant};

use super::{AckSample, Controller, bytes_in};

/// Sends at the configured rate, whatever is lost.
#[derive(Debug)]
pub(crate) struct Fixed {
    /// Bytes per second.
    rate: u64,
    /// Smallest window, bytes.
    floor: u64,
    /// Smoothed round-trip time, acknowledgement delay included.
    rtt: Duration,
}

impl Fixed {
    /// A controller that sends `rate` bytes per second in datagrams of at most `datagram_size` bytes.
    pub(crate) fn new(rate: u64, datagram_size: u16) -> Self {
        Self { rate, floor: FLOOR_DATAGRAMS * u64::from(datagram_size), rtt: INITIAL_RTT }
    }
}

impl Controller for Fixed {
    fn on_ack(&mut self, sample: &AckSample, _now: Instant) {
        if let Some(rtt) = sample.rtt {
            self.rtt = (self.rtt * 7 + rtt) / 8;
        }
    }

    fn on_loss(&mut self, _lost_bytes: u64, _inflight: u64, _now: Instant) {}

    fn on_marks(&mut self, _now: Instant) {}

    fn window(&self) -> u64 {
        bytes_in(self.rate, self.rtt + SLACK).max(self.floor)
    }

    fn pacing_rate(&self) -> u64 {
        self.rate
    }

    fn bandwidth(&self) -> Option<u64> {
        Some(self.rate)
    }

    fn adopt(&mut self, _rate: u64, round_trip: Duration, _now: Instant) {
        self.rtt = round_trip;
    }

    fn on_restart(&mut self, _now: Instant) {
        self.rtt = INITIAL_RTT;
    }
}

/// Above the round-trip time, what late acknowledgements and a short queue at the bottleneck may take
/// before the window, rather than the configured rate, would limit the path.
const SLACK: Duration = Duration::from_millis(50);

/// `kInitialRtt` of RFC 9002 §6.2.2, rather too long: the window must not limit the rate.
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// Acknowledgements may cover 16 datagrams: with fewer in flight, each would wait for a timer.
const FLOOR_DATAGRAMS: u64 = 16;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_its_rate_through_loss_and_marks_and_gives_room_for_the_round_trip() {
        let now = Instant::now();
        let mut fixed = Fixed::new(1_250_000, 1400);
        let sample = AckSample { rtt: Some(Duration::from_millis(100)), ..AckSample::default() };
        for _ in 0..100 {
            fixed.on_ack(&sample, now);
            fixed.on_loss(100_000, 0, now);
            fixed.on_marks(now);
        }
        assert_eq!(fixed.pacing_rate(), 1_250_000);
        assert!((187_000..190_000).contains(&fixed.window()), "{}", fixed.window());
    }

    #[test]
    fn a_slow_path_still_has_a_window() {
        assert_eq!(Fixed::new(1000, 1400).window(), 16 * 1400);
    }
}
