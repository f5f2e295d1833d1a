//! What follows from the time: the clock that a session writes into its datagrams, the smallest value of the last seconds, and what
//! is not exceeded in the long run.

use std::cell::Cell;
use std::time::{Duration, Instant};

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
    pub(crate) fn timestamp(&self, at: Instant) -> u32 {
        timestamp_of(self.micros(at))
    }

    /// The reading at `at`, without the wrap.
    pub(crate) fn micros(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.origin);
        since.as_secs() * 1_000_000 + u64::from(since.subsec_micros())
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

/// What is written into a datagram of a reading.
#[expect(clippy::cast_possible_truncation, reason = "the clock wraps at 32 bits")]
pub(crate) fn timestamp_of(micros: u64) -> u32 {
    micros as u32
}

/// The smallest value in a sliding window, kept as one minimum per slot of time.
#[derive(Debug, Default)]
pub(crate) struct WindowedMin {
    slots: [Option<Duration>; MIN_SLOTS],
    /// The slot in use, and when it was opened.
    current: usize,
    opened: Option<Instant>,
}

impl WindowedMin {
    /// Takes a value in.
    pub(crate) fn update(&mut self, sample: Duration, now: Instant) {
        self.advance(now);
        let slot = &mut self.slots[self.current];
        *slot = Some(slot.map_or(sample, |least| least.min(sample)));
    }

    /// The smallest of the last 8 to 10 s.
    pub(crate) fn get(&self) -> Option<Duration> {
        self.slots.iter().flatten().min().copied()
    }

    /// Opens the slots that are due. After a silence longer than the window all have been emptied.
    fn advance(&mut self, now: Instant) {
        let opened = *self.opened.get_or_insert(now);
        let due = now.saturating_duration_since(opened).as_secs() / MIN_SLOT.as_secs();
        for _ in 0..due.min(MIN_SLOTS as u64) {
            self.current = (self.current + 1) % MIN_SLOTS;
            self.slots[self.current] = None;
        }
        if due > 0 {
            self.opened = Some(now);
        }
    }
}

/// A token bucket, as the generic cell rate algorithm (ITU-T I.371 annex A): instead of tokens it keeps the time at which what it
/// has let pass would be paid for.
#[derive(Debug, Default)]
pub(crate) struct TokenBucket {
    paid_at: Option<Instant>,
}

impl TokenBucket {
    /// Whether something may pass that takes `cost` at the rate, of which a `burst` may go at once.
    pub(crate) fn admits(&mut self, cost: Duration, burst: Duration, now: Instant) -> bool {
        let paid_at = self.paid_at.map_or(now, |at| at.max(now)) + cost;
        let admits = paid_at <= now + burst;
        if admits {
            self.paid_at = Some(paid_at);
        }
        admits
    }
}

/// Five slots of 2 s: the 10 s over which draft-ietf-ccwg-bbr keeps its minimum (`BBR.MinRTTFilterLen`).
const MIN_SLOTS: usize = 5;
const MIN_SLOT: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
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
