//! The queue in front of a transmitter.
//!
//! What decides which packets of a queue are dropped or marked before it is full.
//!
//! Random early detection (Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance", 1993).

use std::collections::VecDeque;

use psmc_core::relay::{PRECEDENCES, Rio};

use super::PacketInfo;
use super::codel::CoDel;
use super::config::{Discipline, Probability};
use super::flows::Flows;
use super::transmitter::Nanos;
use super::wire::Dice;

/// A packet inside a link, until it is on the wire.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Queued<P> {
    pub(crate) packet: P,
    pub(crate) info: PacketInfo,
    pub(crate) entered: Nanos,
    /// Whether it has been marked (ECN).
    pub(crate) marked: bool,
}

/// First in, first out. Who adds to it sees to its limit.
#[derive(Debug)]
pub(crate) struct Queue<P> {
    packets: VecDeque<Queued<P>>,
    bytes: usize,
    /// Packets of each drop precedence.
    lengths: [usize; PRECEDENCES],
}

impl<P> Queue<P> {
    pub(crate) fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0, lengths: [0; PRECEDENCES] }
    }

    pub(crate) fn push(&mut self, packet: Queued<P>) {
        self.bytes += packet.info.len;
        self.lengths[precedence(packet.info)] += 1;
        self.packets.push_back(packet);
    }

    pub(crate) fn pop(&mut self) -> Option<Queued<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.info.len;
        self.lengths[precedence(packet.info)] -= 1;
        Some(packet)
    }

    /// The length of the packet that is taken next.
    pub(crate) fn next_len(&self) -> Option<usize> {
        self.packets.front().map(|packet| packet.info.len)
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Packets of each drop precedence.
    fn lengths(&self) -> [u16; PRECEDENCES] {
        self.lengths.map(|length| u16::try_from(length).unwrap_or(u16::MAX))
    }
}

fn precedence(info: PacketInfo) -> usize {
    usize::from(info.precedence).min(PRECEDENCES - 1)
}

/// What waits in front of a transmitter, in the order of its discipline.
#[derive(Debug)]
pub(crate) enum Waiting<P> {
    /// First in, first out.
    Shared(Queue<P>, Policy),
    /// Each flow by itself.
    Flows(Flows<P>),
}

impl<P> Waiting<P> {
    /// Nothing.
    pub(crate) fn new(discipline: Discipline) -> Self {
        match discipline {
            Discipline::FqCoDel { target, interval, ecn } => {
                Self::Flows(Flows::new(target.into(), interval.into(), ecn))
            }
            Discipline::DropTail
            | Discipline::Red { .. }
            | Discipline::Rio { .. }
            | Discipline::CoDel { .. } => Self::Shared(Queue::new(), Policy::new(discipline)),
        }
    }

    /// Goes on with the same packets under another discipline.
    pub(crate) fn set_discipline(&mut self, discipline: Discipline) {
        let mut before = std::mem::replace(self, Self::new(discipline));
        while let Some(packet) = before.pop() {
            self.push(packet);
        }
    }

    pub(crate) fn push(&mut self, packet: Queued<P>) {
        match self {
            Self::Shared(queue, _) => queue.push(packet),
            Self::Flows(flows) => flows.push(packet),
        }
    }

    /// Takes any packet, and one that has waited longest if all are in one queue.
    pub(crate) fn pop(&mut self) -> Option<Queued<P>> {
        match self {
            Self::Shared(queue, _) => queue.pop(),
            Self::Flows(flows) => flows.drop_fattest(),
        }
    }

    /// The length of the packet that is taken next, as far as that can be known before; `None` if none waits.
    pub(crate) fn next_len(&self) -> Option<usize> {
        match self {
            Self::Shared(queue, _) => queue.next_len(),
            Self::Flows(flows) => flows.next_len(),
        }
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Shared(queue, _) => queue.len(),
            Self::Flows(flows) => flows.len(),
        }
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Shared(queue, _) => queue.bytes(),
            Self::Flows(flows) => flows.bytes(),
        }
    }

    /// A packet that is dropped so that another one has room, if the discipline does that.
    pub(crate) fn make_room(&mut self) -> Option<Queued<P>> {
        match self {
            Self::Shared(..) => None,
            Self::Flows(flows) => flows.drop_fattest(),
        }
    }

    /// Whether a packet may enter. `idle_capacity` as in [`Red::signals`].
    pub(crate) fn judge(
        &mut self,
        info: PacketInfo,
        idle_capacity: impl FnOnce() -> Option<u64>,
        dice: &mut Dice,
    ) -> Verdict {
        match self {
            Self::Shared(queue, policy) => policy.judge(info, queue, idle_capacity, dice),
            Self::Flows(_) => Verdict::Accept,
        }
    }

    /// The packet to be sent at `now`; those that are not worth it go to `drop`.
    pub(crate) fn dequeue(&mut self, now: Nanos, drop: &mut impl FnMut(Queued<P>)) -> Option<Queued<P>> {
        match self {
            Self::Shared(queue, policy) => policy.dequeue(queue, now, drop),
            Self::Flows(flows) => flows.dequeue(now, drop),
        }
    }
}

/// A queue discipline of one queue, with its state.
#[derive(Debug)]
pub(crate) enum Policy {
    DropTail,
    Red {
        red: Red,
        /// Whether packets are marked instead where they can be.
        ecn: bool,
    },
    Rio {
        rio: Rio,
        /// As for RED.
        ecn: bool,
    },
    CoDel(CoDel),
}

/// What becomes of a packet that wants to enter the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Accept,
    Mark,
    Drop,
}

impl Policy {
    /// [`Discipline::FqCoDel`] has several queues: each of them is a CoDel.
    fn new(discipline: Discipline) -> Self {
        match discipline {
            Discipline::DropTail => Self::DropTail,
            Discipline::Red { min_bytes, max_bytes, max_probability, weight, ecn } => {
                Self::Red { red: Red::new([min_bytes, max_bytes], max_probability, weight), ecn }
            }
            Discipline::Rio { ecn } => Self::Rio { rio: Rio::default(), ecn },
            Discipline::CoDel { target, interval, ecn } | Discipline::FqCoDel { target, interval, ecn } => {
                Self::CoDel(CoDel::new(target.into(), interval.into(), ecn))
            }
        }
    }

    /// Whether a packet may enter a queue. `idle_capacity` as in [`Red::signals`].
    fn judge<P>(
        &mut self,
        info: PacketInfo,
        queue: &Queue<P>,
        idle_capacity: impl FnOnce() -> Option<u64>,
        dice: &mut Dice,
    ) -> Verdict {
        match self {
            Self::DropTail | Self::CoDel(_) => Verdict::Accept,
            Self::Red { red, ecn } => match red.signals(queue.bytes(), idle_capacity(), dice) {
                false => Verdict::Accept,
                true if *ecn && info.ecn_capable => Verdict::Mark,
                true => Verdict::Drop,
            },
            Self::Rio { rio, ecn } => {
                idle_capacity().into_iter().for_each(|bytes| rio.idle(typical_packets(bytes)));
                match rio.drops(info.precedence, queue.lengths(), dice.generator()) {
                    false => Verdict::Accept,
                    // RFC 3168 §7: beyond the upper threshold packets are dropped, not marked.
                    true if *ecn && info.ecn_capable && !rio.is_beyond(info.precedence) => Verdict::Mark,
                    true => Verdict::Drop,
                }
            }
        }
    }

    /// The packet to be sent at `now`; those that are not worth it go to `drop`.
    fn dequeue<P>(
        &mut self,
        queue: &mut Queue<P>,
        now: Nanos,
        drop: &mut impl FnMut(Queued<P>),
    ) -> Option<Queued<P>> {
        match self {
            Self::DropTail | Self::Red { .. } | Self::Rio { .. } => queue.pop(),
            Self::CoDel(codel) => codel.dequeue(queue, now, drop),
        }
    }
}

/// The length of a typical packet. In an idle time the average falls as if such packets had found the queue empty;
/// the paper leaves the length open, and Linux suggests this one.
const TYPICAL_PACKET_BYTES: f64 = 1000.0;

#[expect(clippy::cast_possible_truncation, reason = "an estimate")]
fn typical_packets(bytes: u64) -> f32 {
    (bytes as f64 / TYPICAL_PACKET_BYTES) as f32
}

/// Drops the more packets the longer the queue is on average.
#[derive(Debug)]
pub(crate) struct Red {
    min_bytes: f64,
    max_bytes: f64,
    max_probability: f64,
    weight: f64,
    /// In bytes.
    average: f64,
    /// Packets since the last one that was dropped or marked, or since the average was below the minimum.
    passed: u32,
}

impl Red {
    /// Nothing happens while the average is below the first of these bytes; everything above the second.
    pub(crate) fn new([min, max]: [usize; 2], max_probability: Probability, weight: f64) -> Self {
        Self {
            min_bytes: min as f64,
            max_bytes: max as f64,
            max_probability: max_probability.get(),
            weight,
            average: 0.0,
            passed: 0,
        }
    }

    /// Whether a packet that meets a queue of so many bytes shall be dropped or marked.
    ///
    /// `idle_capacity` are the bytes that could have been sent since the transmitter has nothing to do, if it has
    /// not.
    pub(crate) fn signals(
        &mut self,
        queue_bytes: usize,
        idle_capacity: Option<u64>,
        dice: &mut Dice,
    ) -> bool {
        self.update_average(queue_bytes, idle_capacity);
        let signals = if self.average < self.min_bytes {
            self.passed = 0;
            return false;
        } else if self.average < self.max_bytes {
            dice.happens(self.probability())
        } else {
            true
        };
        self.passed = if signals { 0 } else { self.passed.saturating_add(1) };
        signals
    }

    fn update_average(&mut self, queue_bytes: usize, idle_capacity: Option<u64>) {
        match idle_capacity {
            Some(bytes) => self.average *= (1.0 - self.weight).powf(bytes as f64 / TYPICAL_PACKET_BYTES),
            None => self.average += self.weight * (queue_bytes as f64 - self.average),
        }
    }

    /// The paper's p_a: it makes the number of packets between two signals uniformly, not geometrically distributed.
    fn probability(&self) -> Probability {
        let above = (self.average - self.min_bytes) / (self.max_bytes - self.min_bytes);
        let base = self.max_probability * above;
        let remaining = 1.0 - f64::from(self.passed) * base;
        Probability::new(base / remaining).unwrap_or(Probability::ONE)
    }
}
