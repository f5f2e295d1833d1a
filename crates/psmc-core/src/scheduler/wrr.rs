//! `wrr`: bytes in proportion to fixed weights (WATSON ch. 4).

use std::time::Instant;

use super::{Choice, Scheduler};
use crate::egress::Queued;
use crate::path::Path;

/// The bytes that a path of weight 1 may send in its turn: one full-size packet, so that paths alternate as
/// finely as packets allow (deficit round robin, Shreedhar and Varghese 1995).
const QUANTUM: i64 = 1500;

/// Deficit round robin over the paths. The proportion is strict: a path whose turn it is but that has no room
/// makes the others wait, as with fixed weights anything else would be another scheduler.
#[derive(Debug, Default)]
pub(super) struct Wrr {
    /// Position in the candidates.
    turn: usize,
    /// What each candidate may still send in its turn; negative if its last packet was longer than that, for
    /// which its own next turn pays, and nobody else's.
    credits: Vec<i64>,
}

impl Scheduler for Wrr {
    fn choose(&mut self, paths: &[Path], candidates: &[usize], packet: &Queued, now: Instant) -> Choice {
        self.credits.resize(candidates.len(), 0);
        self.turn %= candidates.len();
        while self.credits[self.turn] <= 0 {
            self.turn = (self.turn + 1) % candidates.len();
            self.credits[self.turn] += QUANTUM * i64::from(paths[candidates[self.turn]].config.weight);
        }
        let index = candidates[self.turn];
        if !paths[index].has_room(packet.packet.len(), now) {
            return Choice::Wait;
        }
        self.credits[self.turn] -= i64::try_from(packet.packet.len()).unwrap_or(QUANTUM);
        Choice::Path(index)
    }

    fn on_change(&mut self) {
        *self = Self::default();
    }
}
