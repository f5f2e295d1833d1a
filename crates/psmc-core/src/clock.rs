//! The clock that a session writes into its datagrams.

use std::cell::Cell;
use std::time::Instant;

/// Microseconds since an origin, wrapping at 32 bits (71 minutes).
///
/// The sites' clocks need no synchronisation: one-way delays are measured against the first one seen, so that
/// they come out as small numbers that can be compared between the paths of a session, and only so.
#[derive(Debug)]
pub(crate) struct SessionClock {
    origin: Instant,
    first_delay: Cell<Option<u32>>,
}

impl SessionClock {
    /// A clock that reads zero at `origin`.
    pub(crate) fn new(origin: Instant) -> Self {
        Self { origin, first_delay: Cell::new(None) }
    }

    /// The reading at `at`.
    #[expect(clippy::cast_possible_truncation, reason = "the clock wraps at 32 bits")]
    pub(crate) fn timestamp(&self, at: Instant) -> u32 {
        at.saturating_duration_since(self.origin).as_micros() as u32
    }

    /// The one-way delay of a datagram sent when the peer's clock read `sent_at_us` and received at `at`,
    /// minus that of the first datagram ever measured.
    pub(crate) fn one_way_delay(&self, sent_at_us: u32, at: Instant) -> i32 {
        let delay = self.timestamp(at).wrapping_sub(sent_at_us);
        let first = self.first_delay.get().unwrap_or(delay);
        self.first_delay.set(Some(first));
        delay.wrapping_sub(first).cast_signed()
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn delays_are_relative_to_the_first() {
        let origin = Instant::now();
        let clock = SessionClock::new(origin);
        let at = |ms| origin + Duration::from_millis(ms);
        assert_eq!(clock.one_way_delay(4_000_000_000, at(10)), 0);
        assert_eq!(clock.one_way_delay(4_000_010_000, at(25)), 5_000);
        assert_eq!(clock.one_way_delay(4_000_020_000, at(27)), -3_000);
    }
}
