//! Random early detection (Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993).

use super::chance::Dice;
use super::config::Probability;

/// The length of a typical packet. In an idle time the average falls as if such packets had found the queue empty;
/// the paper leaves the length open, and Linux suggests this one.
const TYPICAL_PACKET_BYTES: f64 = 1000.0;

/// Drops the more packets the longer the queue is on average.
#[derive(Debug)]
pub(super) struct Red {
    min_bytes: f64,
    max_bytes: f64,
    max_probability: f64,
    weight: f64,
    /// In bytes.
    average: f64,
    /// Packets since the last one that was dropped or marked, or since the average was below the minimum.
    passed: u32,
}

impl Red {
    /// Nothing happens while the average is below the first of these bytes; everything above the second.
    pub(super) fn new([min, max]: [usize; 2], max_probability: Probability, weight: f64) -> Self {
        Self {
            min_bytes: min as f64,
            max_bytes: max as f64,
            max_probability: max_probability.get(),
            weight,
            average: 0.0,
            passed: 0,
        }
    }

    /// Whether a packet that meets a queue of so many bytes shall be dropped or marked.
    ///
    /// `idle_capacity` are the bytes that could have been sent since the transmitter has nothing to do, if it has
    /// not.
    pub(super) fn signals(
        &mut self,
        queue_bytes: usize,
        idle_capacity: Option<u64>,
        dice: &mut Dice,
    ) -> bool {
        self.update_average(queue_bytes, idle_capacity);
        let signals = if self.average < self.min_bytes {
            self.passed = 0;
            return false;
        } else if self.average < self.max_bytes {
            dice.happens(self.probability())
        } else {
            true
        };
        self.passed = if signals { 0 } else { self.passed.saturating_add(1) };
        signals
    }

    fn update_average(&mut self, queue_bytes: usize, idle_capacity: Option<u64>) {
        match idle_capacity {
            Some(bytes) => self.average *= (1.0 - self.weight).powf(bytes as f64 / TYPICAL_PACKET_BYTES),
            None => self.average += self.weight * (queue_bytes as f64 - self.average),
        }
    }

    /// The paper's p_a: it makes the number of packets between two signals uniformly, not geometrically distributed.
    fn probability(&self) -> Probability {
        let above = (self.average - self.min_bytes) / (self.max_bytes - self.min_bytes);
        let base = self.max_probability * above;
        let remaining = 1.0 - f64::from(self.passed) * base;
        Probability::new(base / remaining).unwrap_or(Probability::ONE)
    }
}
