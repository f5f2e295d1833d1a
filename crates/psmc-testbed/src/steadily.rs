//! Tests of what happens in real time, on machines where that has gaps.
//!
//! A test is done [`steadily`] if what it asserts depends on when its programs get the processor. It names which kind that is:
//!
//! | it measures | its bound | which a machine breaks that stands still |
//! |---|---|---|
//! | [`Measured::Rate`] | bytes or packets in a time, at the least, or the ratio of two such rates | nothing is sent meanwhile, and what is late may be sent at once |
//! | [`Measured::Time`] | how long something takes, or how long nothing comes, at the most | it takes as much longer |
//! | [`Measured::Loss`] | of packets, none or few may be lost | queues run over, and a path that is not heard of for two round trips counts as dead |
//!
//! A processor that never rests is another cause: what is measured then is how fast it is. So a failure does not count either if
//! the processors had next to no time left.
//!
//! A test of anything else (what is answered, which paths there are, what ends) waits as long as it takes, and needs none of this.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};
use std::time::Duration;

use crate::idle::Ticks;
use crate::stalls::StallWatch;

/// How often a test is done at most.
const ATTEMPTS: usize = 3;

/// The part of the time for which a machine may stand still in a test whose failure counts.
const LITTLE: f64 = 0.05;

/// For how long a machine may stand still at once in a test whose failure counts: queues run over and paths are given up in less.
const LONG: Duration = Duration::from_millis(50);

/// The part of the processors' time that is left over, at the least, in a test whose failure counts.
const SPARE: f64 = 0.1;

/// Who uses the machine: one test that takes all of it, or any number of others.
static MACHINE: RwLock<()> = RwLock::new(());

thread_local! {
    static MEASURED: Cell<Option<Measured>> = const { Cell::new(None) };
}

/// What of a test depends on how steadily the machine runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measured {
    /// How much gets through. Most such tests send as fast as the machine can.
    Rate,
    /// How soon, or for how long.
    Time,
    /// How little is lost.
    Loss,
}

/// A test's turn on the machine, for as long as this is kept. One test takes no second turn meanwhile.
#[derive(Debug)]
#[must_use = "the turn ends with it"]
pub enum Turn {
    /// Others run, too.
    Beside(RwLockReadGuard<'static, ()>),
    /// No other does.
    Alone(RwLockWriteGuard<'static, ()>),
}

/// Waits for a turn on the machine: alone in a test that measures a [rate](Measured::Rate), which leaves nothing to others;
/// else beside others.
pub fn turn() -> Turn {
    // A test that failed leaves nothing behind.
    if MEASURED.get() == Some(Measured::Rate) {
        Turn::Alone(MACHINE.write().unwrap_or_else(PoisonError::into_inner))
    } else {
        Turn::Beside(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Does a test, and does it again if it fails while the machine stands still or has no time left.
///
/// # Panics
/// If it fails on a machine that runs and has time to spare, or every time.
pub fn steadily(measured: Measured, test: impl Fn() + RefUnwindSafe) {
    MEASURED.set(Some(measured));
    if let Err(failure) = attempt(|| catch_unwind(&test)) {
        resume_unwind(failure);
    }
}

/// The same for what says by itself whether it has failed.
///
/// # Errors
/// The failure on a machine that runs and has time to spare, or the last one.
///
/// # Panics
/// If the system has no thread left to watch the machine.
pub fn attempt<T, E>(test: impl Fn() -> Result<T, E>) -> Result<T, E> {
    for _ in 1..ATTEMPTS {
        let (watch, before) = (StallWatch::start().expect("a test may have a thread"), Ticks::now());
        let end = test();
        let stalls = watch.finish();
        let idle = before.zip(Ticks::now()).map_or(1.0, |(before, after)| after.idle_since(before));
        if end.is_ok() || stalls.share < LITTLE && stalls.longest < LONG && idle >= SPARE {
            return end;
        }
        eprintln!(
            "--- the machine was idle for {idle:.2} of the time, and stood still: {stalls:?}; once more"
        );
    }
    test()
}
