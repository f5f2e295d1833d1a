//! How much a thread may work before it has to sleep.
//!
//! A thread of real-time priority that works for more than 95 % of a second is kept from working for the rest of it
//! (`sched_rt_runtime_us` of Linux): for fifty milliseconds, in which no packet moves. One that takes small rests in time
//! is not.

use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// The part of the time that a thread may work: less than the kernel lets it, for others count to the same share.
const WORK: f64 = 0.9;

/// How much more than its part a thread works before it rests: the rest is as short, and no packet late by much.
const STAMINA: Duration = Duration::from_micros(15);

/// How often it is asked how much the thread has worked, which takes a system call.
const CHECK_INTERVAL: Duration = Duration::from_micros(150);

/// How long before a moment a thread that waits for it is awake, at least: the kernel takes about as long to wake it.
const SHORTEST_AHEAD: Duration = Duration::from_micros(10);

/// How long at most: a virtual machine takes about as long to wake a processor that had nothing to do.
const LONGEST_AHEAD: Duration = Duration::from_micros(60);

/// The part of a wait that may be spent awake. One of a millisecond is long enough for a processor to fall asleep.
const AWAKE_PART: u32 = 16;

/// How much a thread has worked beyond its part of the time.
#[derive(Debug)]
pub(crate) struct Fatigue {
    checked: Instant,
    worked: Duration,
    /// In seconds, never below zero.
    excess: f64,
}

impl Fatigue {
    /// That of this thread, which is none yet.
    pub(crate) fn new() -> Self {
        Self { checked: Instant::now(), worked: time_worked(), excess: 0.0 }
    }

    /// How long before a moment the thread should be awake, if there is so much time left until then. A tired one sleeps
    /// while it can, be it a little too long.
    pub(crate) fn time_ahead(&self, left: Duration) -> Duration {
        if self.excess < STAMINA.as_secs_f64() / 2.0 {
            (left / AWAKE_PART).clamp(SHORTEST_AHEAD, LONGEST_AHEAD)
        } else {
            Duration::ZERO
        }
    }

    /// Sleeps if it must be. To be called all the time.
    pub(crate) fn rest_if_due(&mut self) {
        if self.checked.elapsed() < CHECK_INTERVAL {
            return;
        }
        self.check();
        if self.excess >= STAMINA.as_secs_f64() {
            sleep(Duration::from_secs_f64(self.excess / WORK));
        }
    }

    fn check(&mut self) {
        let (checked, worked) = (Instant::now(), time_worked());
        let passed = (checked - self.checked).as_secs_f64();
        let more = worked.saturating_sub(self.worked).as_secs_f64();
        (self.checked, self.worked) = (checked, worked);
        self.excess = (self.excess + more - WORK * passed).max(0.0);
    }
}

/// The processor time that this thread has used. The clock exists wherever Linux does.
fn time_worked() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, Duration::from)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_that_always_works_gets_its_rest() {
        let mut fatigue = Fatigue::new();
        let (start, before) = (Instant::now(), time_worked());
        while start.elapsed() < Duration::from_millis(300) {
            fatigue.rest_if_due();
        }
        let part = (time_worked() - before).as_secs_f64() / start.elapsed().as_secs_f64();
        assert!(part < 0.93, "{part}");
    }

    #[test]
    fn who_has_slept_is_fresh() {
        let mut fatigue = Fatigue::new();
        sleep(Duration::from_millis(5));
        fatigue.check();
        assert_eq!(fatigue.excess, 0.0);
        assert_eq!(fatigue.time_ahead(Duration::from_millis(1)), LONGEST_AHEAD);
        assert_eq!(fatigue.time_ahead(Duration::from_micros(1)), SHORTEST_AHEAD);
    }
}
