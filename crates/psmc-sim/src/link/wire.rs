//! The wire behind a transmitter: which packets arrive, when, and in which state.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use super::chance::Dice;
use super::clock::Nanos;
use super::config::{LinkConfig, Probability};
use super::delay;
use super::loss::LossChain;
use super::queue::Queued;

/// Packets on their way.
#[derive(Debug)]
pub(super) struct Wire<P> {
    loss: LossChain,
    /// Packets each of which arrives no earlier than the one before it.
    in_order: VecDeque<Flying<P>>,
    /// Packets that arrive before one that was sent earlier.
    overtaking: BinaryHeap<Reverse<Flying<P>>>,
    /// When the last of all packets sent so far arrives.
    latest: Nanos,
    /// How many packets have been sent, which numbers the next one.
    sent: u64,
}

/// A packet on its way.
#[derive(Debug)]
pub(super) struct Flying<P> {
    pub(super) at: Nanos,
    number: u64,
    pub(super) copies: u8,
    pub(super) corrupt_bit: Option<u64>,
    pub(super) queued: Queued<P>,
}

impl<P> Wire<P> {
    pub(super) fn new() -> Self {
        Self {
            loss: LossChain::default(),
            in_order: VecDeque::new(),
            overtaking: BinaryHeap::new(),
            latest: Nanos::default(),
            sent: 0,
        }
    }

    /// Puts a packet that leaves the transmitter at `now` on its way. One that gets lost comes back.
    pub(super) fn send(
        &mut self,
        queued: Queued<P>,
        now: Nanos,
        config: &LinkConfig,
        dice: &mut Dice,
    ) -> Result<(), Queued<P>> {
        if self.loss.loses(config.loss, dice) {
            return Err(queued);
        }
        let bits = queued.info.len as u64 * 8;
        let flying = Flying {
            number: self.sent,
            copies: 1 + u8::from(dice.happens(config.duplicate)),
            corrupt_bit: (dice.happens(config.corrupt) && bits > 0).then(|| dice.below(bits)),
            at: self.arrival(now, config, dice),
            queued,
        };
        self.push(flying);
        Ok(())
    }

    /// The next packet, if it has arrived at `now`.
    pub(super) fn pop(&mut self, now: Nanos) -> Option<Flying<P>> {
        if self.next_arrival()? > now {
            return None;
        }
        let overtakes = match (self.in_order.front(), self.overtaking.peek()) {
            (Some(front), Some(Reverse(first))) => first < front,
            (None, Some(_)) => true,
            (_, None) => false,
        };
        if overtakes { self.overtaking.pop().map(|first| first.0) } else { self.in_order.pop_front() }
    }

    /// When the next packet arrives.
    pub(super) fn next_arrival(&self) -> Option<Nanos> {
        let front = self.in_order.front().map(|front| front.at);
        let first = self.overtaking.peek().map(|first| first.0.at);
        front.into_iter().chain(first).min()
    }

    /// A packet that leaves the transmitter at `end` arrives no earlier than this.
    pub(super) fn earliest_arrival(&self, end: Nanos, config: &LinkConfig) -> Nanos {
        if config.reorder > Probability::ZERO {
            return end;
        }
        let earliest = end.after(delay::least(config));
        if config.reordering { earliest } else { earliest.max(self.latest) }
    }

    /// Takes away what has not arrived at `now`.
    pub(super) fn cut(&mut self, now: Nanos) -> impl Iterator<Item = P> + use<P> {
        let arrived = self.in_order.partition_point(|flying| flying.at <= now);
        let lost = self.in_order.split_off(arrived);
        let overtaking = std::mem::take(&mut self.overtaking).into_iter();
        let (arrived, overtaking) = overtaking.partition(|flying| flying.0.at <= now);
        self.overtaking = arrived;
        self.latest = self.latest.min(now);
        lost.into_iter()
            .chain(overtaking.into_iter().map(|flying| flying.0))
            .map(|flying| flying.queued.packet)
    }

    /// Packets on their way.
    pub(super) fn len(&self) -> usize {
        self.in_order.len() + self.overtaking.len()
    }

    fn arrival(&self, now: Nanos, config: &LinkConfig, dice: &mut Dice) -> Nanos {
        if dice.happens(config.reorder) {
            return now;
        }
        let at = now.after(delay::draw(config, dice));
        if config.reordering { at } else { at.max(self.latest) }
    }

    fn push(&mut self, flying: Flying<P>) {
        self.sent += 1;
        self.latest = self.latest.max(flying.at);
        if self.in_order.back().is_none_or(|back| back.at <= flying.at) {
            self.in_order.push_back(flying);
        } else {
            self.overtaking.push(Reverse(flying));
        }
    }
}

impl<P> Flying<P> {
    /// By arrival; of packets that arrive together the one sent first.
    fn place(&self) -> (Nanos, u64) {
        (self.at, self.number)
    }
}

impl<P> Ord for Flying<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.place().cmp(&other.place())
    }
}

impl<P> PartialOrd for Flying<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> PartialEq for Flying<P> {
    fn eq(&self, other: &Self) -> bool {
        self.place() == other.place()
    }
}

impl<P> Eq for Flying<P> {}
