//! Acknowledgements that come in bunches: more may have to be on its way, so that there is something to acknowledge until the next
//! bunch. Linux allows for that (`bbr_update_ack_aggregation`).

use std::time::Instant;

/// Round trips of which the largest bunch is remembered: in two turns.
const ROUNDS: u32 = 5;

/// No bunch is worth more than so many seconds.
const MAX_TIME: f64 = 0.1;

/// How much more than expected was acknowledged at once. Counts are in segments.
#[derive(Debug, Default)]
pub(super) struct Bunches {
    /// Since when acknowledgements are faster than the path, and what was acknowledged since.
    epoch: Option<(Instant, f64)>,
    /// The largest bunch of the present turn, and of the one before.
    largest: [f64; 2],
    rounds: u32,
}

impl Bunches {
    /// So much was acknowledged, on a path of this rate.
    pub(super) fn update(&mut self, segments: f64, rate: f64, window: f64, has_begun: bool, now: Instant) {
        self.rounds += u32::from(has_begun);
        if self.rounds >= ROUNDS {
            (self.rounds, self.largest) = (0, [0.0, self.largest[0]]);
        }
        let expected = |since: Instant| rate * now.saturating_duration_since(since).as_secs_f64();
        let running = self.epoch.filter(|(since, acked)| *acked > expected(*since));
        let (since, acked) = running.unwrap_or((now, 0.0));
        self.epoch = Some((since, acked + segments));
        let extra = (acked + segments - expected(since)).min(window);
        self.largest[0] = self.largest[0].max(extra);
    }

    /// Nothing was on its way: an epoch begins.
    pub(super) fn restart(&mut self, now: Instant) {
        self.epoch = Some((now, 0.0));
    }

    /// What the window is larger by, on a path of this rate.
    pub(super) fn allowance(&self, rate: f64) -> f64 {
        self.largest[0].max(self.largest[1]).min(rate * MAX_TIME)
    }
}
