//! Flow queueing with controlled delay (FQ-CoDel, RFC 8290): flows take turns, those that send little go first, and each
//! has a controlled delay of its own.

use std::collections::VecDeque;

use super::PacketInfo;
use super::codel::CoDel;
use super::queue::{Queue, Queued};
use super::transmitter::Nanos;

/// Queues for flows (RFC 8290 §5.2.4). Flows that meet in one share its turn.
const QUEUES: u16 = 1024;

/// Bytes of a turn: a full packet of Ethernet (RFC 8290 §5.2.5).
const QUANTUM: i64 = 1514;

/// What is taken for the length of a packet that is not known, in bytes.
const FULL_PACKET: usize = 1500;

/// The flows of a link. Who adds to it sees to its limit, by [`drop_fattest`](Self::drop_fattest).
#[derive(Debug)]
pub(crate) struct Flows<P> {
    flows: Vec<Flow<P>>,
    /// Flows that have begun to send after a pause; they go first once.
    new: VecDeque<u16>,
    old: VecDeque<u16>,
    packets: usize,
    bytes: usize,
}

#[derive(Debug)]
struct Flow<P> {
    queue: Queue<P>,
    codel: CoDel,
    /// Bytes that it may still send in its turn.
    deficit: i64,
    /// Whether it takes turns.
    listed: bool,
}

impl<P> Flows<P> {
    /// Without packets; `target`, `interval` and `ecn` as [`CoDel`] has them.
    pub(crate) fn new(target: Nanos, interval: Nanos, ecn: bool) -> Self {
        let flow = |_| Flow {
            queue: Queue::new(),
            codel: CoDel::new(target, interval, ecn),
            deficit: 0,
            listed: false,
        };
        Self {
            flows: (0..QUEUES).map(flow).collect(),
            new: VecDeque::new(),
            old: VecDeque::new(),
            packets: 0,
            bytes: 0,
        }
    }

    /// Appends a packet to its flow.
    pub(crate) fn push(&mut self, packet: Queued<P>) {
        let number = flow_of(packet.info);
        self.packets += 1;
        self.bytes += packet.info.len;
        let flow = &mut self.flows[usize::from(number)];
        flow.queue.push(packet);
        if !std::mem::replace(&mut flow.listed, true) {
            flow.deficit = QUANTUM;
            self.new.push_back(number);
        }
    }

    /// The packet to be sent at `now`; those that are not worth it go to `drop` (RFC 8290 §4.2).
    pub(crate) fn dequeue(&mut self, now: Nanos, drop: &mut impl FnMut(Queued<P>)) -> Option<Queued<P>> {
        loop {
            let number = *self.new.front().or_else(|| self.old.front())?;
            let flow = &mut self.flows[usize::from(number)];
            if flow.deficit <= 0 {
                flow.deficit += QUANTUM;
                self.end_turn();
                continue;
            }
            let (packets, bytes) = (flow.queue.len(), flow.queue.bytes());
            let packet = flow.codel.dequeue(&mut flow.queue, now, drop);
            self.packets -= packets - flow.queue.len();
            self.bytes -= bytes - flow.queue.bytes();
            if let Some(packet) = packet {
                flow.deficit -= i64::try_from(packet.info.len).unwrap_or(i64::MAX);
                return Some(packet);
            }
            self.leave();
        }
    }

    /// Takes the first packet of the flow with the most bytes (RFC 8290 §4.1).
    pub(crate) fn drop_fattest(&mut self) -> Option<Queued<P>> {
        let fattest = self.flows.iter_mut().max_by_key(|flow| (flow.queue.bytes(), flow.queue.len()))?;
        let packet = fattest.queue.pop()?;
        self.packets -= 1;
        self.bytes -= packet.info.len;
        Some(packet)
    }

    /// The length of the packet whose turn it most likely is: a turn may end before, and its discipline may drop it.
    pub(crate) fn next_len(&self) -> Option<usize> {
        let number = self.new.front().or_else(|| self.old.front())?;
        let next = self.flows[usize::from(*number)].queue.next_len();
        next.or_else(|| (self.packets > 0).then_some(FULL_PACKET))
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.packets
    }

    /// Their bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The flow whose turn it is has nothing to send. One that was new stays for a round of the others: it would be new
    /// with each of its packets otherwise.
    fn leave(&mut self) {
        if !self.new.is_empty() {
            return self.end_turn();
        }
        if let Some(number) = self.old.pop_front() {
            self.flows[usize::from(number)].listed = false;
        }
    }

    /// The flow whose turn it is goes behind all others.
    fn end_turn(&mut self) {
        let number = self.new.pop_front().or_else(|| self.old.pop_front());
        self.old.extend(number);
    }
}

fn flow_of(info: PacketInfo) -> u16 {
    u16::try_from(info.flow % u32::from(QUEUES)).unwrap_or_default()
}
