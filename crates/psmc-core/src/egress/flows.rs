//! Flow queueing (FQ-CoDel, RFC 8290): flows take turns, and those that send little go first.

use std::time::Instant;

use psmc_wire::{Bucket, BufPool};

use super::codel::Params;
use super::fattest::Fattest;
use super::flow::{Flow, Turns};
use super::slab::Slab;
use super::{QueueCounters, Queued, ecn};

/// Queues for flows: RFC 8290's number (§5.2.4). Fewer than buckets, because an entry of their table is larger
/// than a sequence number (80 KiB in all), and two flows that meet here do no more than share a turn.
const QUEUES: u16 = 1024;

/// The most packets that wait. At 1 Gbit/s full-size packets of the default MTU last for 45 ms.
pub(super) const MAX_PACKETS: usize = 4096;

/// The most bytes of buffers that wait; even a small packet has a buffer of the MTU's size. With an MTU below 4
/// KiB [`MAX_PACKETS`] is reached first.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// Flows that take turns.
#[derive(Debug)]
pub(super) struct FlowQueues {
    /// Made with the first packet.
    flows: Vec<Flow>,
    packets: Slab,
    fattest: Fattest,
    turns: Turns,
    /// Bytes of a turn: a packet of the largest size, so that a turn always lets one go.
    quantum: i32,
    params: Params,
    /// Bytes of all buffers.
    memory: usize,
    counters: QueueCounters,
}

impl FlowQueues {
    /// No flows yet; packets of up to `mtu` bytes.
    pub(super) fn new(mtu: u16) -> Self {
        Self {
            flows: Vec::new(),
            packets: Slab::default(),
            fattest: Fattest::default(),
            turns: Turns::default(),
            quantum: i32::from(mtu.max(1)),
            params: Params::new(mtu),
            memory: 0,
            counters: QueueCounters::default(),
        }
    }

    /// What CoDel judges by.
    pub(super) fn params(&mut self) -> &mut Params {
        &mut self.params
    }

    /// Appends a packet to its flow, then drops from the flow with the largest backlog until the bounds hold.
    pub(super) fn push(&mut self, packet: Queued, pool: &mut BufPool) {
        self.make_table();
        let index = queue_of(packet.bucket);
        let flow = &mut self.flows[usize::from(index)];
        flow.backlog += len_of(&packet);
        self.fattest.set(index, flow.backlog);
        self.memory += packet.packet.capacity();
        self.packets.push(&mut flow.packets, packet);
        self.turns.join(index, self.quantum, &mut self.flows);
        while self.packets.len() > MAX_PACKETS || self.memory > MAX_BYTES {
            let Some(victim) = self.fattest.take_turn().and_then(|fattest| self.take_head(fattest)) else {
                return;
            };
            self.counters.dropped_full += 1;
            pool.put(victim.packet);
        }
    }

    /// Takes the packet whose turn it is; what its flow has too much of goes to `pool`.
    pub(super) fn pop(&mut self, pool: &mut BufPool, now: Instant) -> Option<Queued> {
        loop {
            let index = self.turns.current(self.quantum, &mut self.flows)?;
            let Some(packet) = self.pop_from(index, pool, now) else {
                self.turns.leave(&mut self.flows);
                continue;
            };
            self.flows[usize::from(index)].deficit -= len_of(&packet).cast_signed();
            self.counters.passed += 1;
            return Some(packet);
        }
    }

    /// Drops the packets that are stale; says how long the oldest of the others has waited.
    pub(super) fn drop_stale(
        &mut self,
        is_stale: impl Fn(&Queued) -> bool,
        pool: &mut BufPool,
    ) -> Option<Instant> {
        let mut oldest = None;
        // The table has no more entries than that.
        for index in (0..QUEUES).take(self.flows.len()) {
            while let Some(head) = self.head_of(index) {
                if !is_stale(head) {
                    oldest = oldest.into_iter().chain([head.queued_at]).min();
                    break;
                }
                let stale = self.take_head(index);
                self.counters.dropped_stale += 1;
                stale.into_iter().for_each(|stale| pool.put(stale.packet));
            }
        }
        oldest
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What became of packets.
    pub(super) fn counters(&self) -> QueueCounters {
        self.counters
    }

    fn make_table(&mut self) {
        if self.flows.is_empty() {
            self.flows.resize_with(usize::from(QUEUES), Flow::default);
            self.fattest.grow(self.flows.len());
        }
    }

    /// Takes the first packet of a flow that CoDel lets pass.
    fn pop_from(&mut self, index: u16, pool: &mut BufPool, now: Instant) -> Option<Queued> {
        loop {
            let Some(mut packet) = self.take_head(index) else {
                self.flows[usize::from(index)].codel.on_empty();
                return None;
            };
            let flow = &mut self.flows[usize::from(index)];
            if !flow.codel.judge(packet.queued_at, flow.backlog, &self.params, now) {
                return Some(packet);
            }
            if ecn::mark(packet.packet.packet_mut()) {
                self.counters.marked += 1;
                return Some(packet);
            }
            self.counters.dropped_by_codel += 1;
            pool.put(packet.packet);
        }
    }

    fn head_of(&self, index: u16) -> Option<&Queued> {
        self.packets.first(&self.flows[usize::from(index)].packets)
    }

    fn take_head(&mut self, index: u16) -> Option<Queued> {
        let flow = &mut self.flows[usize::from(index)];
        let packet = self.packets.pop(&mut flow.packets)?;
        flow.backlog -= len_of(&packet);
        self.memory -= packet.packet.capacity();
        self.fattest.set(index, flow.backlog);
        Some(packet)
    }
}

/// The queue of a bucket's flows.
fn queue_of(bucket: Bucket) -> u16 {
    bucket.number() % QUEUES
}

fn len_of(packet: &Queued) -> u32 {
    u32::try_from(packet.packet.len()).unwrap_or(u32::MAX)
}
