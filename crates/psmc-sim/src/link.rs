//! One direction of a link, as a state machine.

mod codel;
mod config;
mod flows;
mod packet;
mod queue;
#[cfg(test)]
mod tests;
mod trace;
mod transmitter;
mod wire;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

pub use config::{Discipline, Jitter, LinkConfig, Loss, Probability, QueueLimit, Rate};
pub use packet::{Arrival, PacketInfo};
pub(crate) use queue::{Queued, Verdict, Waiting};
pub use trace::{Trace, TraceError};
pub(crate) use transmitter::{Clock, Nanos, Transmitter};
pub(crate) use wire::Dice;
use wire::{Flying, Wire};

/// One direction of a link.
///
/// ```text
/// handle_packet ──▶ MTU ──▶ RED, limit ──▶ queue ──▶ CoDel ──▶ transmitter ──▶ wire ──▶ poll_packet
///                    │          │                      │        (rate)         │ (loss, corruption, duplication,
///                    ▼          ▼                      ▼                       ▼  delay, jitter, order)
///                                          poll_dropped
/// ```
///
/// It knows nothing of packets but [`PacketInfo`]: `P` is whatever stands for one. All times are logical. A packet
/// that enters at `t`, when nothing else is there, leaves the transmitter at `t` plus its length by the rate, and
/// arrives the delay later, whenever the driver polls; the transmission of the next one begins when that of the one
/// before ended. So errors never add up, and the same calls of `handle_packet` and `reconfigure` yield the same
/// arrivals, however often and however late polls come between them. Times may go back: a packet that enters at a
/// time before that of the last call, which may be when it was captured, is sent as if it had been there, behind
/// those that are sent already.
///
/// Loss, corruption and duplication happen on the wire, behind the queue: a packet that gets lost did use the rate,
/// and one that arrives twice used it once.
///
/// Tell it what happens by [`handle_packet`](Self::handle_packet) and [`reconfigure`](Self::reconfigure), as often as
/// you like. Then, and whenever [`poll_timeout`](Self::poll_timeout) is due, call [`poll_packet`](Self::poll_packet)
/// and after it [`poll_dropped`](Self::poll_dropped) until they say `None`. Polling early or twice is harmless.
#[derive(Debug)]
pub struct Link<P> {
    config: LinkConfig,
    clock: Clock,
    dice: Dice,
    queue: Waiting<P>,
    transmitter: Transmitter,
    /// What the transmitter is busy with; if it is with nothing, the queue is empty.
    sending: Option<Queued<P>>,
    wire: Wire<P>,
    dropped: VecDeque<(P, DropReason)>,
    counters: LinkCounters,
}

impl<P> Link<P> {
    /// A link that begins at `now`, empty. Equal seeds give equal fates to equal packets.
    #[must_use]
    pub fn new(config: LinkConfig, seed: u64, now: Instant) -> Self {
        Self {
            clock: Clock::new(now),
            dice: Dice::new(seed),
            queue: Waiting::new(config.discipline),
            transmitter: Transmitter::new(&config.rate, Nanos::default()),
            sending: None,
            wire: Wire::new(),
            dropped: VecDeque::new(),
            counters: LinkCounters::default(),
            config,
        }
    }

    /// A packet enters.
    pub fn handle_packet(&mut self, packet: P, info: PacketInfo, now: Instant) {
        let now = self.clock.nanos(now);
        self.advance(now);
        self.counters.entered(info.len);
        match self.admit(info, now) {
            Ok(marked) => {
                self.queue.push(Queued { packet, info, entered: now, marked });
                self.transmit_next(now);
            }
            Err(reason) => self.drop_packet(packet, reason),
        }
    }

    /// The next packet that has arrived.
    pub fn poll_packet(&mut self, now: Instant) -> Option<Arrival<P>> {
        let now = self.clock.nanos(now);
        self.advance(now);
        let flying = self.wire.pop(now)?;
        self.counters.carried(flying.queued.info.len);
        self.counters.marked_packets += u64::from(flying.queued.marked);
        Some(self.arrival(flying))
    }

    /// A packet that was dropped. Every one comes out here, so that its buffer can be used again.
    pub fn poll_dropped(&mut self) -> Option<(P, DropReason)> {
        self.dropped.pop_front()
    }

    /// When to poll next; `None` if nothing is inside. Takes constant time.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        let flying = self.wire.next_arrival();
        let sending = self.sending.as_ref().map(|_| self.transmitter.free_at());
        let sent = sending.map(|end| self.wire.earliest_arrival(end, &self.config));
        flying.into_iter().chain(sent).min().map(|at| self.clock.instant(at))
    }

    /// Changes everything that differs in `config`, from `now` on.
    ///
    /// Packets on the wire arrive when they would have. What is in the queue, and what is left of the packet that is
    /// being sent, leaves at the new rate. A queue that is longer than its new limit keeps what it has. A trace
    /// begins anew if it is another one. Only a black hole lets what is inside vanish.
    pub fn reconfigure(&mut self, config: LinkConfig, now: Instant) {
        let now = self.clock.nanos(now);
        self.advance(now);
        if config.black_hole {
            self.vanish(now);
        }
        if config.discipline != self.config.discipline {
            self.queue.set_discipline(config.discipline);
        }
        if config.rate != self.config.rate {
            self.transmitter.set_rate(&config.rate, now);
        }
        self.config = config;
    }

    /// What it is like at present.
    #[must_use]
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// What it has done up to the last call that told it the time.
    #[must_use]
    pub fn counters(&self) -> &LinkCounters {
        &self.counters
    }

    /// Packets in the queue, the one that is being sent not counted, at the last call that told the time.
    #[must_use]
    pub fn queue_packets(&self) -> usize {
        self.queue.len()
    }

    /// Their bytes.
    #[must_use]
    pub fn queue_bytes(&self) -> usize {
        self.queue.bytes()
    }

    /// Packets anywhere inside: in the queue, being sent, on the wire.
    #[must_use]
    pub fn packets_inside(&self) -> usize {
        self.queue.len() + usize::from(self.sending.is_some()) + self.wire.len()
    }

    /// Does what was due until `now`.
    fn advance(&mut self, now: Nanos) {
        while self.transmitter.free_at() <= now
            && let Some(queued) = self.sending.take()
        {
            let end = self.transmitter.free_at();
            if let Err(lost) = self.wire.send(queued, end, &self.config, &mut self.dice) {
                self.drop_packet(lost.packet, DropReason::Loss);
            }
            self.transmit_next(end);
        }
    }

    /// Lets the transmitter begin with the packet whose turn it is, if it is free.
    fn transmit_next(&mut self, now: Nanos) {
        if self.sending.is_some() {
            return;
        }
        let Some(queued) = self.dequeue(now) else { return };
        let queueing = Duration::from(now.since(queued.entered));
        self.counters.longest_queueing = self.counters.longest_queueing.max(queueing);
        self.transmitter.send(queued.info.len, now);
        self.sending = Some(queued);
    }

    /// The packet to be sent next, after those that the discipline drops.
    fn dequeue(&mut self, now: Nanos) -> Option<Queued<P>> {
        let Self { queue, dropped, counters, .. } = self;
        queue.dequeue(now, &mut |queued| {
            counters.dropped(DropReason::Discipline);
            dropped.push_back((queued.packet, DropReason::Discipline));
        })
    }

    /// Whether a packet may enter the queue, and if so, whether it is marked.
    fn admit(&mut self, info: PacketInfo, now: Nanos) -> Result<bool, DropReason> {
        if self.config.black_hole {
            return Err(DropReason::BlackHole);
        }
        if self.config.mtu.is_some_and(|mtu| info.len > mtu) {
            return Err(DropReason::TooLong);
        }
        let idle = self.sending.is_none();
        let idle_capacity = || idle.then(|| self.transmitter.capacity(self.transmitter.free_at(), now));
        let verdict = self.queue.judge(info, idle_capacity, &mut self.dice);
        self.make_room(info.len, now);
        match verdict {
            Verdict::Drop => Err(DropReason::Discipline),
            Verdict::Accept | Verdict::Mark if !self.has_room(info.len, now) => Err(DropReason::QueueFull),
            Verdict::Accept => Ok(false),
            Verdict::Mark => Ok(true),
        }
    }

    /// Makes room for so many bytes more, if the discipline has others pay for it.
    fn make_room(&mut self, len: usize, now: Nanos) {
        while !self.has_room(len, now)
            && let Some(queued) = self.queue.make_room()
        {
            self.drop_packet(queued.packet, DropReason::QueueFull);
        }
    }

    /// Whether the queue has room for so many bytes more. What can be sent at once needs none.
    fn has_room(&self, len: usize, now: Nanos) -> bool {
        if self.sending.is_none() {
            return true;
        }
        let bytes = self.queue.bytes() + len;
        match self.config.queue {
            QueueLimit::Packets(limit) => self.queue.len() < limit,
            QueueLimit::Bytes(limit) => bytes <= limit,
            QueueLimit::Time(limit) => {
                bytes as u64 <= self.transmitter.capacity(now, now.after(limit.into()))
            }
        }
    }

    /// Whatever has not arrived is dropped.
    fn vanish(&mut self, now: Nanos) {
        self.transmitter.stop(now);
        if let Some(queued) = self.sending.take() {
            self.drop_packet(queued.packet, DropReason::BlackHole);
        }
        while let Some(queued) = self.queue.pop() {
            self.drop_packet(queued.packet, DropReason::BlackHole);
        }
        for packet in self.wire.cut(now) {
            self.drop_packet(packet, DropReason::BlackHole);
        }
    }

    fn drop_packet(&mut self, packet: P, reason: DropReason) {
        self.counters.dropped(reason);
        self.dropped.push_back((packet, reason));
    }

    fn arrival(&self, flying: Flying<P>) -> Arrival<P> {
        Arrival {
            at: self.clock.instant(flying.at),
            copies: flying.copies,
            corrupt_bit: flying.corrupt_bit,
            congestion_experienced: flying.queued.marked,
            packet: flying.queued.packet,
        }
    }
}

// What a link tells of itself.

/// Why a link has dropped a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum DropReason {
    /// By chance on the wire, as configured.
    Loss,
    /// The queue was full.
    QueueFull,
    /// The queue discipline thought it better.
    Discipline,
    /// It is longer than the MTU.
    TooLong,
    /// Nothing gets through.
    BlackHole,
}

/// What a link has done so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LinkCounters {
    /// Packets that entered.
    pub entered_packets: u64,
    /// Their bytes.
    pub entered_bytes: u64,
    /// Packets that arrived, copies counted once.
    pub carried_packets: u64,
    /// Their bytes.
    pub carried_bytes: u64,
    /// Packets dropped for each [`DropReason`], in their order.
    pub dropped: [u64; 5],
    /// Packets that arrived with a mark of the queue discipline.
    pub marked_packets: u64,
    /// The longest time in the queue.
    pub longest_queueing: Duration,
}

impl LinkCounters {
    /// Packets dropped for this reason.
    #[must_use]
    pub fn dropped_for(&self, reason: DropReason) -> u64 {
        self.dropped[reason as usize]
    }

    /// Packets dropped for any reason.
    #[must_use]
    pub fn dropped_packets(&self) -> u64 {
        self.dropped.iter().sum()
    }

    fn entered(&mut self, len: usize) {
        self.entered_packets += 1;
        self.entered_bytes += len as u64;
    }

    fn carried(&mut self, len: usize) {
        self.carried_packets += 1;
        self.carried_bytes += len as u64;
    }

    fn dropped(&mut self, reason: DropReason) {
        self.dropped[reason as usize] += 1;
    }
}
