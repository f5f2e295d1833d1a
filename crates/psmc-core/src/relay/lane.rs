//! One direction of a session: its rate, what waits for it, and who is dropped.

use psmc_wire::PacketBuf;
use rand_pcg::Pcg64Mcg;

use super::limiter::Limiter;
use super::rio::{PRECEDENCES, Rio, precedence};
use crate::slab::{Fifo, Slab};

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
        let admitted = !self.rio.drops(precedence, self.lengths, rng) && self.len() < MAX_WAITING;
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
