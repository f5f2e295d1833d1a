//! Reno: add one segment each round trip, halve when one is lost (RFC 5681).

use std::time::Instant;

use super::{Acked, Controller, INITIAL_WINDOW, MIN_THRESHOLD};

/// A window and a threshold, in segments.
#[derive(Debug)]
pub(super) struct Reno {
    window: f64,
    threshold: f64,
    /// Both before the last loss.
    before: (f64, f64),
}

impl Reno {
    /// At the beginning.
    pub(super) fn new() -> Self {
        Self { window: INITIAL_WINDOW, threshold: f64::INFINITY, before: (INITIAL_WINDOW, f64::INFINITY) }
    }
}

impl Controller for Reno {
    fn on_acked(&mut self, acked: &Acked, _now: Instant) {
        if self.in_slow_start() {
            self.window = (self.window + acked.segments).min(self.threshold.max(self.window));
        } else {
            self.window += acked.segments / self.window;
        }
    }

    fn on_loss(&mut self, _now: Instant) {
        self.before = (self.window, self.threshold);
        self.threshold = (self.window / 2.0).max(MIN_THRESHOLD);
        self.window = self.threshold;
    }

    fn on_timeout(&mut self, now: Instant) {
        self.on_loss(now);
        self.window = 1.0;
    }

    fn undo(&mut self) {
        let (window, threshold) = self.before;
        self.window = self.window.max(window);
        self.threshold = self.threshold.max(threshold);
    }

    fn window(&self) -> f64 {
        self.window
    }

    fn in_slow_start(&self) -> bool {
        self.window < self.threshold
    }
}
