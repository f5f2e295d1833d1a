//! Whether the machine was fast enough to emulate a link faithfully, and how much a thread may work before it has to sleep.

use std::thread::sleep;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};

/// How well a link was emulated. Numbers are of frames, both directions together.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// Whether the emulator's thread goes before others, which takes the right to set a real-time priority.
    pub preferred: bool,
    /// How late frames were sent.
    pub lateness: Lateness,
    /// Lost because the emulator did not read them in time.
    pub overrun: u64,
    /// Lost because more was on the way than the emulator has memory for.
    pub unbuffered: u64,
    /// Lost because the far interface was down.
    pub refused: u64,
    /// Not in the captures, because those could not be written in time or at all.
    pub unlogged: u64,
    /// Why captures have ended early, a sentence for each.
    pub capture_failures: Vec<String>,
}

/// How many frames were how late, in doubling steps: bucket `i` counts those below 2^i µs that are in none before.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness(pub(super) [u64; BUCKETS]);

/// Up to half a minute; whatever is later counts there.
pub(super) const BUCKETS: usize = 26;

/// What the emulator promises for 99 of 100 frames, doubled: less is nothing to warn of.
const TOO_LATE: Duration = Duration::from_micros(256);

impl Health {
    /// What the user of a run should know about it, in whole sentences.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        let (late, reason) = (self.lateness.quantile(0.99), self.reason());
        let lost = [
            (self.overrun, "the emulator did not read in time"),
            (self.unbuffered, "the emulator had no memory left for"),
        ];
        let losses = lost.into_iter().filter(|(count, _)| *count > 0);
        let losses = losses.map(|(count, why)| format!("{count} packets were lost that {why}: {reason}"));
        let is_late = late > TOO_LATE;
        let lateness =
            is_late.then(|| format!("one packet in a hundred was about {late:?} late or more: {reason}"));
        let unlogged = (self.unlogged > 0).then(|| format!("{} packets are in no capture", self.unlogged));
        losses.chain(lateness).chain(self.capture_failures.iter().cloned()).chain(unlogged).collect()
    }

    /// Why the emulator is too slow.
    fn reason(&self) -> &'static str {
        if self.preferred {
            "this machine is too slow for the link"
        } else {
            "this machine is too slow for the link, or busy; run by root, the emulator goes before other programs"
        }
    }
}

impl Lateness {
    /// How many frames there were.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The time below which the share `q` of the frames was late, rounded up to the step; zero without frames.
    #[must_use]
    pub fn quantile(&self, q: f64) -> Duration {
        let wanted = self.count() as f64 * q;
        let mut seen = 0;
        let enough = self.0.iter().position(|count| {
            seen += count;
            seen > 0 && seen as f64 >= wanted
        });
        enough.map_or(Duration::ZERO, |bucket| Duration::from_micros(1 << bucket))
    }
}

/// The bucket of [`Lateness`] for a time.
pub(super) fn bucket_of(late: Duration) -> usize {
    let bits = u128::BITS - late.as_micros().leading_zeros();
    (bits as usize).min(BUCKETS - 1)
}

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

    fn lateness(micros: &[u64]) -> Lateness {
        let mut lateness = Lateness::default();
        for late in micros {
            lateness.0[bucket_of(Duration::from_micros(*late))] += 1;
        }
        lateness
    }

    fn health(lateness: Lateness) -> Health {
        Health {
            preferred: true,
            lateness,
            overrun: 0,
            unbuffered: 0,
            refused: 0,
            unlogged: 0,
            capture_failures: Vec::new(),
        }
    }

    #[test]
    fn a_quantile_is_rounded_up_to_its_step() {
        let lateness = lateness(&[0, 1, 3, 3, 3, 3, 3, 3, 3, 900]);
        assert_eq!(lateness.count(), 10);
        assert_eq!(lateness.quantile(0.1), Duration::from_micros(1));
        assert_eq!(lateness.quantile(0.5), Duration::from_micros(4));
        assert_eq!(lateness.quantile(0.9), Duration::from_micros(4));
        assert_eq!(lateness.quantile(1.0), Duration::from_micros(1024));
    }

    #[test]
    fn nothing_is_not_late() {
        assert_eq!(Lateness::default().quantile(0.99), Duration::ZERO);
    }

    #[test]
    fn the_latest_of_all_still_has_a_bucket() {
        assert_eq!(bucket_of(Duration::from_hours(1)), BUCKETS - 1);
    }

    #[test]
    fn warnings_are_about_what_went_wrong() {
        assert_eq!(health(lateness(&[50; 100])).warnings(), Vec::<String>::new());
        assert!(health(lateness(&[5000; 100])).warnings()[0].contains("8.192ms late or more: this machine"));
        let ordinary = Health { preferred: false, ..health(lateness(&[5000; 100])) };
        assert!(ordinary.warnings()[0].contains("run by root"));
        let bad = Health { overrun: 3, unbuffered: 4, refused: 5, unlogged: 6, ..health(lateness(&[])) };
        let warnings = bad.warnings();
        assert_eq!(warnings.len(), 3, "{warnings:?}");
        assert!(warnings[0].starts_with("3 packets were lost that the emulator did not read"));
    }

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
