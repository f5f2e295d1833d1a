//! The time of the world, and waits that grow.

use std::time::Duration;

pub use psmc_net::clock::{since_1970, unix_seconds};

/// Exponential back-off: each wait is twice as long as the one before, up to the longest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// Begins with `first`.
    #[must_use]
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// How long to wait this time.
    pub fn wait(&mut self) -> Duration {
        let wait = self.next;
        self.next = (wait * 2).min(self.longest);
        wait
    }

    /// Waits no longer than that the next time, and goes on from there.
    pub fn shorten(&mut self, most: Duration) {
        self.next = self.next.min(most);
    }

    /// Begins anew, for what was tried has succeeded.
    pub fn reset(&mut self) {
        self.next = self.first;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_double_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_secs(1), Duration::from_secs(5));
        let waits: Vec<u64> = (0..5).map(|_| backoff.wait().as_secs()).collect();
        assert_eq!(waits, [1, 2, 4, 5, 5]);
        backoff.shorten(Duration::from_secs(2));
        assert_eq!([backoff.wait(), backoff.wait()].map(|wait| wait.as_secs()), [2, 4]);
        backoff.reset();
        assert_eq!(backoff.wait(), Duration::from_secs(1));
    }
}
