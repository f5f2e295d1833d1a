//! What arrived when.

use std::time::Duration;

use super::{cell, index, mbps, ms, sample};
use crate::results::Sample;

/// What a receiver has got, by intervals.
#[derive(Clone, Debug)]
pub struct Deliveries {
    interval: Duration,
    start: Duration,
    cells: Vec<Cell>,
    last: Option<Duration>,
    bytes: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cell {
    bytes: u64,
    /// The longest time without a delivery that ended here.
    gap: Duration,
}

impl Deliveries {
    /// An empty record of a stream that starts at `start`.
    #[must_use]
    pub const fn new(interval: Duration, start: Duration) -> Self {
        Self { interval, start, cells: Vec::new(), last: None, bytes: 0 }
    }

    /// Takes down that so many bytes arrived. `at` must not go backwards.
    pub fn add(&mut self, at: Duration, bytes: u64) {
        self.note_gap(at);
        cell(&mut self.cells, at, self.interval).bytes += bytes;
        self.bytes += bytes;
        self.last = Some(at);
    }

    /// Takes down that the stream was stopped: it had not ended, and nothing has come since the last delivery.
    pub fn stop(&mut self, at: Duration) {
        self.note_gap(at);
    }

    /// How many bytes arrived.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// When the last of them did; the start of the stream if none has.
    #[must_use]
    pub fn last(&self) -> Duration {
        self.last.unwrap_or(self.start)
    }

    /// The mean rate from the start of the stream to `end`, in Mbit/s.
    #[must_use]
    pub fn goodput_mbps(&self, end: Duration) -> f64 {
        mbps(self.bytes, end.saturating_sub(self.start))
    }

    /// The rate in each interval up to `end`, in Mbit/s.
    #[must_use]
    pub fn goodput_series_mbps(&self, end: Duration) -> Vec<Sample> {
        self.series(end, |cell| mbps(cell.bytes, self.interval))
    }

    /// The longest time between two deliveries, or from the last one until the stream was stopped.
    #[must_use]
    pub fn longest_gap_ms(&self) -> Option<f64> {
        self.last.map(|_| self.cells.iter().map(|cell| ms(cell.gap)).fold(0.0, f64::max))
    }

    /// The longest such time that ended in each interval up to `end`.
    #[must_use]
    pub fn gap_series_ms(&self, end: Duration) -> Vec<Sample> {
        self.series(end, |cell| ms(cell.gap))
    }

    fn note_gap(&mut self, at: Duration) {
        let Some(last) = self.last else { return };
        let gap = at.saturating_sub(last);
        let cell = cell(&mut self.cells, at, self.interval);
        cell.gap = cell.gap.max(gap);
    }

    fn series(&self, end: Duration, value: impl Fn(&Cell) -> f64) -> Vec<Sample> {
        let first = index(self.start, self.interval);
        let after_last = index(end.saturating_sub(Duration::from_nanos(1)), self.interval) + 1;
        let cell = |index| self.cells.get(index).copied().unwrap_or_default();
        (first..after_last.max(first))
            .map(|index| sample(index, self.interval, value(&cell(index))))
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn millis(number: u64) -> Duration {
        Duration::from_millis(number)
    }

    /// 1000 bytes a millisecond, which is 8 Mbit/s, from 1 ms to 1000 ms, with a pause after 500 ms.
    fn steady_with_pause(pause: u64) -> Deliveries {
        let mut deliveries = Deliveries::new(millis(100), millis(0));
        for at in (1..=500).chain(501 + pause..=1000) {
            deliveries.add(millis(at), 1000);
        }
        deliveries
    }

    #[test]
    fn a_steady_stream_has_its_rate_in_every_interval() {
        let deliveries = steady_with_pause(0);
        assert!((deliveries.goodput_mbps(millis(1000)) - 8.0).abs() < 1e-9);
        let series = deliveries.goodput_series_mbps(millis(1000));
        assert_eq!(series.len(), 10);
        assert!((series[0].at_s - 0.1).abs() < 1e-9 && (series[9].at_s - 1.0).abs() < 1e-9);
        // The delivery at 0 ms is missing.
        assert!(series[1..].iter().all(|sample| (sample.value - 8.0).abs() < 1e-9), "{series:?}");
    }

    #[test]
    fn a_stream_that_starts_later_has_no_earlier_intervals() {
        let mut deliveries = Deliveries::new(millis(100), millis(250));
        deliveries.add(millis(300), 1000);
        let series = deliveries.goodput_series_mbps(millis(500));
        let ends: Vec<_> = series.iter().map(|sample| (sample.at_s * 10.0).round()).collect();
        assert_eq!(ends, [3.0, 4.0, 5.0]);
        assert!((deliveries.goodput_mbps(millis(450)) - mbps(1000, millis(200))).abs() < 1e-9);
    }

    #[test]
    fn a_gap_counts_where_it_ends() {
        let deliveries = steady_with_pause(200);
        assert_eq!(deliveries.longest_gap_ms(), Some(201.0));
        let gaps: Vec<_> = deliveries.gap_series_ms(millis(1000)).iter().map(|it| it.value).collect();
        assert_eq!(gaps, [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 201.0, 1.0, 1.0]);
    }

    #[test]
    fn silence_before_the_stop_is_a_gap() {
        let mut deliveries = steady_with_pause(0);
        deliveries.stop(millis(1700));
        assert_eq!(deliveries.longest_gap_ms(), Some(700.0));
        assert_eq!(deliveries.last(), millis(1000));
    }

    #[test]
    fn where_nothing_arrived_there_are_no_gaps() {
        let mut deliveries = Deliveries::new(millis(100), millis(100));
        deliveries.stop(millis(300));
        assert_eq!(deliveries.longest_gap_ms(), None);
        assert_eq!(deliveries.goodput_series_mbps(millis(300)).len(), 2);
        assert!(deliveries.goodput_series_mbps(millis(50)).is_empty());
        assert!(deliveries.goodput_mbps(millis(100)).abs() < 1e-9);
    }
}
