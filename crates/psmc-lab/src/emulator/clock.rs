//! From the kernel's time stamps to the clock that links go by.

use std::time::{Duration, Instant, SystemTime};

/// How far apart two readings of the same moment may be: more than they take, and less than anybody would notice.
const CLOCK_TOLERANCE: Duration = Duration::from_micros(1);

/// How often clocks are read until they agree; they mostly do at once.
const CLOCK_TRIES: usize = 4;

/// The same moment on two clocks: one that never jumps, and the one by which the kernel stamps packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    pub(super) now: Instant,
    wall: SystemTime,
}

impl Clock {
    /// Reads both, again if it was interrupted in between.
    pub(super) fn read() -> Self {
        let mut before = Instant::now();
        for _ in 0..CLOCK_TRIES {
            let (wall, now) = (SystemTime::now(), Instant::now());
            if now - before <= CLOCK_TOLERANCE {
                return Self { now, wall };
            }
            before = now;
        }
        Self { now: before, wall: SystemTime::now() }
    }

    /// When a packet came that has this stamp.
    pub(super) fn instant_of(self, stamp: SystemTime) -> Instant {
        // What came since the clocks were read takes another reading. What is from the future even then came before the
        // wall clock was set back.
        let clock = if stamp > self.wall { Self::read() } else { self };
        let age = clock.wall.duration_since(stamp).unwrap_or_default();
        clock.now.checked_sub(age).unwrap_or(clock.now)
    }

    /// What the other clock shows at this moment, which is not before.
    pub(super) fn wall_at(self, instant: Instant) -> SystemTime {
        self.wall + instant.saturating_duration_since(self.now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_is_as_old_on_either_clock() {
        let clock = Clock::read();
        let age = Duration::from_millis(7);
        assert_eq!(clock.instant_of(clock.wall - age), clock.now - age);
        assert_eq!(clock.wall_at(clock.now + age), clock.wall + age);
    }

    #[test]
    fn a_stamp_since_the_reading_is_later_than_it() {
        let clock = Clock::read();
        let (before, stamp, after) = (Instant::now(), SystemTime::now(), Instant::now());
        let instant = clock.instant_of(stamp);
        assert!(before - CLOCK_TOLERANCE <= instant && instant <= after + CLOCK_TOLERANCE);
    }

    #[test]
    fn a_stamp_from_the_future_means_now() {
        let (before, clock) = (Instant::now(), Clock::read());
        let instant = clock.instant_of(clock.wall + Duration::from_secs(3600));
        assert!(before <= instant && instant <= Instant::now());
    }
}
