//! What a stream has measured.

use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Duration;

use super::Live;
use super::{Clock, Job, TrafficError};
use crate::error_chain;
use crate::measure::{Deliveries, Latencies, Measured, Tally};
use crate::results::TrafficResult;
use crate::scenario::Traffic;

/// How a stream ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ending {
    /// All that was to be sent has arrived.
    Complete,
    /// It could have gone on.
    TimeUp,
}

/// What a stream has measured so far. All of it is used by a single thread.
pub(super) struct Record {
    clock: Clock,
    /// When the stream is over; what arrives later does not count.
    stop: Duration,
    live: Arc<Live>,
    deliveries: RefCell<Deliveries>,
    pub(super) tally: RefCell<Tally>,
    pub(super) latencies: RefCell<Latencies>,
    /// How many arrived after a later one, where that is looked at.
    pub(super) reordered: Cell<Option<u64>>,
}

impl Record {
    pub(super) fn new(job: &Job) -> Self {
        let interval = job.clock.interval();
        Self {
            clock: job.clock,
            stop: job.traffic.stop,
            live: Arc::clone(&job.live),
            deliveries: RefCell::new(Deliveries::new(interval, job.traffic.start)),
            tally: RefCell::new(Tally::new(interval)),
            latencies: RefCell::default(),
            reordered: Cell::new(None),
        }
    }

    /// The time.
    pub(super) fn now(&self) -> Duration {
        self.clock.now()
    }

    /// Takes down that so many bytes have just arrived.
    pub(super) fn delivered(&self, bytes: usize) {
        let now = self.clock.now();
        if now <= self.stop {
            self.deliveries.borrow_mut().add(now, bytes as u64);
            self.live.add_arrived(bytes as u64);
        }
    }

    /// Takes down that what was asked at `asked_at` was answered just now.
    pub(super) fn answered(&self, asked_at: Duration) {
        let now = self.clock.now();
        let latency = now.saturating_sub(asked_at);
        self.latencies.borrow_mut().add(now, latency);
        self.live.set_latency(latency);
    }

    /// How many bytes have arrived.
    pub(super) fn bytes(&self) -> u64 {
        self.deliveries.borrow().bytes()
    }

    /// The result of a stream that ended in this way.
    pub(super) fn into_result(
        self,
        traffic: &Traffic,
        outcome: Result<Ending, TrafficError>,
    ) -> TrafficResult {
        let deliveries = self.deliveries.into_inner();
        let end = match outcome {
            Ok(Ending::Complete) => deliveries.last(),
            Ok(Ending::TimeUp) => self.stop,
            Err(_) => self.clock.now().clamp(deliveries.last(), self.stop),
        };
        let measured = Measured {
            deliveries,
            tally: self.tally.into_inner(),
            latencies: self.latencies.into_inner(),
            reordered: self.reordered.get(),
        };
        measured.into_result(traffic, end, outcome.err().map(|error| error_chain(&error)))
    }
}
