//! Which upstream server is asked first: the one that answers soonest.

use std::time::{Duration, Instant};

/// What is taken for the round trip to a server that was never asked: it is worth a try.
const UNKNOWN: Duration = Duration::from_millis(30);

/// How long a server that did not answer is asked only where all others have failed, too; doubled each time.
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The longest such time: as soon as that it is noticed that a server is back.
const LONGEST_PAUSE: Duration = Duration::from_secs(16);

/// Bounds of the time that a server has before the next one is asked beside it.
const PATIENCE: (Duration, Duration) = (Duration::from_millis(50), Duration::from_millis(300));

/// How a server has done so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Rank {
    smoothed: Option<Duration>,
    failures: u32,
    paused_until: Option<Instant>,
}

impl Rank {
    /// It has answered after so long.
    pub(super) fn answered(&mut self, after: Duration) {
        self.smoothed = Some(self.smoothed.map_or(after, |smoothed| (smoothed * 7 + after) / 8));
        (self.failures, self.paused_until) = (0, None);
    }

    /// It has not answered.
    pub(super) fn failed(&mut self, now: Instant) {
        let pause = FIRST_PAUSE.saturating_mul(1 << self.failures.min(10)).min(LONGEST_PAUSE);
        self.failures = self.failures.saturating_add(1);
        self.paused_until = Some(now + pause);
    }

    /// It was passed over: in time it is tried again, for it may have become faster.
    pub(super) fn passed_over(&mut self) {
        self.smoothed = self.smoothed.map(|smoothed| smoothed * 63 / 64);
    }

    /// Servers are asked in this order: those that answer, the fastest first; then those that were silent, the first to be tried
    /// again first.
    pub(super) fn order(&self, now: Instant) -> (bool, Duration) {
        match self.paused_until.filter(|until| now < *until) {
            Some(until) => (true, until - now),
            None => (false, self.smoothed.unwrap_or(UNKNOWN)),
        }
    }

    /// How long it has before the next one is asked beside it.
    pub(super) fn patience(&self) -> Duration {
        let (least, most) = PATIENCE;
        (self.smoothed.unwrap_or(UNKNOWN) * 3).clamp(least, most)
    }

    /// Whether it was silent the last time.
    pub(super) fn is_silent(&self) -> bool {
        self.failures > 0
    }

    /// The smoothed round trip.
    pub(super) fn round_trip(&self) -> Option<Duration> {
        self.smoothed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fastest_that_answers_is_first_and_silence_passes() {
        let (now, ms) = (Instant::now(), Duration::from_millis);
        let (mut near, mut far) = (Rank::default(), Rank::default());
        near.answered(ms(5));
        far.answered(ms(50));
        assert!(near.order(now) < far.order(now) && near.order(now) < Rank::default().order(now));
        near.failed(now);
        assert!(near.order(now) > far.order(now));
        assert!(near.order(now + FIRST_PAUSE) < far.order(now + FIRST_PAUSE));
        for _ in 0..20 {
            near.failed(now);
        }
        assert!(near.order(now + LONGEST_PAUSE / 2) > far.order(now));
        assert!(near.order(now + LONGEST_PAUSE) < far.order(now + LONGEST_PAUSE));
        for _ in 0..200 {
            far.passed_over();
        }
        assert!(far.order(now) < Rank { smoothed: Some(ms(5)), ..Rank::default() }.order(now));
    }
}
