//! Round trips that somebody wants to know: each is that of a challenge of its own, and not of what the path happens to send.
//!
//! They say nothing to the path itself: whether it works is judged by its own challenges, so asking often changes nothing.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// How many may be open at a time: at ten a second, those of six seconds, which is longer than any path takes.
const MAX_OPEN: usize = 64;

/// A measurement.
#[derive(Clone, Copy, Debug)]
struct Measurement {
    number: u64,
    /// The challenge that it waits for, and when that left; `None` until one leaves.
    sent: Option<([u8; 8], Instant)>,
}

/// The measurements of a path that are not answered, oldest first.
#[derive(Debug, Default)]
pub(crate) struct Measurements {
    open: VecDeque<Measurement>,
    /// How many of them, the last ones, wait for a challenge to leave.
    unsent: usize,
}

impl Measurements {
    /// Begins one. The oldest that has no answer gives way if there are too many.
    pub(crate) fn begin(&mut self, number: u64) {
        if self.open.len() >= MAX_OPEN {
            self.open.pop_front();
        }
        self.open.push_back(Measurement { number, sent: None });
        self.unsent = (self.unsent + 1).min(self.open.len());
    }

    /// Whether a challenge should leave.
    pub(crate) fn are_due(&self) -> bool {
        self.unsent > 0
    }

    /// A challenge leaves: it serves all that wait for one.
    pub(crate) fn on_sent(&mut self, token: [u8; 8], now: Instant) {
        let waiting = self.open.iter_mut().rev().take(std::mem::take(&mut self.unsent));
        waiting.for_each(|measurement| measurement.sent = Some((token, now)));
    }

    /// An answer has arrived. Returns the measurements that it ends, by their numbers, and the round trip.
    pub(crate) fn on_answer(&mut self, token: [u8; 8], now: Instant) -> Vec<(u64, Duration)> {
        let mut ended = Vec::new();
        self.open.retain(|&Measurement { number, sent }| {
            let sent_at = sent.filter(|(sent, _)| *sent == token).map(|(_, at)| at);
            ended.extend(sent_at.map(|at| (number, now.saturating_duration_since(at))));
            sent_at.is_none()
        });
        ended
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_ends_those_that_wait_for_it_and_no_others() {
        let (start, after) = (Instant::now(), Duration::from_millis);
        let mut measurements = Measurements::default();
        measurements.begin(1);
        measurements.begin(2);
        assert!(measurements.are_due());
        measurements.on_sent([7; 8], start);
        assert!(!measurements.are_due());
        measurements.begin(3);
        measurements.on_sent([8; 8], start + after(5));
        measurements.begin(4);

        assert_eq!(measurements.on_answer([9; 8], start + after(9)), []);
        let ended = measurements.on_answer([7; 8], start + after(10));
        assert_eq!(ended, [(1, after(10)), (2, after(10))]);
        assert_eq!(measurements.on_answer([7; 8], start + after(11)), [], "it is answered once");
        assert_eq!(measurements.on_answer([8; 8], start + after(12)), [(3, after(7))]);
        assert!(measurements.are_due(), "the fourth still waits");
    }

    #[test]
    fn the_oldest_gives_way() {
        let mut measurements = Measurements::default();
        for number in 0..=MAX_OPEN as u64 {
            measurements.begin(number);
        }
        let now = Instant::now();
        measurements.on_sent([1; 8], now);
        let ended = measurements.on_answer([1; 8], now);
        assert_eq!((ended.len(), ended[0].0), (MAX_OPEN, 1));
    }
}
