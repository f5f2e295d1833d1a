//! Tests of what happens in real time, on machines where that has gaps.

use std::cell::Cell;
use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::stalls::StallWatch;

/// How often a test is done at most.
const ATTEMPTS: usize = 3;

/// The part of the time for which a machine may stand still in a test whose failure counts.
const LITTLE: f64 = 0.05;

/// Who uses the machine: one test that measures, or any number of others.
static MACHINE: RwLock<()> = RwLock::new(());

thread_local! {
    static MEASURES: Cell<bool> = const { Cell::new(false) };
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

/// Waits for a turn on the machine: alone in a test that is done [steadily], which measures; else beside others.
pub fn turn() -> Turn {
    if MEASURES.get() {
        return alone();
    }
    // A test that failed leaves nothing behind.
    Turn::Beside(MACHINE.read().unwrap_or_else(PoisonError::into_inner))
}

/// Waits until no other test has a turn.
pub fn alone() -> Turn {
    Turn::Alone(MACHINE.write().unwrap_or_else(PoisonError::into_inner))
}

/// Does a test, and does it again if it fails while the machine stands still.
///
/// # Panics
/// If it fails on a machine that runs, or every time.
pub fn steadily(test: impl Fn() + RefUnwindSafe) {
    MEASURES.set(true);
    for _ in 1..ATTEMPTS {
        let watch = StallWatch::start().expect("a test may have a thread");
        let Err(failure) = catch_unwind(&test) else { return };
        let stalls = watch.finish();
        if stalls.share < LITTLE {
            resume_unwind(failure);
        }
        eprintln!("--- the machine stood still: {stalls:?}; once more");
    }
    test();
}
