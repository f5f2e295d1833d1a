//! The paths on which something of the peer's may be on its way.

use std::time::Duration;

use super::Roster;
use crate::path::INITIAL_RTT;

/// The live paths, and how long what they carry may take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Slowest {
    /// How many there are.
    pub(crate) paths: usize,
    /// The largest one-way delay of late, microseconds on the session's relative scale.
    pub(crate) delay_us: Option<i32>,
    /// The longest round trip of what the peer sends.
    pub(crate) round_trip: Duration,
}

impl Slowest {
    fn add(&mut self, round_trip: Option<Duration>, delay_us: Option<i32>) {
        self.paths += 1;
        self.delay_us = self.delay_us.max(delay_us);
        self.round_trip = self.round_trip.max(round_trip.unwrap_or(INITIAL_RTT));
    }
}

/// The sender's clock at the sending of the newest datagram of the live path that is behind all others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Horizon {
    pub(super) path: usize,
    sent_at_us: u32,
}

impl Roster {
    /// The paths on which something may be on its way. One that has been quiet is among them: the peer may just have begun
    /// to use it.
    pub(crate) fn slowest(&self) -> Slowest {
        let mut slowest = Slowest::default();
        for note in self.live.without(self.touched).iter().map(|index| &self.notes[index]) {
            slowest.add(note.peer_round_trip, note.delay_us);
        }
        for path in self.touched.iter().map(|index| &self.paths[index]).filter(|path| path.is_live()) {
            slowest.add(path.peer_round_trip(), path.received.largest_delay_us());
        }
        slowest
    }

    /// The moment, by the peer's clock, from before which nothing is on its way any more: every path that is live has
    /// delivered something sent later.
    pub(crate) fn horizon(&mut self) -> Option<u32> {
        if self.horizon.is_none() {
            let newest =
                self.paths.iter().enumerate().filter(|(_, path)| path.is_live()).filter_map(|(at, path)| {
                    Some(Horizon { path: at, sent_at_us: path.received.newest_sent_at_us()? })
                });
            self.horizon =
                newest.min_by(|a, b| a.sent_at_us.wrapping_sub(b.sent_at_us).cast_signed().cmp(&0));
        }
        self.horizon.map(|horizon| horizon.sent_at_us)
    }
}
