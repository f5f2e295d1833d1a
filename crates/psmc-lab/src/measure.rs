//! What is taken down while traffic flows, and what comes of it.
//!
//! All times count from the start of the scenario. Nothing here has a clock, so that real and simulated traffic are
//! measured by the same rules.

mod deliveries;
mod latencies;
mod links;

use std::time::Duration;

use crate::results::{Sample, TrafficResult};
use crate::scenario::Traffic;

pub use deliveries::Deliveries;
pub use latencies::{Latencies, percentile};
pub use links::{Carried, PathCounts, PathSeries};

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

/// What a stream has measured.
#[derive(Clone, Debug)]
pub struct Measured {
    /// What arrived.
    pub deliveries: Deliveries,
    /// What of that which was sent arrived.
    pub tally: Tally,
    /// How long it took.
    pub latencies: Latencies,
    /// How many arrived after a later one, where that is looked at.
    pub reordered: Option<u64>,
}

impl Measured {
    /// The result of a stream that ended at `end`, with an error if it should not have.
    #[must_use]
    pub fn into_result(self, traffic: &Traffic, end: Duration, error: Option<String>) -> TrafficResult {
        let Self { mut deliveries, tally, latencies, reordered } = self;
        deliveries.stop(end);
        TrafficResult {
            name: traffic.name.clone(),
            kind: traffic.kind.name().to_owned(),
            bytes: deliveries.bytes(),
            goodput_mbps: deliveries.goodput_mbps(end),
            goodput_series_mbps: deliveries.goodput_series_mbps(end),
            longest_gap_ms: deliveries.longest_gap_ms(),
            gap_series_ms: deliveries.gap_series_ms(end),
            sent: tally.loss_percent().map(|_| tally.total_sent()),
            loss_percent: tally.loss_percent(),
            loss_series_percent: tally.loss_series_percent(),
            reordered_percent: reordered.map(|count| percent(count, tally.total_arrived())),
            latency: latencies.distribution(),
            error,
        }
    }
}

/// Counts of what was sent and what of it arrived, by the interval of sending.
#[derive(Clone, Debug)]
pub struct Tally {
    interval: Duration,
    cells: Vec<Cell>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    sent: u64,
    arrived: u64,
}

impl Tally {
    /// Nothing sent so far.
    #[must_use]
    pub const fn new(interval: Duration) -> Self {
        Self { interval, cells: Vec::new() }
    }

    /// Takes down that something was sent.
    pub fn sent(&mut self, at: Duration) {
        cell(&mut self.cells, at, self.interval).sent += 1;
    }

    /// Takes down that what was sent at `sent_at` has arrived, or was answered. To be called once for each.
    pub fn arrived(&mut self, sent_at: Duration) {
        cell(&mut self.cells, sent_at, self.interval).arrived += 1;
    }

    /// Adds the counts of another record with the same intervals.
    pub fn merge(&mut self, other: &Self) {
        if self.cells.len() < other.cells.len() {
            self.cells.resize(other.cells.len(), Cell::default());
        }
        for (mine, theirs) in self.cells.iter_mut().zip(&other.cells) {
            mine.sent += theirs.sent;
            mine.arrived += theirs.arrived;
        }
    }

    /// How many were sent.
    #[must_use]
    pub fn total_sent(&self) -> u64 {
        self.cells.iter().map(|cell| cell.sent).sum()
    }

    /// How many arrived.
    #[must_use]
    pub fn total_arrived(&self) -> u64 {
        self.cells.iter().map(|cell| cell.arrived).sum()
    }

    /// How many did not arrive, in percent; `None` if nothing was sent.
    #[must_use]
    pub fn loss_percent(&self) -> Option<f64> {
        let sent = self.total_sent();
        (sent > 0).then(|| percent(sent.saturating_sub(self.total_arrived()), sent))
    }

    /// The same for each interval in which anything was sent.
    #[must_use]
    pub fn loss_series_percent(&self) -> Vec<Sample> {
        let busy = self.cells.iter().enumerate().filter(|(_, cell)| cell.sent > 0);
        let loss = |cell: &Cell| percent(cell.sent.saturating_sub(cell.arrived), cell.sent);
        busy.map(|(index, cell)| sample(index, self.interval, loss(cell))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INTERVAL: Duration = Duration::from_millis(100);

    #[test]
    fn what_was_sent_and_did_not_arrive_is_lost() {
        let (mut sender, mut receiver) = (Tally::new(INTERVAL), Tally::new(INTERVAL));
        for at in (0..1000).step_by(10).filter(|at| !(200..300).contains(at)).map(Duration::from_millis) {
            sender.sent(at);
            if at >= INTERVAL {
                receiver.arrived(at);
            }
        }
        receiver.merge(&sender);
        assert_eq!((receiver.total_sent(), receiver.total_arrived()), (90, 80));
        assert!((receiver.loss_percent().unwrap() - 100.0 / 9.0).abs() < 1e-9);
        let series = receiver.loss_series_percent();
        let losses: Vec<_> = series.iter().map(|sample| sample.value).collect();
        assert_eq!(losses, [100.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]);
        assert!((series[2].at_s - 0.4).abs() < 1e-9, "the third interval has no figure");
    }

    #[test]
    fn nothing_sent_is_nothing_lost() {
        let tally = Tally::new(INTERVAL);
        assert_eq!(tally.loss_percent(), None);
        assert!(tally.loss_series_percent().is_empty());
    }
}
