//! Tests of what happens in real time, on machines where that has gaps.

use std::panic::{RefUnwindSafe, catch_unwind, resume_unwind};

use crate::stalls::StallWatch;

/// How often a test is done at most.
const ATTEMPTS: usize = 3;

/// The part of the time for which a machine may stand still in a test whose failure counts.
const LITTLE: f64 = 0.05;

/// Does a test, and does it again if it fails while the machine stands still.
///
/// # Panics
/// If it fails on a machine that runs, or every time.
pub fn steadily(test: impl Fn() + RefUnwindSafe) {
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
