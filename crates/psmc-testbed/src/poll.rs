//! Waiting for what must come.

use std::thread::sleep;
use std::time::{Duration, Instant};

/// How often it is asked.
const INTERVAL: Duration = Duration::from_millis(5);

/// Asks until there is an answer, and returns it.
///
/// # Panics
/// When there is none within `patience`; `what` says what was waited for.
pub fn wait_for<T>(what: &str, patience: Duration, mut ask: impl FnMut() -> Option<T>) -> T {
    let started = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(started.elapsed() < patience, "not within {patience:?}: {what}");
        sleep(INTERVAL);
    }
}
