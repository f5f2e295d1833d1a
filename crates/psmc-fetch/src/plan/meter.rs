//! How fast a source is.

use std::time::Duration;

/// Over what time bytes are averaged, in seconds: long enough for several round trips, short enough that a source that
/// has fallen silent soon looks slow.
const MEMORY: f64 = 2.0;

/// The rate of a source over the time in which something was asked of it. What is long ago counts less and less.
#[derive(Clone, Debug, Default)]
pub(super) struct Meter {
    bytes: f64,
    seconds: f64,
    /// Up to when both are counted, while something is asked of it.
    counted: Option<Duration>,
}

impl Meter {
    /// Something is asked.
    pub(super) fn start(&mut self, now: Duration) {
        self.counted = Some(now);
    }

    /// Bytes have arrived.
    pub(super) fn add(&mut self, bytes: u64, now: Duration) {
        self.advance(now);
        self.bytes += bytes as f64;
    }

    /// Nothing is asked any more.
    pub(super) fn stop(&mut self, now: Duration) {
        self.advance(now);
        self.counted = None;
    }

    /// In bytes per second; `None` if nothing is known.
    pub(super) fn rate(&self, now: Duration) -> Option<f64> {
        let mut meter = self.clone();
        meter.advance(now);
        (meter.seconds > 0.0 && meter.bytes > 0.0).then(|| meter.bytes / meter.seconds)
    }

    fn advance(&mut self, now: Duration) {
        let Some(counted) = self.counted else { return };
        let kept = (-now.saturating_sub(counted).as_secs_f64() / MEMORY).exp();
        self.bytes *= kept;
        self.seconds = self.seconds * kept + MEMORY * (1.0 - kept);
        self.counted = Some(now.max(counted));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn after(seconds: u32) -> Meter {
        let mut meter = Meter::default();
        meter.start(Duration::ZERO);
        for number in 1..=seconds * 100 {
            meter.add(1000, SECOND * number / 100);
        }
        meter
    }

    #[test]
    fn a_steady_rate_is_seen_from_the_start() {
        for seconds in [1, 10] {
            let rate = after(seconds).rate(SECOND * seconds).unwrap();
            assert!((rate / 100_000.0 - 1.0).abs() < 0.01, "{rate} after {seconds} s");
        }
        assert_eq!(Meter::default().rate(SECOND), None);
    }

    #[test]
    fn silence_counts_if_something_is_asked() {
        let mut meter = after(4);
        let slow = meter.rate(SECOND * 8).unwrap();
        assert!(slow < 20_000.0, "{slow}");
        meter.stop(SECOND * 4);
        assert_eq!(meter.rate(SECOND * 4), meter.rate(SECOND * 100));
    }
}
