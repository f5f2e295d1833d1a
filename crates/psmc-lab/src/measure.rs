//! What is taken down while traffic flows, and what comes of it.
//!
//! All times count from the start of the scenario. Nothing here has a clock, so that real and simulated traffic are
//! measured by the same rules.

mod deliveries;
mod latencies;
mod links;
mod paths;
mod stream;
mod tally;

use std::time::Duration;

use crate::results::Sample;

pub use deliveries::Deliveries;
pub use latencies::{Latencies, percentile};
pub use links::Carried;
pub use paths::{PathCounts, PathSeries};
pub use stream::Measured;
pub use tally::Tally;

/// So many bytes in so much time, in Mbit/s; 0 for no time.
#[must_use]
pub fn mbps(bytes: u64, time: Duration) -> f64 {
    if time.is_zero() { 0.0 } else { bytes as f64 * 8.0 / 1e6 / time.as_secs_f64() }
}

/// So many of so many, in percent; 0 of nothing.
#[must_use]
pub fn percent(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 * 100.0 / whole as f64 }
}

/// In milliseconds.
#[must_use]
pub fn ms(time: Duration) -> f64 {
    time.as_secs_f64() * 1e3
}

/// The number of the interval in which a moment lies.
fn index(at: Duration, interval: Duration) -> usize {
    // An interval is never 0, and there are never more of them than memory could hold.
    usize::try_from(at.as_nanos() / interval.as_nanos().max(1)).unwrap_or(usize::MAX)
}

/// The cell of a moment; the cells before it are made if need be.
fn cell<T: Clone + Default>(cells: &mut Vec<T>, at: Duration, interval: Duration) -> &mut T {
    let index = index(at, interval);
    if cells.len() <= index {
        cells.resize(index + 1, T::default());
    }
    &mut cells[index]
}

/// A value at the end of the interval with this number.
fn sample(index: usize, interval: Duration, value: f64) -> Sample {
    Sample { at_s: (index as f64 + 1.0) * interval.as_secs_f64(), value }
}
