//! Controlled delay (RFC 8289, section 5).

use super::queue::{Queue, Queued};
use super::transmitter::Nanos;

/// A sequence of drops that begins within so many intervals goes on at the pace of the one before, because that is
/// likely what the same load needs. The bound is the RFC's.
const MEMORY_INTERVALS: u64 = 16;

/// Drops packets that come out of a queue which has been too long for a while.
#[derive(Debug)]
pub(crate) struct CoDel {
    target: Nanos,
    interval: Nanos,
    ecn: bool,
    /// When the queue will have been too long for an interval, if it is too long.
    first_above: Option<Nanos>,
    dropping: bool,
    drop_next: Nanos,
    /// Drops of the present sequence, and those that the one before has bequeathed.
    count: u32,
    last_count: u32,
    /// The longest packet so far, in bytes.
    max_packet: usize,
}

/// What comes out of the queue.
enum Head<P> {
    Empty,
    /// A packet that may go.
    Good(Queued<P>),
    /// A packet that may be dropped.
    Late(Queued<P>),
}

impl CoDel {
    pub(crate) fn new(target: Nanos, interval: Nanos, ecn: bool) -> Self {
        Self {
            target,
            interval,
            ecn,
            first_above: None,
            dropping: false,
            drop_next: Nanos::default(),
            count: 0,
            last_count: 0,
            max_packet: 0,
        }
    }

    /// The packet to be sent at `now`. To be called also when the queue is empty: that ends a sequence of drops.
    pub(crate) fn dequeue<P>(
        &mut self,
        queue: &mut Queue<P>,
        now: Nanos,
        drop: &mut impl FnMut(Queued<P>),
    ) -> Option<Queued<P>> {
        match self.take(queue, now) {
            Head::Late(packet) if self.dropping => self.go_on(packet, queue, now, drop),
            Head::Late(packet) => self.begin(packet, queue, now, drop),
            Head::Good(packet) => {
                self.dropping = false;
                Some(packet)
            }
            Head::Empty => {
                self.dropping = false;
                None
            }
        }
    }

    /// A sequence of drops begins with this packet.
    fn begin<P>(
        &mut self,
        mut packet: Queued<P>,
        queue: &mut Queue<P>,
        now: Nanos,
        drop: &mut impl FnMut(Queued<P>),
    ) -> Option<Queued<P>> {
        let next = if self.marks(&mut packet) {
            Some(packet)
        } else {
            drop(packet);
            self.take(queue, now).packet()
        };
        self.dropping = true;
        let delta = self.count - self.last_count;
        let recent = now.since(self.drop_next).0 < MEMORY_INTERVALS.saturating_mul(self.interval.0);
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.last_count = self.count;
        self.drop_next = self.control_law(now);
        next
    }

    /// A sequence of drops goes on: with this packet, if it is time to.
    fn go_on<P>(
        &mut self,
        mut packet: Queued<P>,
        queue: &mut Queue<P>,
        now: Nanos,
        drop: &mut impl FnMut(Queued<P>),
    ) -> Option<Queued<P>> {
        while now >= self.drop_next {
            self.count = self.count.saturating_add(1);
            if self.marks(&mut packet) {
                self.drop_next = self.control_law(self.drop_next);
                return Some(packet);
            }
            drop(packet);
            packet = match self.take(queue, now) {
                Head::Late(next) => next,
                other @ (Head::Good(_) | Head::Empty) => {
                    self.dropping = false;
                    return other.packet();
                }
            };
            self.drop_next = self.control_law(self.drop_next);
        }
        Some(packet)
    }

    /// What the RFC calls `dodequeue`.
    fn take<P>(&mut self, queue: &mut Queue<P>, now: Nanos) -> Head<P> {
        let Some(packet) = queue.pop() else {
            self.first_above = None;
            return Head::Empty;
        };
        self.max_packet = self.max_packet.max(packet.info.len);
        // With no more than a packet behind it the queue is short, however slow the link is.
        if now.since(packet.entered) < self.target || queue.bytes() <= self.max_packet {
            self.first_above = None;
            return Head::Good(packet);
        }
        match self.first_above {
            Some(first_above) if now >= first_above => Head::Late(packet),
            Some(_) => Head::Good(packet),
            None => {
                self.first_above = Some(now.after(self.interval));
                Head::Good(packet)
            }
        }
    }

    /// Marks the packet, if that is wanted and possible.
    fn marks<P>(&self, packet: &mut Queued<P>) -> bool {
        packet.marked |= self.ecn && packet.info.ecn_capable;
        packet.marked
    }

    /// When to drop next, so that the number of drops grows with the square of the time.
    fn control_law(&self, from: Nanos) -> Nanos {
        from.after(Nanos::from_float(self.interval.to_float() / f64::from(self.count).sqrt()))
    }
}

impl<P> Head<P> {
    fn packet(self) -> Option<Queued<P>> {
        match self {
            Self::Empty => None,
            Self::Good(packet) | Self::Late(packet) => Some(packet),
        }
    }
}
