//! The time that all streams of a run share.

use std::time::{Duration, Instant};

/// Counts time from the start of a run.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    interval: Duration,
}

impl Clock {
    /// A run that starts at `start`, which may lie ahead, with series in intervals of this length.
    #[must_use]
    pub const fn new(start: Instant, interval: Duration) -> Self {
        Self { start, interval }
    }

    /// The interval of all series.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        self.interval
    }

    /// Since the start; 0 before it.
    #[must_use]
    pub fn now(&self) -> Duration {
        self.start.elapsed()
    }

    /// A moment of the run.
    #[must_use]
    pub fn at(&self, time: Duration) -> Instant {
        self.start + time
    }

    /// Waits for a moment of the run. The timer of the runtime is exact to a millisecond.
    pub async fn sleep_until(&self, time: Duration) {
        tokio::time::sleep_until(self.at(time).into()).await;
    }
}
