//! What happens when, in the order of time.

use std::collections::VecDeque;

use crate::link::Nanos;

/// Things that happen at a time; those at the same time in the order in which they came. Most come in the order of time,
/// or nearly so, which is what it is fast at.
#[derive(Debug)]
pub(super) struct Timetable<T>(VecDeque<(Nanos, T)>);

impl<T> Default for Timetable<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Timetable<T> {
    /// Adds a thing.
    pub(super) fn insert(&mut self, at: Nanos, thing: T) {
        if self.0.back().is_none_or(|(last, _)| *last <= at) {
            return self.0.push_back((at, thing));
        }
        let index = self.0.partition_point(|(other, _)| *other <= at);
        self.0.insert(index, (at, thing));
    }

    /// When the next thing happens.
    pub(super) fn next(&self) -> Option<Nanos> {
        self.0.front().map(|(at, _)| *at)
    }

    /// The next thing that happens by `now`, and when.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<(Nanos, T)> {
        if self.next()? > now {
            return None;
        }
        self.0.pop_front()
    }
}
