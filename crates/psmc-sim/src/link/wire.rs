//! The wire behind a transmitter: which packets arrive, when, and in which state.
//!
//! Which packets get lost on the wire.
//!
//! How long packets are on the wire.
//!
//! The randomness of a link.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::f64::consts::TAU;
use std::time::Duration;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use super::config::{Jitter, LinkConfig, Loss, Probability};
use super::queue::Queued;
use super::transmitter::Nanos;

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
        let earliest = end.after(least(config));
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
        let at = now.after(draw(config, dice));
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

/// The state of the chain of Gilbert and Elliott; it begins in the good one.
#[derive(Debug, Default)]
pub(super) struct LossChain {
    bad: bool,
}

impl LossChain {
    /// Whether the next packet is lost: as the present state has it. Then the chain moves on.
    pub(super) fn loses(&mut self, loss: Loss, dice: &mut Dice) -> bool {
        match loss {
            Loss::None => false,
            Loss::Random(chance) => dice.happens(chance),
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => {
                let (lost, flip) = if self.bad { (loss_bad, to_good) } else { (loss_good, to_bad) };
                let lost = dice.happens(lost);
                self.bad ^= dice.happens(flip);
                lost
            }
        }
    }
}

/// The delay of a packet, its jitter included.
pub(super) fn draw(config: &LinkConfig, dice: &mut Dice) -> Nanos {
    let delay = Nanos::from(config.delay);
    match &config.jitter {
        Jitter::None => delay,
        Jitter::Normal(deviation) => {
            Nanos::from_float(delay.to_float() + dice.normal() * Nanos::from(*deviation).to_float())
        }
        Jitter::Uniform(spread) => {
            let spread = Nanos::from(*spread);
            let width = spread.after(spread).after(Nanos(1));
            delay.after(Nanos(dice.below(width.0))).since(spread)
        }
        Jitter::Samples(samples) => delay.after(one_of(samples, dice)),
    }
}

/// No packet has less delay than this.
pub(super) fn least(config: &LinkConfig) -> Nanos {
    let delay = Nanos::from(config.delay);
    match &config.jitter {
        Jitter::None | Jitter::Samples(_) => delay,
        Jitter::Normal(_) => Nanos(0),
        Jitter::Uniform(spread) => delay.since(Nanos::from(*spread)),
    }
}

fn one_of(samples: &[Duration], dice: &mut Dice) -> Nanos {
    let index = usize::try_from(dice.below(samples.len() as u64)).unwrap_or(0);
    samples.get(index).copied().unwrap_or_default().into()
}

/// A seeded generator, and the draws that a link makes from it.
#[derive(Clone, Debug)]
pub(crate) struct Dice {
    rng: Pcg64Mcg,
}

impl Dice {
    /// Equal seeds throw equally.
    pub(crate) fn new(seed: u64) -> Self {
        Self { rng: Pcg64Mcg::seed_from_u64(seed) }
    }

    /// For what draws by itself.
    pub(super) fn generator(&mut self) -> &mut Pcg64Mcg {
        &mut self.rng
    }

    /// Whether something of this chance happens. What is impossible draws nothing.
    pub(super) fn happens(&mut self, chance: Probability) -> bool {
        chance > Probability::ZERO && self.uniform() < chance.get()
    }

    /// Evenly from 0 up to, but without, 1.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.rng.next_u64() >> (u64::BITS - f64::MANTISSA_DIGITS)) as f64 * f64::EPSILON / 2.0
    }

    /// Evenly from 0 up to, but without, `end`; 0 if that is 0. (The bias, of `end` in 2^64, is far below what any
    /// experiment can see.)
    pub(super) fn below(&mut self, end: u64) -> u64 {
        let product = u128::from(self.rng.next_u64()) * u128::from(end);
        u64::try_from(product >> u64::BITS).unwrap_or(0)
    }

    /// From the standard normal distribution, by the transformation of Box and Muller.
    pub(super) fn normal(&mut self) -> f64 {
        let radius = (-2.0 * (1.0 - self.uniform()).ln()).sqrt();
        radius * (TAU * self.uniform()).cos()
    }
}
