//! What a link tells of itself.

use std::time::Duration;

/// Why a link has dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// By chance on the wire, as configured.
    Loss,
    /// The queue was full.
    QueueFull,
    /// The queue discipline thought it better.
    Discipline,
    /// It is longer than the MTU.
    TooLong,
    /// Nothing gets through.
    BlackHole,
}

/// What a link has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that entered.
    pub entered_packets: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Packets that arrived, copies counted once.
    pub carried_packets: u64,
    /// Their bytes.
    pub carried_bytes: u64,
    /// Packets dropped for each [`DropReason`], in their order.
    pub dropped: [u64; 5],
    /// Packets that arrived with a mark of the queue discipline.
    pub marked_packets: u64,
    /// The longest time in the queue.
    pub longest_queueing: Duration,
}

impl LinkCounters {
    /// Packets dropped for this reason.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().sum()
    }

    pub(super) fn entered(&mut self, len: usize) {
        self.entered_packets += 1;
        self.entered_bytes += len as u64;
    }

    pub(super) fn carried(&mut self, len: usize) {
        self.carried_packets += 1;
        self.carried_bytes += len as u64;
    }

    pub(super) fn dropped(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}
