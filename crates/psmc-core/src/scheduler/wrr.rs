//! `wrr`: bytes in proportion to weights (WATSON ch. 4), fixed ones or such as follow what the paths deliver.

use std::time::Instant;

use super::receive_ratio::ReceiveRatio;
use super::{Choice, Scheduler, Waiting};
use crate::classify::MAX_CLASSES;
use crate::path::Path;
use crate::roster::{Places, Roster};

/// The bytes that a path of weight 1 may send in its turn: one full-size packet, so that paths alternate as
/// finely as packets allow (deficit round robin, Shreedhar and Varghese 1995).
pub(super) const QUANTUM: i64 = 1500;

/// Deficit round robin over the paths. The proportion is strict: a path whose turn it is but that has no room
/// makes the others wait, as with fixed weights anything else would be another scheduler.
#[derive(Debug, Default)]
pub(super) struct Wrr {
    turns: TurnsBySet,
}

impl Scheduler for Wrr {
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        let quantum = |index: usize| QUANTUM * i64::from(paths[index].config.weight);
        let turns = self.turns.of(candidates);
        let index = turns.next(paths.len(), candidates, quantum);
        if !paths[index].has_room(packet.bytes(), now) {
            return Choice::Wait;
        }
        turns.charge(packet.bytes());
        Choice::Path(index)
    }

    fn on_change(&mut self) {
        *self = Self::default();
    }
}

/// Deficit round robin with the weights of the receive ratio (PSMC ch. IV): the proportion in which packets are
/// sent is that in which they have arrived.
///
/// Paths are paced, so that next to nothing is lost on a slow one; with strict turns every proportion would then
/// arrive as it was sent, and stay for ever. So a path without room is passed over: what arrives then shows what
/// the paths can do.
#[derive(Debug, Default)]
pub(super) struct AdaptiveWrr {
    turns: TurnsBySet,
    ratio: ReceiveRatio,
}

impl Scheduler for AdaptiveWrr {
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        if self.ratio.is_due(now) {
            let delivered = |index: usize| {
                let path: &Path = &paths[index];
                (path.id, path.counters.acked_packets)
            };
            // Classes may have fewer.
            self.ratio.update(candidates.with(paths.candidates()).iter().map(delivered), now);
        }
        let bytes = packet.bytes();
        let ratio = &self.ratio;
        let quantum = |index: usize| {
            let Path { id, config, .. } = &paths[index];
            ratio.quantum(*id).unwrap_or(QUANTUM * i64::from(config.weight))
        };
        let turns = self.turns.of(candidates);
        let index = turns.next(paths.len(), candidates, quantum);
        if paths[index].has_room(bytes, now) {
            turns.charge(bytes);
            return Choice::Path(index);
        }
        // Out of its turn a path is not charged: what it would owe, it would pay when it is needed.
        let with_room = candidates.iter().find(|&index| paths[index].has_room(bytes, now));
        with_room.map_or(Choice::Wait, Choice::Path)
    }

    fn on_change(&mut self) {
        self.turns = TurnsBySet::default();
    }
}

/// Turns of each set of candidates: those of a class that prefers some paths are no others' turns.
#[derive(Debug, Default)]
struct TurnsBySet(Vec<(Places, Turns)>);

/// More sets are not in use at once: one for each class, and as many beyond them.
const MAX_SETS: usize = 2 * MAX_CLASSES;

impl TurnsBySet {
    fn of(&mut self, candidates: Places) -> &mut Turns {
        let known = self.0.iter().position(|(set, _)| *set == candidates);
        let index = known.unwrap_or_else(|| {
            if self.0.len() >= MAX_SETS {
                self.0.clear();
            }
            self.0.push((candidates, Turns::default()));
            self.0.len() - 1
        });
        &mut self.0[index].1
    }
}

/// Whose turn it is.
#[derive(Debug, Default)]
struct Turns {
    turn: usize,
    /// What each candidate may still send in its turn; negative if its last packet was longer than that, for
    /// which its own next turn pays, and nobody else's.
    credits: Vec<i64>,
}

impl Turns {
    /// The candidate whose turn it is; `quantum` says how many bytes one gets with each turn.
    fn next(&mut self, paths: usize, candidates: Places, quantum: impl Fn(usize) -> i64) -> usize {
        self.credits.resize(paths, 0);
        while self.credits[self.turn] <= 0 || !candidates.contains(self.turn) {
            self.turn = candidates.after(self.turn).unwrap_or_default();
            self.credits[self.turn] += quantum(self.turn);
        }
        self.turn
    }

    /// The candidate whose turn it is sends so many bytes.
    fn charge(&mut self, bytes: usize) {
        self.credits[self.turn] -= i64::try_from(bytes).unwrap_or(QUANTUM);
    }
}
