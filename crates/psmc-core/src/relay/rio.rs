//! Random early detection with three drop precedences (RIO): who is dropped when a queue grows.
//!
//! Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance" (1993); Clark and Fang, "Explicit
//! Allocation of Best-Effort Packet Delivery Service" (1998). Each precedence has a RED of its own. Its average counts
//! the datagrams that are to be kept at least as long as its own, so that a flood of expendable ones drops none of the
//! others (the coupled form, RIO-C).
//!
//! One direction of a session: its rate, what waits for it, and who is dropped.

use psmc_wire::PacketBuf;
use psmc_wire::counts::ByColour;
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;

use crate::limiter::Limiter;
use crate::slab::{Fifo, Slab};

/// Drop precedences that are told apart.
pub const PRECEDENCES: usize = 3;

/// The parameters of one RED.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Red {
    /// Below this average queue, in datagrams, nothing is dropped.
    pub min: f32,
    /// From this average queue on, in datagrams, everything is dropped.
    pub max: f32,
    /// The share that is dropped just below that.
    pub probability: f32,
}

/// For DP0, DP1 and DP2: those of the adaptive conditioner's experiments (seed QoS §6).
pub const RED: [Red; PRECEDENCES] = [
    Red { min: 40.0, max: 55.0, probability: 0.02 },
    Red { min: 25.0, max: 40.0, probability: 0.05 },
    Red { min: 10.0, max: 25.0, probability: 0.1 },
];

/// What a new queue length counts in the average (the same section).
const WEIGHT: f32 = 0.002;

/// The averages of one queue, by which it drops.
///
/// Ask [`drops`](Self::drops) for each datagram that wants to enter, and if the queue was empty until then, say so by
/// [`idle`](Self::idle) before. The bound of the queue is the caller's.
#[derive(Clone, Debug, Default)]
pub struct Rio {
    reds: [Average; PRECEDENCES],
}

#[derive(Clone, Copy, Debug, Default)]
struct Average {
    length: f32,
    /// Datagrams since the last one that was dropped, or since the average was below the minimum.
    passed: u32,
}

/// What counts as precedence: there is none beyond the third.
pub(super) fn precedence(mark: u8) -> usize {
    usize::from(mark).min(PRECEDENCES - 1)
}

impl Rio {
    /// Whether a datagram with this mark, which meets a queue of so many of each precedence, shall be dropped. Marks beyond
    /// the third precedence count as that.
    pub fn drops(&mut self, mark: u8, lengths: [u16; PRECEDENCES], rng: &mut impl Rng) -> bool {
        let precedence = precedence(mark);
        let mut kept_longer = 0_u16;
        for (red, length) in self.reds.iter_mut().zip(lengths) {
            kept_longer = kept_longer.saturating_add(length);
            red.length += WEIGHT * (f32::from(kept_longer) - red.length);
        }
        self.reds[precedence].drops(&RED[precedence], rng)
    }

    /// Whether everything with this mark is dropped, by the average as it was at the last datagram.
    #[must_use]
    pub fn is_beyond(&self, mark: u8) -> bool {
        let precedence = precedence(mark);
        self.reds[precedence].length >= RED[precedence].max
    }

    /// The queue was empty while so many datagrams could have gone.
    pub fn idle(&mut self, datagrams: f32) {
        let factor = (1.0 - WEIGHT).powf(datagrams);
        for red in &mut self.reds {
            red.length *= factor;
        }
    }
}

impl Average {
    fn drops(&mut self, red: &Red, rng: &mut impl Rng) -> bool {
        if self.length < red.min {
            self.passed = 0;
            return false;
        }
        let drops = self.length >= red.max || uniform(rng) < self.probability(red);
        self.passed = if drops { 0 } else { self.passed.saturating_add(1) };
        drops
    }

    /// The paper's p_a: it makes the number of datagrams between two drops uniformly, not geometrically distributed.
    #[expect(clippy::cast_precision_loss, reason = "so many datagrams never pass between two drops")]
    fn probability(self, red: &Red) -> f32 {
        let base = red.probability * (self.length - red.min) / (red.max - red.min);
        let remaining = 1.0 - self.passed as f32 * base;
        if remaining <= base { 1.0 } else { base / remaining }
    }
}

/// In [0, 1).
#[expect(clippy::cast_precision_loss, reason = "24 bits fit")]
fn uniform(rng: &mut impl Rng) -> f32 {
    (rng.next_u32() >> 8) as f32 / (1u32 << 24) as f32
}

/// Datagrams that wait in one lane at most, whatever the averages say: a burst passes through a RED before its average
/// has noticed. More than twice where the last RED drops all.
const MAX_WAITING: u16 = 128;

/// The length of a typical datagram: in an idle time a queue's average falls as if such ones had found it empty.
const TYPICAL_BITS: f32 = 8000.0;

/// A datagram that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    pub(super) datagram: PacketBuf,
    precedence: u8,
}

/// One direction of a session.
#[derive(Debug)]
pub(super) struct Lane {
    pub(super) limiter: Limiter,
    pub(super) datagrams: u64,
    pub(super) bytes: u64,
    pub(super) dropped: [u64; PRECEDENCES],
    /// Datagrams that came, by colour.
    pub(super) received: ByColour,
    /// Those of them that went.
    pub(super) handed_on: ByColour,
    waiting: Fifo,
    lengths: [u16; PRECEDENCES],
    rio: Rio,
    /// Since when nothing waits.
    empty_since: u64,
}

impl Lane {
    pub(super) fn new(rate: Option<u64>, now: u64) -> Self {
        Self {
            limiter: Limiter::new(rate),
            datagrams: 0,
            bytes: 0,
            dropped: [0; PRECEDENCES],
            received: ByColour::default(),
            handed_on: ByColour::default(),
            waiting: Fifo::default(),
            lengths: [0; PRECEDENCES],
            rio: Rio::default(),
            empty_since: now,
        }
    }

    /// Datagrams that wait.
    pub(super) fn len(&self) -> u16 {
        self.lengths.iter().sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.lengths == [0; PRECEDENCES]
    }

    /// Whether a datagram with this mark may join those that wait; one that may not is counted.
    pub(super) fn admits(&mut self, mark: u8, now: u64, rng: &mut Pcg64Mcg) -> bool {
        if self.is_empty() {
            self.rio.idle(self.could_have_gone(now));
        }
        let precedence = precedence(mark);
        let admitted = !self.rio.drops(mark, self.lengths, rng) && self.len() < MAX_WAITING;
        self.dropped[precedence] += u64::from(!admitted);
        admitted
    }

    /// Appends a datagram that was admitted.
    pub(super) fn push(&mut self, datagram: PacketBuf, mark: u8, slab: &mut Slab<Waiting>) {
        let precedence = precedence(mark);
        self.lengths[precedence] += 1;
        let precedence = u8::try_from(precedence).unwrap_or(u8::MAX);
        slab.push(&mut self.waiting, Waiting { datagram, precedence });
    }

    /// Takes the first one that waits.
    pub(super) fn pop(&mut self, now: u64, slab: &mut Slab<Waiting>) -> Option<PacketBuf> {
        let Waiting { datagram, precedence } = slab.pop(&mut self.waiting)?;
        self.lengths[usize::from(precedence)] -= 1;
        if self.is_empty() {
            self.empty_since = now;
        }
        Some(datagram)
    }

    /// Counts a datagram that goes.
    pub(super) fn count(&mut self, bytes: usize) {
        self.datagrams += 1;
        self.bytes += bytes as u64;
    }

    /// How many datagrams could have gone since nothing waits.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    fn could_have_gone(&self, now: u64) -> f32 {
        let rate = self.limiter.rate().unwrap_or(u64::MAX) as f32;
        now.saturating_sub(self.empty_since) as f32 / 1e9 * rate / TYPICAL_BITS
    }
}

#[cfg(test)]
mod tests {
    use rand_pcg::Pcg64Mcg;

    use super::*;

    /// The share of `count` datagrams that is dropped at a steady queue of which the average has become `length`.
    fn share(precedence: usize, length: f32, count: u32) -> f64 {
        let mut rng = Pcg64Mcg::new(7);
        let mut red = Average { length, passed: 0 };
        let dropped = (0..count).filter(|_| red.drops(&RED[precedence], &mut rng)).count();
        f64::from(u32::try_from(dropped).unwrap()) / f64::from(count)
    }

    /// With gaps distributed uniformly over 1 to 1/p_b, the mean gap is (1 + 1/p_b) / 2 (Floyd and Jacobson §7).
    fn expected(precedence: usize, length: f32) -> f64 {
        let red = RED[precedence];
        let base = f64::from(red.probability * (length - red.min) / (red.max - red.min));
        2.0 / (1.0 + 1.0 / base)
    }

    #[test]
    fn each_precedence_drops_as_its_formula_says() {
        for (precedence, red) in RED.iter().enumerate() {
            for part in [0.25, 0.5, 0.75, 0.99] {
                let length = red.min + part * (red.max - red.min);
                let (got, wanted) = (share(precedence, length, 200_000), expected(precedence, length));
                assert!((got / wanted - 1.0).abs() < 0.03, "DP{precedence} at {length}: {got}, not {wanted}");
            }
            assert_eq!(share(precedence, red.min - 0.1, 1000), 0.0);
            assert_eq!(share(precedence, red.max, 1000), 1.0);
        }
    }

    #[test]
    fn the_average_follows_slowly_and_forgets_in_idle_times() {
        let (mut rio, mut rng) = (Rio::default(), Pcg64Mcg::new(7));
        for _ in 0..500 {
            let _ = rio.drops(0, [100, 0, 0], &mut rng);
        }
        let after_500 = 100.0 * (1.0 - (1.0 - WEIGHT).powf(500.0));
        assert!((rio.reds[0].length - after_500).abs() < 0.1, "{:?}", rio.reds);
        rio.idle(500.0);
        assert!((rio.reds[0].length - after_500 * (1.0 - WEIGHT).powf(500.0)).abs() < 0.1);
    }

    #[test]
    fn a_flood_of_expendable_datagrams_drops_no_others() {
        let (mut rio, mut rng) = (Rio::default(), Pcg64Mcg::new(7));
        let lengths = [5, 0, 50];
        let mut dropped = [0; PRECEDENCES];
        for turn in 0..20_000 {
            let mark = if turn % 10 == 0 { 0 } else { 2 };
            dropped[precedence(mark)] += u32::from(rio.drops(mark, lengths, &mut rng));
        }
        assert_eq!(dropped[0], 0);
        assert!(dropped[2] > 10_000, "{dropped:?}");
    }

    #[test]
    fn higher_marks_count_as_the_highest() {
        assert_eq!([0, 1, 2, 3].map(precedence), [0, 1, 2, 2]);
    }
}
