//! What follows from the answers of a daemon that is asked for its status again and again: rates, and what has happened.

mod events;
mod rates;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use crate::{PeerStatus, Status};
use events::has_restarted;
pub use rates::{PeerRates, Traffic};

/// A daemon that is watched. Tell it every answer by [`answered`](Self::answered).
///
/// `T` is the time of day as whoever watches reads it; the time between two answers is measured by an [`Instant`].
#[derive(Debug)]
pub struct Watch<T> {
    latest: Option<(Arc<Status>, Instant)>,
    /// By the peer's name.
    rates: BTreeMap<String, PeerRates>,
    events: VecDeque<Event<T>>,
    /// How many events there were before the oldest of them.
    forgotten: u64,
}

/// Something that has happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event<T> {
    /// When it was seen.
    pub at: T,
    /// What it was, in words.
    pub what: String,
}

/// How many events are kept: more than the tallest terminal shows.
pub const MAX_EVENTS: usize = 300;

impl<T> Default for Watch<T> {
    fn default() -> Self {
        Self { latest: None, rates: BTreeMap::new(), events: VecDeque::new(), forgotten: 0 }
    }
}

impl<T: Clone> Watch<T> {
    /// The daemon has answered, `at` that moment, when the clock said `clock`. Returns whether there are rates since the answer
    /// before; there are none for the first answer, and for that of a daemon that was restarted.
    pub fn answered(&mut self, status: Arc<Status>, at: Instant, clock: &T) -> bool {
        self.rates.clear();
        let before = self.latest.replace((status.clone(), at));
        let Some((before, then)) = before else { return false };
        for what in events::between(&before, &status) {
            self.happened(clock.clone(), what);
        }
        if has_restarted(&before, &status) {
            return false;
        }
        let elapsed = at.saturating_duration_since(then);
        for peer in &status.peers {
            if let Some(before) = before.peers.iter().find(|before| before.name == peer.name) {
                self.rates.insert(peer.name.clone(), PeerRates::between(before, peer, elapsed));
            }
        }
        true
    }

    /// Something else has happened.
    pub fn happened(&mut self, at: T, what: String) {
        self.events.push_back(Event { at, what });
        if self.events.len() > MAX_EVENTS {
            self.events.pop_front();
            self.forgotten += 1;
        }
    }
}

impl<T> Watch<T> {
    /// The latest answer, and when it came.
    pub fn latest(&self) -> Option<(&Arc<Status>, Instant)> {
        self.latest.as_ref().map(|(status, at)| (status, *at))
    }

    /// The rates of a peer, once they are known.
    pub fn rates(&self, peer: &PeerStatus) -> Option<&PeerRates> {
        self.rates.get(&peer.name)
    }

    /// The latest events, `count` at most, the last one last.
    pub fn events(&self, count: usize) -> impl Iterator<Item = &Event<T>> {
        self.events.iter().skip(self.events.len().saturating_sub(count))
    }

    /// How many events there were in all, with those that are forgotten.
    pub fn event_count(&self) -> u64 {
        self.forgotten + self.events.len() as u64
    }
}
