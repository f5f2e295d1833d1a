//! Round-trip times, and how long to wait for an acknowledgement (RFC 6298, with the smallest wait that Linux has).

use std::time::Duration;

/// The wait before there is a measurement.
const INITIAL: Duration = Duration::from_secs(1);

/// What is waited beyond the round trip at least. RFC 6298 asks for a second in all; no system waits so long.
const MIN_VARIATION: Duration = Duration::from_millis(200);

/// The longest wait.
const MAX: Duration = Duration::from_secs(120);

/// How long a receiver may keep an acknowledgement back, for the probe of RFC 8985 §7.
const ACK_DELAY: Duration = Duration::from_millis(10);

/// What is known of the round trip.
#[derive(Debug, Default)]
pub(super) struct Rtt {
    smoothed: Option<Duration>,
    variation: Duration,
    min: Option<Duration>,
    latest: Duration,
    backoff: u32,
}

impl Rtt {
    /// A segment that was sent once was acknowledged after this time.
    pub(super) fn on_sample(&mut self, sample: Duration) {
        let smoothed = match self.smoothed {
            None => {
                self.variation = sample / 2;
                sample
            }
            Some(smoothed) => {
                self.variation = (self.variation * 3 + smoothed.abs_diff(sample)) / 4;
                (smoothed * 7 + sample) / 8
            }
        };
        self.smoothed = Some(smoothed);
        self.min = Some(self.min.map_or(sample, |min| min.min(sample)));
        self.latest = sample;
        self.backoff = 0;
    }

    /// The wait was in vain.
    pub(super) fn on_timeout(&mut self) {
        self.backoff = (self.backoff + 1).min(16);
    }

    /// How long to wait for an acknowledgement until everything counts as lost.
    pub(super) fn timeout(&self) -> Duration {
        let base =
            self.smoothed.map_or(INITIAL, |smoothed| smoothed + (self.variation * 4).max(MIN_VARIATION));
        (base * (1 << self.backoff)).min(MAX)
    }

    /// How long to wait for an acknowledgement until it is asked for.
    pub(super) fn probe_timeout(&self) -> Duration {
        let base = self.smoothed.map_or(INITIAL, |smoothed| smoothed * 2 + ACK_DELAY);
        base.min(self.timeout())
    }

    /// The last sample.
    pub(super) fn latest(&self) -> Duration {
        self.latest
    }

    /// The smallest one.
    pub(super) fn min(&self) -> Duration {
        self.min.unwrap_or_default()
    }

    /// The smoothed one.
    pub(super) fn smoothed(&self) -> Duration {
        self.smoothed.unwrap_or(INITIAL)
    }

    /// The same, once there is a sample.
    pub(super) fn sampled(&self) -> Option<Duration> {
        self.smoothed
    }
}
