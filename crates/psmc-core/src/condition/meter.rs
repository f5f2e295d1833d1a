//! How much a stream sends: a token bucket, and the time sliding window.

use std::time::{Duration, Instant};

use rand_core::Rng;

use super::to_f64;

/// Bytes that may be sent, which grow at a rate up to a bound.
#[derive(Debug)]
pub(super) struct Bucket {
    /// Bytes per second.
    rate: f64,
    size: f64,
    level: f64,
}

impl Bucket {
    /// A full one of so many bytes per second and bytes.
    pub(super) fn new(rate: f64, size: f64) -> Self {
        Self { rate, size, level: size }
    }

    /// So many seconds have passed.
    pub(super) fn fill(&mut self, seconds: f64) {
        self.level = (self.level + seconds * self.rate).min(self.size);
    }

    /// Takes these bytes if there are so many.
    pub(super) fn take(&mut self, bytes: f64) -> bool {
        let takes = self.level >= bytes;
        if takes {
            self.level -= bytes;
        }
        takes
    }

    /// How full it is, 0 to 1.
    pub(super) fn fullness(&self) -> f64 {
        self.level / self.size
    }
}

/// The rate of a stream by the time sliding window (Clark and Fang 1998; RFC 2859 §2).
#[derive(Debug, Default)]
pub(super) struct SlidingWindow {
    rate: f64,
    front: Option<Instant>,
}

/// The window in seconds. RFC 2859 leaves it open, and its authors' simulations have 1 s: several round trips.
pub(super) const WINDOW: f64 = 1.0;

impl SlidingWindow {
    /// A packet of so many bytes passes. Returns the rate, bytes per second.
    pub(super) fn on_packet(&mut self, bytes: usize, now: Instant) -> f64 {
        let since = self.front.map_or(Duration::ZERO, |at| now.saturating_duration_since(at));
        self.rate = (self.rate * WINDOW + to_f64(bytes as u64)) / (WINDOW + since.as_secs_f64());
        self.front = self.front.max(Some(now));
        self.rate
    }
}

/// In [0, 1).
pub(super) fn uniform(rng: &mut impl Rng) -> f64 {
    f64::from(rng.next_u32()) / (f64::from(u32::MAX) + 1.0)
}
