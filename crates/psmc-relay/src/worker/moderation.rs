//! When a worker lets a moment pass before it reads again, as network cards moderate their interrupts.
//!
//! Datagrams that come one by one, far apart, each cost a wake-up and a system call to read. At a high rate a pause too
//! short to matter lets several arrive, which are then read at once and, where they go to one address, sent at once.

use std::time::{Duration, Instant};

/// How long a pause is. A datagram is to leave no more than 50 µs later than if the kernel had forwarded it, and takes
/// half of that without a pause.
const PAUSE: Duration = Duration::from_micros(25);

/// Below this many datagrams in a second hardly any two meet in a pause.
const MIN_RATE: u128 = 20_000;

/// Where so many come in each turn by themselves, a pause would gather nothing that is not gathered anyway.
const MANY: u64 = 8;

/// For how long datagrams are counted before anything is decided: at [`MIN_RATE`] there are forty by then.
const WINDOW: Duration = Duration::from_millis(2);

/// Decides about pauses by the recent past.
#[derive(Debug)]
pub(super) struct Moderation {
    since: Instant,
    /// All datagrams that had come by then.
    received: u64,
    turns: u64,
    is_on: bool,
}

impl Moderation {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, received: 0, turns: 0, is_on: false }
    }

    /// A turn in which something was read is over, and so many datagrams have come in all. How long to wait before the
    /// next one, if that is worth it.
    pub(super) fn pause(&mut self, received: u64, now: Instant) -> Option<Duration> {
        self.turns += 1;
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= WINDOW {
            let datagrams = received - self.received;
            let is_fast = u128::from(datagrams) * 1_000_000_000 >= elapsed.as_nanos() * MIN_RATE;
            self.is_on = is_fast && datagrams < self.turns * MANY;
            (self.since, self.received, self.turns) = (now, received, 0);
        }
        self.is_on.then_some(PAUSE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// After how many of 10,000 turns there is a pause if so many datagrams come in each, so far apart.
    fn pauses(datagrams: u64, every: Duration) -> usize {
        let origin = Instant::now();
        let mut moderation = Moderation::new(origin);
        let is_followed =
            |turn: &u32| moderation.pause(datagrams * u64::from(*turn), origin + every * *turn).is_some();
        (1..=10_000).filter(is_followed).count()
    }

    #[test]
    fn pauses_are_for_many_datagrams_that_come_one_by_one() {
        assert!(pauses(1, Duration::from_micros(20)) > 9800, "50,000 a second");
        assert!(pauses(3, Duration::from_micros(50)) > 9800, "as pauses gather them");
        assert_eq!(pauses(1, Duration::from_micros(100)), 0, "10,000 a second");
        assert_eq!(pauses(16, Duration::from_micros(20)), 0, "bursts");
    }

    #[test]
    fn the_first_datagrams_after_a_silence_do_not_wait() {
        let origin = Instant::now();
        let mut moderation = Moderation::new(origin);
        for turn in 1..=1000 {
            moderation.pause(turn.into(), origin + Duration::from_micros(20) * turn);
        }
        assert!(moderation.is_on);
        let later = origin + Duration::from_millis(25);
        assert_eq!([moderation.pause(1001, later), moderation.pause(1002, later)], [None, None]);
    }
}
