//! How much a thread may work before it has to sleep.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How long before a moment a thread that waits for it is awake, at least: the kernel takes about as long to wake it.
const SHORTEST_AHEAD: Duration = Duration::from_micros(10);

/// How long at most: a virtual machine takes about as long to wake a processor that had nothing to do.
const LONGEST_AHEAD: Duration = Duration::from_micros(60);

/// The part of a wait that may be spent awake. One of a millisecond is long enough for a processor to fall asleep.
const AWAKE_PART: u32 = 16;

/// How long a thread works without sleeping. One of real-time priority that works for more than 95 % of a second is
/// kept from working for the rest of it (`sched_rt_runtime_us`): for fifty milliseconds, in which no packet moves.
const STAMINA: Duration = Duration::from_millis(1);

/// The sleep that makes up for [`STAMINA`].
const NAP: Duration = Duration::from_micros(70);

/// What falling asleep and waking up take, which is work.
const FALLING_ASLEEP: Duration = Duration::from_micros(4);

/// How long a thread has worked, less what it has slept since.
#[derive(Debug)]
pub(crate) struct Fatigue {
    /// Until it was woken.
    before: Duration,
    woken: Instant,
}

impl Fatigue {
    /// None yet.
    pub(crate) fn new() -> Self {
        Self { before: Duration::ZERO, woken: Instant::now() }
    }

    /// How long before a moment the thread should be awake, if there is so much time left until then. A tired one sleeps
    /// while it can, be it a little too long.
    pub(crate) fn time_ahead(&self, left: Duration) -> Duration {
        if self.amount() < STAMINA / 2 {
            (left / AWAKE_PART).clamp(SHORTEST_AHEAD, LONGEST_AHEAD)
        } else {
            Duration::ZERO
        }
    }

    /// Sleeps if it must be.
    pub(crate) fn nap_if_due(&mut self) {
        if self.amount() >= STAMINA {
            self.sleep(|| sleep(NAP));
        }
    }

    /// Recovers while `wait` sleeps.
    pub(crate) fn sleep<T>(&mut self, wait: impl FnOnce() -> T) -> T {
        let begin = Instant::now();
        let value = wait();
        let slept = begin.elapsed().saturating_sub(FALLING_ASLEEP);
        let worked = self.before + (begin - self.woken);
        // A nap recovers all of the stamina.
        let recovered = slept.as_secs_f64() / NAP.as_secs_f64();
        self.before = worked.saturating_sub(STAMINA.mul_f64(recovered));
        self.woken = Instant::now();
        value
    }

    fn amount(&self) -> Duration {
        self.before + self.woken.elapsed()
    }
}
