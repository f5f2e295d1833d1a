//! What can be seen of a stream while it runs.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// Written by the thread of the stream, read by whoever watches.
#[derive(Debug, Default)]
pub(super) struct Live {
    /// Bytes of payload.
    arrived: AtomicU64,
    /// In nanoseconds; 0 if there is none yet.
    latency: AtomicU64,
}

impl Live {
    pub(super) fn add_arrived(&self, bytes: u64) {
        self.arrived.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn arrived(&self) -> u64 {
        self.arrived.load(Ordering::Relaxed)
    }

    pub(super) fn set_latency(&self, latency: Duration) {
        let nanos = u64::try_from(latency.as_nanos()).unwrap_or(u64::MAX);
        self.latency.store(nanos, Ordering::Relaxed);
    }

    pub(super) fn latency(&self) -> Option<Duration> {
        let nanos = self.latency.load(Ordering::Relaxed);
        (nanos > 0).then(|| Duration::from_nanos(nanos))
    }
}
