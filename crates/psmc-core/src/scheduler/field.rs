//! The paths as they stand for the packets that are sent at one moment.

use std::time::{Duration, Instant};

use super::Waiting;
use crate::path::{Allowance, Forecast};
use crate::roster::{Places, Roster, Soonest};

/// When a packet would arrive on each path, in order.
///
/// What was found out is kept for the next packet that is asked about, until a packet has another size. A path keeps its
/// place as long as it is not touched; one with a queue, or without room, only for a moment. So a packet costs O(log n),
/// and those of another moment as much for each path that is busy.
#[derive(Debug, Default)]
pub(super) struct Field {
    known: Vec<(Forecast, Allowance)>,
    question: Option<Question>,
    /// After how many nanoseconds it arrives on candidates that have room, and on those that have none.
    open: Soonest<u64>,
    full: Soonest<u64>,
    /// Those without room.
    crowded: Places,
    /// Those whose places change with time, and for which moment they have been found.
    moving: Places,
    /// Those that must be looked at anew at each moment.
    fading: Places,
    asked_at: Option<Instant>,
    bounds: Option<Bounds>,
    under_way: u64,
}

/// What the order depends on beside the paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Question {
    candidates: Places,
    bytes: usize,
    /// Whether the packet has been on a path before.
    again: bool,
}

/// What is true of all candidates.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// The shortest propagation, and whose that is.
    pub(super) nearest: Duration,
    pub(super) nearest_path: usize,
    /// The largest rate, bytes per second.
    pub(super) fastest: u64,
}

impl Field {
    /// Asks about a packet; all that follows is an answer to that.
    pub(super) fn ask(&mut self, paths: &mut Roster, candidates: Places, packet: &Waiting<'_>, now: Instant) {
        let question = Question { candidates, bytes: packet.bytes(), again: packet.is_again() };
        let is_later = self.asked_at.replace(now) != Some(now);
        let [faded, moved] = if is_later { [self.fading, self.moving] } else { [Places::default(); 2] };
        let changed = paths.take_changed().with(faded);
        self.look(paths, changed, now);
        if self.question == Some(question) {
            for index in changed.and(candidates).with(moved).iter() {
                let (arrival, has_room) = self.place(index, &question, now);
                self.open.set(index, Some(arrival).filter(|_| has_room));
                self.full.set(index, Some(arrival).filter(|_| !has_room));
            }
        } else {
            self.place_all(&question, now);
        }
    }

    /// The path with room on which the packet arrives first.
    pub(super) fn best(&self) -> Option<usize> {
        self.open.next_due(0, self.open.first()?)
    }

    /// After how many nanoseconds the packet arrives on the first of those without room, if there is any.
    pub(super) fn first_crowded(&self) -> Option<u64> {
        self.full.first()
    }

    /// The path without room on which the packet arrives earlier than on all that have some, if it will have room in time:
    /// `patience` says how long a path of so many bytes per second is waited for.
    pub(super) fn first_but_for_room(
        &self,
        bytes: usize,
        patience: impl Fn(u64) -> Duration,
        now: Instant,
    ) -> Option<usize> {
        let first = self.full.first()?;
        let is_first = self.open.first().is_none_or(|open| first < open);
        let index = self.full.next_due(0, first).filter(|_| is_first)?;
        let (forecast, allowance) = &self.known[index];
        allowance.admits(bytes, now + patience(forecast.rate)).then_some(index)
    }

    /// The paths without room.
    pub(super) fn crowded(&self) -> impl Iterator<Item = &Forecast> {
        self.crowded.iter().map(|index| self.forecast(index))
    }

    /// Bytes that wait in paths, or are in flight.
    pub(super) fn under_way(&self) -> u64 {
        self.under_way
    }

    /// What is known of a path.
    pub(super) fn forecast(&self, index: usize) -> &Forecast {
        &self.known[index].0
    }

    /// Whether a candidate has room.
    pub(super) fn is_open(&self, index: usize) -> bool {
        !self.crowded.contains(index)
    }

    /// What is true of all candidates.
    pub(super) fn bounds(&mut self, candidates: Places) -> Bounds {
        let known = &self.known;
        *self.bounds.get_or_insert_with(|| {
            let propagations = candidates.iter().map(|index| (known[index].0.propagation, index));
            let (nearest, nearest_path) = propagations.min().unwrap_or_default();
            let rates = candidates.iter().map(|index| known[index].0.rate);
            Bounds { nearest, nearest_path, fastest: rates.max().unwrap_or_default() }
        })
    }

    /// Learns what is new of these paths.
    fn look(&mut self, paths: &Roster, changed: Places, now: Instant) {
        let look = |index: usize| (paths[index].forecast(now), paths[index].allowance());
        if self.known.len() != paths.len() {
            self.known = (0..paths.len()).map(look).collect();
            self.under_way = self.known.iter().map(|(forecast, _)| forecast.under_way).sum();
            (self.open, self.full) = (Soonest::new(paths.len()), Soonest::new(paths.len()));
            (self.question, self.bounds) = (None, None);
            let fades = |index: &usize| self.forecast(*index).fades;
            self.fading = (0..paths.len()).filter(fades).collect();
            return;
        }
        for index in changed.iter() {
            let before = std::mem::replace(&mut self.known[index], look(index)).0;
            let Forecast { propagation, rate, fades, under_way, .. } = *self.forecast(index);
            self.fading.set(index, fades);
            self.under_way = self.under_way + under_way - before.under_way;
            if (propagation, rate) != (before.propagation, before.rate) {
                self.bounds = None;
            }
        }
    }

    fn place_all(&mut self, question: &Question, now: Instant) {
        if self.question.is_none_or(|before| before.candidates != question.candidates) {
            self.bounds = None;
        }
        self.question = Some(*question);
        (self.crowded, self.moving) = (Places::default(), Places::default());
        self.open.clear();
        self.full.clear();
        for index in question.candidates.iter() {
            let (arrival, has_room) = self.place(index, question, now);
            let order = if has_room { &mut self.open } else { &mut self.full };
            order.set_leaf(index, arrival);
        }
        self.open.settle();
        self.full.settle();
    }

    /// After how many nanoseconds the packet would arrive on a path, and whether that has room.
    fn place(&mut self, index: usize, question: &Question, now: Instant) -> (u64, bool) {
        let Question { bytes, again, .. } = *question;
        let (forecast, allowance) = &self.known[index];
        let has_room = allowance.admits(bytes, now);
        self.crowded.set(index, !has_room);
        self.moving.set(index, !has_room || forecast.has_queue(now));
        (forecast.arrival(bytes, again, now), has_room)
    }
}
