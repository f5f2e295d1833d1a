//! What the far end of a network, or a router in it, tells of what it has dropped.

use std::time::Instant;

use super::aggregate::{Aggregate, Facts};
use super::sketch::Sketch;
use super::{MAX_WATCHED, MIN_DROPS, SHARE};

/// What was seen of an aggregate since the last report, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Which.
    pub aggregate: Aggregate,
    /// Arrived.
    pub delivered: u64,
    /// Dropped by congestion.
    pub dropped: u64,
    /// Dropped because of a limit of whoever reports.
    pub shaped: u64,
}

/// A report. Those whose drops are few are not in it by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// The heaviest, at most [`MAX_WATCHED`].
    pub entries: Vec<Entry>,
    /// Bytes of all the others that arrived.
    pub delivered: u64,
    /// Bytes of all the others that were dropped.
    pub dropped: u64,
}

/// Counts what arrives and what is dropped, for reports. One is due each round trip, and only while something is dropped.
#[derive(Debug)]
pub struct Witness {
    sketch: Sketch,
    report: Report,
    has_dropped: bool,
}

impl Witness {
    /// Nothing seen yet. The secret keeps others from hiding behind each other.
    #[must_use]
    pub fn new(secret: u64) -> Self {
        Self { sketch: Sketch::new(secret), report: Report::default(), has_dropped: false }
    }

    /// A packet has arrived.
    pub fn on_delivered(&mut self, packet: &Facts, bytes: usize) {
        match self.entry(packet) {
            Some(entry) => entry.delivered += bytes as u64,
            None => self.report.delivered += bytes as u64,
        }
    }

    /// A packet was dropped by congestion.
    pub fn on_dropped(&mut self, packet: &Facts, bytes: usize) {
        self.has_dropped = true;
        self.sketch.add(packet, bytes as u64);
        match self.entry(packet) {
            Some(entry) => entry.dropped += bytes as u64,
            None => self.report.dropped += bytes as u64,
        }
    }

    /// A packet was dropped because of a limit of this place.
    pub fn on_shaped(&mut self, packet: &Facts, bytes: usize) {
        self.has_dropped = true;
        self.sketch.add(packet, bytes as u64);
        match self.entry(packet) {
            Some(entry) => entry.shaped += bytes as u64,
            None => self.report.dropped += bytes as u64,
        }
    }

    /// What was seen since the last report, if anything was dropped; begins a new one. An aggregate that has become heavy is
    /// counted by name from then on.
    pub fn take(&mut self, now: Instant) -> Option<Report> {
        let known =
            self.report.entries.iter().filter(|entry| entry.delivered + entry.dropped + entry.shaped > 0);
        let mut next: Vec<_> = known.map(|entry| entry.aggregate).collect();
        if self.sketch.packets() >= MIN_DROPS {
            for heavy in self.sketch.heavy(SHARE) {
                if next.iter().any(|known| *known == heavy || heavy.is_part_of(known)) {
                    continue;
                }
                next.retain(|known| !known.is_part_of(&heavy));
                next.push(heavy);
            }
        }
        // The newest are the heaviest.
        next.drain(..next.len().saturating_sub(MAX_WATCHED));
        next.sort_by_key(|aggregate| std::cmp::Reverse(aggregate.closeness()));
        self.sketch.forget(now);
        let empty = |aggregate| Entry { aggregate, delivered: 0, dropped: 0, shaped: 0 };
        let fresh = Report { entries: next.into_iter().map(empty).collect(), ..Report::default() };
        let report = std::mem::replace(&mut self.report, fresh);
        std::mem::take(&mut self.has_dropped).then_some(report)
    }

    fn entry(&mut self, packet: &Facts) -> Option<&mut Entry> {
        self.report.entries.iter_mut().find(|entry| entry.aggregate.takes(packet))
    }
}
