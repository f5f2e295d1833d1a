//! Logical time inside a link.

use std::time::{Duration, Instant};

/// Nanoseconds since a link began. They last for 584 years; sums that would be later stay at the end of time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Default)]
pub(super) struct Nanos(pub(super) u64);

impl Nanos {
    /// So much later.
    pub(super) fn after(self, later: Self) -> Self {
        Self(self.0.saturating_add(later.0))
    }

    /// The time from `earlier` to this one; zero if it is the other way round.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self(self.0.saturating_sub(earlier.0))
    }

    /// Rounded down; zero if it is negative.
    #[expect(
        clippy::cast_possible_truncation,
        reason = "a cast from a float stays within the integer's bounds"
    )]
    pub(super) fn from_float(nanos: f64) -> Self {
        Self(nanos as u64)
    }

    /// To calculate with.
    pub(super) fn to_float(self) -> f64 {
        self.0 as f64
    }
}

impl From<Duration> for Nanos {
    fn from(duration: Duration) -> Self {
        Self(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
    }
}

impl From<Nanos> for Duration {
    fn from(nanos: Nanos) -> Self {
        Self::from_nanos(nanos.0)
    }
}

/// Between the time of drivers and that of a link.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    start: Instant,
}

impl Clock {
    /// Logical time begins at `start`.
    pub(super) fn new(start: Instant) -> Self {
        Self { start }
    }

    /// What was before the start is at it.
    pub(super) fn nanos(self, at: Instant) -> Nanos {
        at.saturating_duration_since(self.start).into()
    }

    /// The reverse. No packet lives long enough for the sum to overflow.
    pub(super) fn instant(self, at: Nanos) -> Instant {
        self.start + Duration::from(at)
    }
}
