//! What was sent, and what of it arrived.

use std::time::Duration;

use super::{cell, percent, sample};
use crate::results::Sample;

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
