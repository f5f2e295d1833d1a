//! Datagrams of a path's own where traffic is too thin to tell what is lost and how late it is.
//!
//! They ask for an acknowledgement and nothing else, so that both directions have something to count. They are counted by colour as
//! all datagrams are, and go the way that data go.

use std::time::{Duration, Instant};

use super::{Path, PathState};

/// What one takes on its way, and its acknowledgement on the way back, in bytes with all headers: no more than this.
const BYTES: u64 = 120;

/// They take so much of the path's rate at most: one part in a hundred.
const PARTS: u64 = 100;

/// What is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Filling {
    /// At least one datagram in this time.
    pub(super) interval: Duration,
    pub(super) until: Instant,
}

impl Path {
    /// When the next one is due, if nothing else is sent before that.
    pub(super) fn filled_at(&self) -> Option<Instant> {
        let Filling { interval, until } = self.filling.filter(|_| self.state() == PathState::Active)?;
        let since = self.last_eliciting_at.unwrap_or(self.answered_at);
        let at = since + interval.max(least_interval(self.pace().rate));
        (at < until).then_some(at)
    }
}

/// How far apart they are at least, where the path carries so many bytes in a second.
fn least_interval(rate: u64) -> Duration {
    Duration::from_nanos((BYTES * PARTS).saturating_mul(1_000_000_000) / rate.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn they_take_a_hundredth_of_the_rate() {
        for rate in [1, 12_000, 1_250_000, 125_000_000, u64::MAX] {
            let taken = BYTES as f64 / least_interval(rate).as_secs_f64().max(f64::MIN_POSITIVE);
            assert!(rate > 1_000_000_000 || taken <= rate as f64 / 99.9, "{rate}: {taken}");
        }
        assert_eq!(least_interval(1_200_000), Duration::from_millis(10));
    }
}
