//! What is not exceeded in the long run, and in the short by a burst at most.

use std::time::{Duration, Instant};

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
