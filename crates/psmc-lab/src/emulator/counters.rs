//! What the emulator's thread tells others: numbers that one thread writes and any may read, without a lock.

use std::array;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use psmc_sim::link::LinkCounters;

use super::health::{BUCKETS, Health, Lateness, bucket_of};

/// All numbers of a link.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// From the first end to the second, and back.
    pub(super) directions: [Direction; 2],
    /// Whether the thread goes before others.
    pub(super) preferred: AtomicBool,
    /// Why the capture at each end has ended early, if it has.
    pub(super) capture_failures: [OnceLock<String>; 2],
}

/// The numbers of one direction.
#[derive(Debug, Default)]
pub(super) struct Direction {
    link: [Number; 11],
    lateness: [Number; BUCKETS],
    /// Frames that the kernel could not keep until they were read.
    pub(super) overrun: Number,
    /// Frames for which there was no room.
    pub(super) unbuffered: Number,
    /// Frames that the far interface did not take.
    pub(super) refused: Number,
    /// Frames that are in no capture.
    pub(super) unlogged: Number,
}

/// A number with one writer.
#[derive(Debug, Default)]
pub(super) struct Number(AtomicU64);

impl Board {
    pub(super) fn counters(&self) -> [LinkCounters; 2] {
        self.directions.each_ref().map(Direction::counters)
    }

    pub(super) fn health(&self) -> Health {
        let sum = |number: fn(&Direction) -> &Number| {
            self.directions.iter().map(|direction| number(direction).get()).sum()
        };
        Health {
            preferred: self.preferred.load(Ordering::Relaxed),
            lateness: Lateness(array::from_fn(|i| {
                self.directions.iter().map(|direction| direction.lateness[i].get()).sum()
            })),
            overrun: sum(|direction| &direction.overrun),
            unbuffered: sum(|direction| &direction.unbuffered),
            refused: sum(|direction| &direction.refused),
            unlogged: sum(|direction| &direction.unlogged),
            capture_failures: self.capture_failures.iter().filter_map(OnceLock::get).cloned().collect(),
        }
    }
}

impl Direction {
    /// Makes the counters of the link public.
    pub(super) fn publish(&self, counters: &LinkCounters) {
        let [lost, full, discipline, long, hole] = counters.dropped;
        let longest = u64::try_from(counters.longest_queueing.as_nanos()).unwrap_or(u64::MAX);
        let values = [
            counters.entered_packets,
            counters.entered_bytes,
            counters.carried_packets,
            counters.carried_bytes,
            lost,
            full,
            discipline,
            long,
            hole,
            counters.marked_packets,
            longest,
        ];
        for (number, value) in self.link.iter().zip(values) {
            number.set(value);
        }
    }

    /// Counts a frame that was sent so long after it should have been.
    pub(super) fn sent_late(&self, by: Duration) {
        self.lateness[bucket_of(by)].add(1);
    }

    fn counters(&self) -> LinkCounters {
        let [
            entered_packets,
            entered_bytes,
            carried_packets,
            carried_bytes,
            lost,
            full,
            discipline,
            long,
            hole,
            marked_packets,
            longest,
        ] = self.link.each_ref().map(Number::get);
        LinkCounters {
            entered_packets,
            entered_bytes,
            carried_packets,
            carried_bytes,
            dropped: [lost, full, discipline, long, hole],
            marked_packets,
            longest_queueing: Duration::from_nanos(longest),
        }
    }
}

impl Number {
    pub(super) fn add(&self, count: u64) {
        self.set(self.get() + count);
    }

    fn set(&self, value: u64) {
        // Nothing else is published by it, so no order is needed.
        self.0.store(value, Ordering::Relaxed);
    }

    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_published_is_read() {
        let board = Board::default();
        let counters = LinkCounters {
            entered_packets: 1,
            entered_bytes: 2,
            carried_packets: 3,
            carried_bytes: 4,
            dropped: [5, 6, 7, 8, 9],
            marked_packets: 10,
            longest_queueing: Duration::from_micros(11),
        };
        board.directions[1].publish(&counters);
        assert_eq!(board.counters(), [LinkCounters::default(), counters]);
    }
}
