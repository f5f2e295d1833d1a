//! The flows of one class (FQ-CoDel, RFC 8290): they take turns, and those that send little go first.

use std::time::{Duration, Instant};

use psmc_wire::{Bucket, BufPool};

use super::codel::Params;
use super::flow::Fattest;
use super::flow::{Flow, Turns};
use super::{Losses, QueueCounters, Queued, acks, ecn, note_loss};
use crate::flows::{Fate, FlowRef};
use crate::slab::Slab;

/// Queues for the flows of a class: RFC 8290's number (§5.2.4). Fewer than buckets, because an entry of their table
/// is larger than a sequence number (80 KiB in all), and two flows that meet here do no more than share a turn.
pub(super) const QUEUES: u16 = 1024;

/// Packets that are so far apart, or further, come by themselves. Voice and video come every 10 to 20 ms; bulk transfers of
/// more than 2.4 Mbit/s come faster.
const SPARSE: Duration = Duration::from_millis(5);

/// The packets of all classes.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) packets: Slab<Queued>,
    pub(super) fattest: Fattest,
    /// Bytes of all buffers.
    pub(super) memory: usize,
    /// Bytes of all packets.
    pub(super) bytes: u64,
    /// What was dropped.
    pub(super) losses: Losses,
    /// What became of packets of flows, until somebody asks: after each packet that comes, and each time that some go.
    pub(super) fates: Vec<(FlowRef, Fate)>,
}

impl Store {
    /// A packet is dropped.
    pub(super) fn note_drop(&mut self, packet: &Queued) {
        self.note(packet, Fate::Dropped(packet.len()));
    }

    /// Something becomes of a packet, for whoever counts flows.
    pub(super) fn note(&mut self, packet: &Queued, fate: Fate) {
        if packet.flow.is_known() {
            self.fates.push((packet.flow, fate));
        }
    }
}

/// The flows of a class.
#[derive(Debug)]
pub(super) struct ClassQueue {
    /// Made with the first packet.
    flows: Vec<Flow>,
    /// The number of its first flow among those of all classes.
    first_flow: u16,
    turns: Turns,
    packets: usize,
    bytes: u64,
    counters: QueueCounters,
}

impl ClassQueue {
    /// The class of this number, without a flow yet.
    pub(super) fn new(number: u16) -> Self {
        Self {
            flows: Vec::new(),
            first_flow: number * QUEUES,
            turns: Turns::default(),
            packets: 0,
            bytes: 0,
            counters: QueueCounters::default(),
        }
    }

    /// Appends a packet to its flow; returns the one before if this one says all that it did, and is in its place.
    pub(super) fn push(&mut self, packet: Queued, store: &mut Store, params: &Params) -> Option<Queued> {
        if self.flows.is_empty() {
            self.flows.resize_with(usize::from(QUEUES), Flow::default);
            store.fattest.grow(usize::from(self.first_flow + QUEUES));
        }
        let index = queue_of(packet.bucket);
        let flow = &mut self.flows[usize::from(index)];
        flow.sparse = flow.packets.is_empty() && flow.codel.has_paused(SPARSE, packet.queued_at);
        flow.codel.on_packet(packet.queued_at);
        self.count_in(index, &packet, store);
        let flow = &mut self.flows[usize::from(index)];
        if let Some(last) =
            store.packets.last_mut(&flow.packets).filter(|last| acks::supersedes(&packet, last))
        {
            let superseded = std::mem::replace(last, packet);
            self.count_out(index, &superseded, store);
            self.counters.superseded += 1;
            self.flows[usize::from(index)].thins = true;
            return Some(superseded);
        }
        store.packets.push(&mut flow.packets, packet);
        self.turns.join(index, params.turn(), &mut self.flows);
        None
    }

    /// Bytes of a bucket's flows that wait.
    pub(super) fn waiting(&self, bucket: Bucket) -> u32 {
        self.flows.get(usize::from(queue_of(bucket))).map_or(0, |flow| flow.backlog)
    }

    /// Counts a packet that went to another class.
    pub(super) fn count_put_out(&mut self) {
        self.counters.put_out += 1;
    }

    /// Takes all packets, those of each flow in their order.
    pub(super) fn take_all(&mut self, store: &mut Store) -> Vec<Queued> {
        let flows = (0..QUEUES).take(self.flows.len());
        flows
            .flat_map(|flow| std::iter::from_fn(|| self.take_head(flow, store)).collect::<Vec<_>>())
            .collect()
    }

    /// Counts on from these.
    pub(super) fn go_on_counting(&mut self, counters: QueueCounters) {
        self.counters = counters;
    }

    /// Takes the packet whose turn it is; what its flow has too much of goes to `pool`.
    pub(super) fn pop(
        &mut self,
        store: &mut Store,
        params: &Params,
        pool: &mut BufPool,
        now: Instant,
    ) -> Option<Queued> {
        loop {
            let index = self.turns.current(params.turn(), &mut self.flows)?;
            let Some(packet) = self.pop_from(index, store, params, pool, now) else {
                self.flows[usize::from(index)].overdraws = false;
                self.turns.leave(&mut self.flows);
                continue;
            };
            let flow = &mut self.flows[usize::from(index)];
            let is_thinned = flow.thins && acks::is_plain(&packet);
            flow.deficit -= if is_thinned { params.acknowledgement() } else { len_of(&packet).cast_signed() };
            flow.overdraws = flow.deficit <= 0
                && flow.deficit > -params.turn()
                && store.packets.first(&flow.packets).is_some_and(|next| next.packet.continues());
            self.counters.passed += 1;
            self.counters.passed_bytes += u64::from(len_of(&packet));
            return Some(packet);
        }
    }

    /// Drops the first packet of a flow, of which there were too many.
    pub(super) fn drop_for_room(&mut self, flow: u16, store: &mut Store, pool: &mut BufPool) {
        self.pass_over_streams(flow, store);
        if let Some(packet) = self.take_head(flow, store) {
            self.counters.dropped_full += 1;
            note_loss(&mut store.losses, &packet);
            store.note_drop(&packet);
            pool.put(packet.packet);
        }
    }

    /// Drops the packets that are stale; says since when the oldest of the others has waited.
    pub(super) fn drop_stale(
        &mut self,
        is_stale: impl Fn(&Queued) -> bool,
        store: &mut Store,
        pool: &mut BufPool,
    ) -> Option<Instant> {
        let mut oldest = None;
        for index in (0..QUEUES).take(self.flows.len()) {
            self.pass_over_streams(index, store);
            while let Some(head) = store.packets.first(&self.flows[usize::from(index)].packets) {
                if !is_stale(head) {
                    let since = Some(head.queued_at).filter(|_| !head.role.is_of_stream());
                    oldest = oldest.into_iter().chain(since).min();
                    break;
                }
                let stale = self.take_head(index, store);
                self.counters.dropped_stale += 1;
                if let Some(stale) = stale {
                    note_loss(&mut store.losses, &stale);
                    store.note_drop(&stale);
                    pool.put(stale.packet);
                }
            }
        }
        oldest
    }

    /// Whether the packet of the flow that has left last came by itself, and no other has come since.
    pub(super) fn is_alone(&self, bucket: Bucket) -> bool {
        let flow = self.flows.get(usize::from(queue_of(bucket)));
        flow.is_some_and(|flow| flow.sparse && flow.packets.is_empty())
    }

    /// Packets and bytes that wait.
    pub(super) fn backlog(&self) -> (usize, u64) {
        (self.packets, self.bytes)
    }

    /// What became of packets.
    pub(super) fn counters(&self) -> QueueCounters {
        self.counters
    }

    /// Takes the first packet of a flow that CoDel lets pass.
    fn pop_from(
        &mut self,
        index: u16,
        store: &mut Store,
        params: &Params,
        pool: &mut BufPool,
        now: Instant,
    ) -> Option<Queued> {
        loop {
            let Some(mut packet) = self.take_head(index, store) else {
                self.flows[usize::from(index)].codel.on_empty();
                return None;
            };
            if packet.role.is_of_stream() {
                return Some(packet);
            }
            let flow = &mut self.flows[usize::from(index)];
            if !flow.codel.judge(packet.queued_at, flow.backlog, params, now) {
                return Some(packet);
            }
            if ecn::mark(packet.packet.packet_mut()) {
                self.counters.marked += 1;
                return Some(packet);
            }
            self.counters.dropped_by_codel += 1;
            note_loss(&mut store.losses, &packet);
            store.note_drop(&packet);
            pool.put(packet.packet);
        }
    }

    /// Puts what belongs to streams behind the packets of a flow that share its queue, if there are any. Streams mind no order.
    fn pass_over_streams(&mut self, index: u16, store: &mut Store) {
        while let flow = &mut self.flows[usize::from(index)]
            && flow.backlog > 0
            && store.packets.first(&flow.packets).is_some_and(|head| head.role.is_of_stream())
            && let Some(packet) = store.packets.pop(&mut flow.packets)
        {
            store.packets.push(&mut flow.packets, packet);
        }
    }

    fn take_head(&mut self, index: u16, store: &mut Store) -> Option<Queued> {
        let flow = &mut self.flows[usize::from(index)];
        let packet = store.packets.pop(&mut flow.packets)?;
        self.count_out(index, &packet, store);
        Some(packet)
    }

    /// A packet waits in a flow.
    fn count_in(&mut self, index: u16, packet: &Queued, store: &mut Store) {
        let flow = &mut self.flows[usize::from(index)];
        flow.backlog += packet.bulk();
        self.packets += 1;
        self.bytes += u64::from(len_of(packet));
        if !packet.role.is_of_stream() {
            store.memory += packet.packet.capacity();
            store.bytes += u64::from(len_of(packet));
        }
        store.fattest.set(self.first_flow + index, flow.backlog);
    }

    /// A packet waits in a flow no more.
    fn count_out(&mut self, index: u16, packet: &Queued, store: &mut Store) {
        let flow = &mut self.flows[usize::from(index)];
        flow.backlog -= packet.bulk();
        self.packets -= 1;
        self.bytes -= u64::from(len_of(packet));
        if !packet.role.is_of_stream() {
            store.memory -= packet.packet.capacity();
            store.bytes -= u64::from(len_of(packet));
        }
        store.fattest.set(self.first_flow + index, flow.backlog);
    }
}

/// The queue of a bucket's flows.
pub(super) fn queue_of(bucket: Bucket) -> u16 {
    bucket.number() % QUEUES
}

fn len_of(packet: &Queued) -> u32 {
    u32::try_from(packet.packet.len()).unwrap_or(u32::MAX)
}
