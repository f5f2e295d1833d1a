//! The smallest value of the last seconds.

use std::time::{Duration, Instant};

/// The smallest value in a sliding window, kept as one minimum per slot of time.
#[derive(Debug, Default)]
pub(crate) struct WindowedMin {
    slots: [Option<Duration>; MIN_SLOTS],
    /// The slot in use, and when it was opened.
    current: usize,
    opened: Option<Instant>,
}

impl WindowedMin {
    /// Takes a value in.
    pub(crate) fn update(&mut self, sample: Duration, now: Instant) {
        self.advance(now);
        let slot = &mut self.slots[self.current];
        *slot = Some(slot.map_or(sample, |least| least.min(sample)));
    }

    /// The smallest of the last 8 to 10 s.
    pub(crate) fn get(&self) -> Option<Duration> {
        self.slots.iter().flatten().min().copied()
    }

    /// Opens the slots that are due. After a silence longer than the window all have been emptied.
    fn advance(&mut self, now: Instant) {
        let opened = *self.opened.get_or_insert(now);
        let due = now.saturating_duration_since(opened).as_secs() / MIN_SLOT.as_secs();
        for _ in 0..due.min(MIN_SLOTS as u64) {
            self.current = (self.current + 1) % MIN_SLOTS;
            self.slots[self.current] = None;
        }
        if due > 0 {
            self.opened = Some(now);
        }
    }
}

/// Five slots of 2 s: the 10 s over which draft-ietf-ccwg-bbr keeps its minimum (`BBR.MinRTTFilterLen`).
const MIN_SLOTS: usize = 5;
const MIN_SLOT: Duration = Duration::from_secs(2);
