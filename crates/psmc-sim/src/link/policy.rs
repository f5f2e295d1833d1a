//! What decides which packets of a queue are dropped or marked before it is full.

use super::PacketInfo;
use super::chance::Dice;
use super::clock::Nanos;
use super::codel::CoDel;
use super::config::Discipline;
use super::queue::{Queue, Queued};
use super::red::Red;

/// A queue discipline with its state.
#[derive(Debug)]
pub(super) enum Policy {
    DropTail,
    Red {
        red: Red,
        /// Whether packets are marked instead where they can be.
        ecn: bool,
    },
    CoDel(CoDel),
}

/// What becomes of a packet that wants to enter the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Accept,
    Mark,
    Drop,
}

impl Policy {
    pub(super) fn new(discipline: Discipline) -> Self {
        match discipline {
            Discipline::DropTail => Self::DropTail,
            Discipline::Red { min_bytes, max_bytes, max_probability, weight, ecn } => {
                Self::Red { red: Red::new([min_bytes, max_bytes], max_probability, weight), ecn }
            }
            Discipline::CoDel { target, interval, ecn } => {
                Self::CoDel(CoDel::new(target.into(), interval.into(), ecn))
            }
        }
    }

    /// Whether a packet may enter a queue of so many bytes. `idle_capacity` as in [`Red::signals`].
    pub(super) fn judge(
        &mut self,
        info: PacketInfo,
        queue_bytes: usize,
        idle_capacity: impl FnOnce() -> Option<u64>,
        dice: &mut Dice,
    ) -> Verdict {
        match self {
            Self::DropTail | Self::CoDel(_) => Verdict::Accept,
            Self::Red { red, ecn } => match red.signals(queue_bytes, idle_capacity(), dice) {
                false => Verdict::Accept,
                true if *ecn && info.ecn_capable => Verdict::Mark,
                true => Verdict::Drop,
            },
        }
    }

    /// The packet to be sent at `now`; those that are not worth it go to `drop`.
    pub(super) fn dequeue<P>(
        &mut self,
        queue: &mut Queue<P>,
        now: Nanos,
        drop: &mut impl FnMut(Queued<P>),
    ) -> Option<Queued<P>> {
        match self {
            Self::DropTail | Self::Red { .. } => queue.pop(),
            Self::CoDel(codel) => codel.dequeue(queue, now, drop),
        }
    }
}
