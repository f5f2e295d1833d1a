//! When a worker lets a moment pass before it reads again, as network cards moderate their interrupts, and how long it has
//! had to wait for a processor.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

use super::Moved;

/// How long a pause is. A datagram is to leave no more than 50 µs later than if the kernel had forwarded it, and takes
/// half of that without a pause.
const PAUSE: Duration = Duration::from_micros(25);

/// How long it is where the processor is taken.
const LONG_PAUSE: Duration = Duration::from_micros(150);

/// Below this many datagrams in a second hardly any two meet in a pause.
const MIN_RATE: u128 = 20_000;

/// Where so many leave at once, all is gathered that can be.
const GATHERED: u64 = 12;

/// The processor is taken if the thread has to wait for it for such a part of the time.
const TAKEN: f64 = 0.125;

/// By so much of itself a window counts in that: what has the processor once, for less than two milliseconds, does not take it.
const TAKEN_GAIN: f64 = 0.125;

/// For how long datagrams are counted before anything is decided: at [`MIN_RATE`] there are forty by then.
const WINDOW: Duration = Duration::from_millis(2);

/// Decides about pauses by the recent past.
#[derive(Debug)]
pub(super) struct Moderation {
    since: Instant,
    /// What had been moved by then.
    moved: Moved,
    /// For how long the thread had waited for a processor.
    waited: Duration,
    /// The part of the time for which it waits of late, 0 to 1.
    taken: f64,
    pause: Option<Duration>,
}

impl Moderation {
    pub(super) fn new(now: Instant) -> Self {
        Self { since: now, moved: Moved::default(), waited: Duration::ZERO, taken: 0.0, pause: None }
    }

    /// A turn in which something was read is over, so much has been moved in all, and for so long the thread has waited for
    /// a processor. How long to pause before the next turn, if that is worth it.
    pub(super) fn pause(
        &mut self,
        moved: &Moved,
        waited: impl FnOnce() -> Duration,
        now: Instant,
    ) -> Option<Duration> {
        let elapsed = now.saturating_duration_since(self.since);
        if elapsed >= WINDOW {
            let waited = waited();
            let share = waited.saturating_sub(self.waited).div_duration_f64(elapsed);
            self.taken += (share - self.taken) * TAKEN_GAIN;
            self.pause = self.pause_after(moved, elapsed);
            (self.since, self.moved, self.waited) = (now, *moved, waited);
        }
        self.pause
    }

    fn pause_after(&self, moved: &Moved, elapsed: Duration) -> Option<Duration> {
        let [received, sent, runs] = [
            moved.received - self.moved.received,
            moved.sent - self.moved.sent,
            moved.runs - self.moved.runs,
        ];
        let is_slow = u128::from(received) * 1_000_000_000 < elapsed.as_nanos() * MIN_RATE;
        if is_slow || sent >= runs * GATHERED {
            return None;
        }
        Some(if self.taken >= TAKEN { LONG_PAUSE } else { PAUSE })
    }
}

/// Three numbers of twenty digits.
const LONGEST: usize = 64;

/// What the kernel counts of this thread.
#[derive(Debug)]
pub(super) struct Processor {
    /// Not where the kernel does not count.
    counts: Option<File>,
}

impl Processor {
    /// That of the thread which calls this.
    pub(super) fn of_this_thread() -> Self {
        Self { counts: File::open("/proc/thread-self/schedstat").ok() }
    }

    /// For how long the thread could have run, in all, but something else did; zero where the kernel does not count.
    pub(super) fn waited(&self) -> Duration {
        let mut text = [0; LONGEST];
        let read = self.counts.as_ref().and_then(|counts| counts.read_at(&mut text, 0).ok());
        let text = str::from_utf8(&text[..read.unwrap_or(0)]).unwrap_or_default();
        // After the time that it has run (Documentation/scheduler/sched-stats.rst).
        let waited = text.split_ascii_whitespace().nth(1).and_then(|number| number.parse().ok());
        Duration::from_nanos(waited.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::thread;
    use std::time::Instant;

    use super::*;

    fn moved(datagrams: u64, runs: u64) -> Moved {
        Moved { received: datagrams, sent: datagrams, runs, ..Moved::default() }
    }

    /// The pauses after 10,000 turns, so far apart, in each of which so many datagrams come and leave in so many runs, and
    /// for such a part of which the thread waits.
    fn pauses(datagrams: u64, runs: u64, every: Duration, waited: u32) -> Vec<Option<Duration>> {
        let origin = Instant::now();
        let mut moderation = Moderation::new(origin);
        (1..=10_000)
            .map(|turn| {
                let moved = moved(datagrams * u64::from(turn), runs * u64::from(turn));
                moderation.pause(&moved, || every * turn * waited / 100, origin + every * turn)
            })
            .skip(1000)
            .collect()
    }

    #[test]
    fn pauses_are_for_many_datagrams_that_come_one_by_one() {
        let micros = Duration::from_micros;
        for (datagrams, runs, every, waited, expected) in [
            (1, 1, micros(20), 0, Some(PAUSE)),
            (3, 3, micros(50), 5, Some(PAUSE)),
            (40, 16, micros(250), 30, Some(LONG_PAUSE)),
            (1, 1, micros(100), 0, None),
            (1, 1, micros(100), 50, None),
            (16, 1, micros(20), 0, None),
            (16, 1, micros(20), 50, None),
        ] {
            let pauses = pauses(datagrams, runs, every, waited);
            assert!(
                pauses.iter().all(|pause| *pause == expected),
                "{datagrams} in {runs}, {waited} % waited: {expected:?}, not {:?}",
                pauses.last()
            );
        }
    }

    #[test]
    fn who_has_the_processor_once_makes_no_pause_longer() {
        let origin = Instant::now();
        let mut moderation = Moderation::new(origin);
        let mut waited = Duration::ZERO;
        for turn in 1..=10_000u32 {
            // One and a half milliseconds in a tenth of a second.
            waited += if turn.is_multiple_of(5000) { Duration::from_micros(1500) } else { Duration::ZERO };
            let now = origin + Duration::from_micros(20) * turn;
            let pause = moderation.pause(&moved(turn.into(), turn.into()), || waited, now);
            assert_ne!(pause, Some(LONG_PAUSE), "turn {turn}");
        }
    }

    #[test]
    fn the_first_datagrams_after_a_silence_do_not_wait() {
        let origin = Instant::now();
        let mut moderation = Moderation::new(origin);
        for turn in 1..=1000 {
            let now = origin + Duration::from_micros(20) * turn;
            moderation.pause(&moved(turn.into(), turn.into()), Duration::default, now);
        }
        assert!(moderation.pause.is_some());
        let later = origin + Duration::from_millis(45);
        let pauses =
            [1001, 1002].map(|count| moderation.pause(&moved(count, count), Duration::default, later));
        assert_eq!(pauses, [None, None]);
    }

    #[test]
    fn threads_that_share_too_few_processors_wait() {
        let over = AtomicBool::new(false);
        let threads = 2 * thread::available_parallelism().unwrap().get();
        let waited = thread::scope(|scope| {
            for _ in 0..threads {
                scope.spawn(|| {
                    while !over.load(Ordering::Relaxed) {
                        std::hint::spin_loop();
                    }
                });
            }
            let counted = scope.spawn(|| {
                let processor = Processor::of_this_thread();
                let since = Instant::now();
                while processor.waited().is_zero() && since.elapsed() < Duration::from_secs(60) {
                    std::hint::spin_loop();
                }
                processor.waited()
            });
            let waited = counted.join().unwrap();
            over.store(true, Ordering::Relaxed);
            waited
        });
        assert!(!waited.is_zero());
    }
}
