//! A sliding window of observations.

use std::time::Duration;

use super::histogram::Histogram;

/// Parts of a window. It slides by one of them at a time, so that it is a tenth too short at most.
const SLOTS: u32 = 10;

/// No window is shorter: its parts would be empty.
const SHORTEST: Duration = Duration::from_millis(100);

/// What was observed in a part of a window, or in all of it.
#[derive(Clone, Debug, Default)]
pub(super) struct Slot {
    pub(super) delays: Histogram,
    /// Delays beyond the limit, and those beyond what is well within it.
    pub(super) late: u64,
    pub(super) nearly_late: u64,
    pub(super) sent: u64,
    pub(super) lost: u64,
    pub(super) offered: u64,
    pub(super) delivered: u64,
}

/// The observations of the last while.
#[derive(Clone, Debug)]
pub(super) struct Window {
    /// A ring, by the number of the slot.
    slots: Vec<Slot>,
    length: Duration,
    first: Option<u64>,
    newest: u64,
    now: Duration,
}

impl Window {
    pub(super) fn new(length: Duration) -> Self {
        let length = length.max(SHORTEST) / SLOTS;
        Self {
            slots: vec![Slot::default(); SLOTS as usize],
            length,
            first: None,
            newest: 0,
            now: Duration::ZERO,
        }
    }

    /// The slot of a time, which becomes the present one.
    pub(super) fn at(&mut self, now: Duration) -> &mut Slot {
        self.advance(now);
        let place = place(self.newest);
        &mut self.slots[place]
    }

    /// Forgets what is out of the window at a time.
    pub(super) fn advance(&mut self, now: Duration) {
        self.now = self.now.max(now);
        let number = u64::try_from(self.now.as_nanos() / self.length.as_nanos()).unwrap_or(u64::MAX);
        let first = self.first.get_or_insert(number);
        self.newest = self.newest.max(*first);
        let passed = number.saturating_sub(self.newest);
        for step in 1..=passed.min(u64::from(SLOTS)) {
            self.slots[place(self.newest.wrapping_add(step))] = Slot::default();
        }
        if passed > u64::from(SLOTS) {
            self.slots.fill_with(Slot::default);
        }
        self.newest = number;
    }

    /// The latest time that it was told.
    pub(super) fn now(&self) -> Duration {
        self.now
    }

    /// Everything in the window.
    pub(super) fn total(&self) -> Slot {
        let mut total = Slot::default();
        for slot in &self.slots {
            total.delays.merge(&slot.delays);
            total.late += slot.late;
            total.nearly_late += slot.nearly_late;
            total.sent = total.sent.saturating_add(slot.sent);
            total.lost = total.lost.saturating_add(slot.lost);
            total.offered = total.offered.saturating_add(slot.offered);
            total.delivered = total.delivered.saturating_add(slot.delivered);
        }
        total
    }

    /// Whether it was observed for as long as the window is.
    pub(super) fn is_full(&self) -> bool {
        self.first.is_some_and(|first| self.newest - first >= u64::from(SLOTS))
    }

    /// How long the time is that it holds observations of: of the slot that is not over, what has passed.
    pub(super) fn covered(&self) -> Duration {
        let over = SLOTS - 1;
        let begun = self.length.saturating_mul(u32::try_from(self.newest).unwrap_or(u32::MAX));
        self.length * over + self.now.saturating_sub(begun).min(self.length)
    }
}

fn place(number: u64) -> usize {
    usize::try_from(number % u64::from(SLOTS)).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_older_than_the_window_is_forgotten() {
        let mut window = Window::new(Duration::from_secs(10));
        for second in 0..100 {
            window.at(Duration::from_secs(second)).sent += 1;
        }
        assert_eq!(window.total().sent, 10);
        window.advance(Duration::from_millis(108_999));
        assert_eq!(window.total().sent, 1);
        window.advance(Duration::from_secs(1000));
        assert_eq!(window.total().sent, 0);
    }

    #[test]
    fn time_does_not_go_back() {
        let mut window = Window::new(Duration::from_secs(10));
        window.at(Duration::from_secs(50)).sent += 1;
        window.at(Duration::from_secs(1)).sent += 1;
        assert_eq!((window.total().sent, window.now()), (2, Duration::from_secs(50)));
    }

    #[test]
    fn a_window_may_be_as_short_as_somebody_writes() {
        let mut window = Window::new(Duration::ZERO);
        window.at(Duration::MAX).sent += 1;
        assert_eq!(window.total().sent, 1);
    }
}
