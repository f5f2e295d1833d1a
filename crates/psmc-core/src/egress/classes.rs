//! Classes take turns by priority and weight, and share the room.

use std::time::Instant;

use psmc_wire::{Bucket, BufPool};

use super::class::{ClassQueue, QUEUES, Store, queue_of};
use super::codel::Params;
use super::protection::Protection;
use super::{ClassStatus, Losses, Queued};
use crate::classify::{ClassConfig, ClassId};
use crate::flows::{Fate, FlowRef};

/// The most packets that wait. At 1 Gbit/s full-size packets of the default MTU last for 45 ms.
pub(super) const MAX_PACKETS: usize = 4096;

/// The most bytes of buffers that wait; even a small packet has a buffer of the MTU's size. With an MTU below 4
/// KiB [`MAX_PACKETS`] is reached first.
pub(super) const MAX_BYTES: usize = 16 << 20;

/// The classes of a queue.
///
/// Deficit round robin by weight (Shreedhar and Varghese 1995), but within a round the classes go by priority and
/// not in turn. So a class is served at once as long as it keeps to its share, and one that exceeds its share
/// can't keep the others waiting for longer than that: priority that nobody can abuse.
#[derive(Debug)]
pub(super) struct ClassQueues {
    /// By their numbers.
    classes: Vec<Class>,
    /// Their numbers, the one with the highest priority first.
    order: Vec<usize>,
    /// Bytes of a share of one.
    quantum: i32,
    store: Store,
    params: Params,
}

#[derive(Debug)]
struct Class {
    name: String,
    queue: ClassQueue,
    /// If flows that build a queue have no place here.
    protection: Option<Protection>,
    /// Bytes that it may send in a round.
    share: i32,
    /// What is left of that; negative if its last packet was longer.
    deficit: i32,
    /// How many rounds it has had, where classes wait for different paths.
    round: u64,
}

/// So many rounds a class may be behind others: once its paths have room again it has a share more than they, and no more.
const MOST_BEHIND: u64 = 1;

impl Class {
    /// Gives it its share once more. A class that had nothing to send saves none for later.
    fn replenish(&mut self) {
        self.deficit = (self.deficit + self.share).min(self.share);
    }

    fn charge(&mut self, packet: &Queued) {
        self.deficit -= i32::try_from(packet.packet.len()).unwrap_or(i32::MAX);
    }
}

impl ClassQueues {
    /// No packets yet; they may have up to `mtu` bytes.
    pub(super) fn new(configs: &[ClassConfig], mtu: u16) -> Self {
        let quantum = i32::from(mtu.max(1));
        let (classes, order) = classes_of(configs, quantum);
        Self { classes, order, quantum, store: Store::default(), params: Params::new(mtu) }
    }

    /// Sets other classes. Returns the one that has the name of each of those before, and what waits in these, in the order in which
    /// it came.
    pub(super) fn replace(&mut self, configs: &[ClassConfig]) -> (Vec<ClassId>, Vec<Queued>) {
        let mut waiting = Vec::new();
        for class in &mut self.classes {
            waiting.extend(class.queue.take_all(&mut self.store));
        }
        waiting.sort_by_key(|packet| packet.queued_at);
        let before = std::mem::take(&mut self.classes);
        (self.classes, self.order) = classes_of(configs, self.quantum);
        self.store = Store { losses: self.store.losses.take(), ..Store::default() };
        for class in &mut self.classes {
            if let Some(same) = before.iter().find(|other| other.name == class.name) {
                class.queue.go_on_counting(same.queue.counters());
            }
        }
        let same = |class: &Class| configs.iter().position(|config| config.name == class.name);
        let moved = before.iter().map(|class| same(class).map(ClassId::at).unwrap_or_default());
        (moved.collect(), waiting)
    }

    /// What was dropped.
    pub(super) fn losses(&mut self) -> &mut Losses {
        &mut self.store.losses
    }

    /// What CoDel judges by.
    pub(super) fn params(&mut self) -> &mut Params {
        &mut self.params
    }

    /// Appends a packet to its flow, then drops from the flow with the largest backlog until the bounds hold.
    pub(super) fn push(&mut self, mut packet: Queued, pool: &mut BufPool) {
        self.protect(&mut packet);
        let Some(class) = self.classes.get_mut(packet.class.index()) else {
            return pool.put(packet.packet);
        };
        let room = self.params.room(packet.queued_at);
        if let Some(superseded) = class.queue.push(packet, &mut self.store, &self.params) {
            self.store.note_drop(&superseded);
            pool.put(superseded.packet);
        }
        while self.store.packets.len() > MAX_PACKETS
            || self.store.memory > room.memory.min(MAX_BYTES)
            || self.store.bytes > room.bytes
        {
            let Some(fattest) = self.store.fattest.take_turn() else {
                return;
            };
            let class = &mut self.classes[usize::from(fattest / QUEUES)];
            class.queue.drop_for_room(fattest % QUEUES, &mut self.store, pool);
        }
    }

    /// Puts a packet of a flow that builds a queue in a protected class among those of no class.
    fn protect(&mut self, packet: &mut Queued) {
        if packet.role.is_of_stream() {
            return;
        }
        let Some((rest, classes)) = self.classes.split_first_mut() else { return };
        let Some(class) = packet.class.index().checked_sub(1).and_then(|index| classes.get_mut(index)) else {
            return;
        };
        let Some(protection) = &mut class.protection else { return };
        let (bucket, len) = (packet.bucket, u32::try_from(packet.packet.len()).unwrap_or(u32::MAX));
        let waiting = class.queue.waiting(bucket) + rest.queue.waiting(bucket);
        if protection.puts_out(queue_of(bucket), QUEUES, waiting, len, packet.queued_at) {
            packet.class = ClassId::default();
            class.queue.count_put_out();
        }
    }

    /// Takes the packet whose turn it is; what its flow has too much of goes to `pool`.
    pub(super) fn pop(&mut self, pool: &mut BufPool, now: Instant) -> Option<Queued> {
        if self.is_empty() {
            return None;
        }
        let number = self.next_class(|_, class| class.queue.backlog().0 > 0);
        let packet = self.pop_of(number, pool, now)?;
        self.classes[number].charge(&packet);
        Some(packet)
    }

    /// Takes the next packet of a class, which is to be charged when it goes; what its flow has too much of goes to `pool`.
    pub(super) fn pop_of(&mut self, number: usize, pool: &mut BufPool, now: Instant) -> Option<Queued> {
        self.classes[number].queue.pop(&mut self.store, &self.params, pool, now)
    }

    /// A packet of its class goes.
    pub(super) fn charge(&mut self, packet: &Queued) {
        if let Some(class) = self.classes.get_mut(packet.class.index()) {
            class.charge(packet);
        }
    }

    /// Packets of a class that wait.
    pub(super) fn waiting(&self, number: usize) -> usize {
        self.classes.get(number).map_or(0, |class| class.queue.backlog().0)
    }

    /// The class whose turn it is, of those that are open and ready; `is_ready` is told whether packets wait here.
    ///
    /// Classes that are not open, as their paths have no room, keep what is left of their share, and the others go on with new ones
    /// meanwhile. So that they don't do so on paths that they share with them, the class with the fewest rounds goes first.
    pub(super) fn next_of(
        &mut self,
        is_open: impl Fn(usize) -> bool,
        is_ready: impl Fn(usize, bool) -> bool,
    ) -> Option<usize> {
        let may =
            |number: usize, class: &Class| is_open(number) && is_ready(number, class.queue.backlog().0 > 0);
        if !self.classes.iter().enumerate().any(|(number, class)| may(number, class)) {
            return None;
        }
        loop {
            let newest = self.classes.iter().map(|class| class.round).max().unwrap_or_default();
            let round = |number: &usize| self.classes[*number].round.max(newest.saturating_sub(MOST_BEHIND));
            let open = self.order.iter().copied();
            let ready = open
                .filter(|number| self.classes[*number].deficit > 0 && may(*number, &self.classes[*number]));
            if let Some(number) = ready.min_by_key(round) {
                return Some(number);
            }
            for (_, class) in self.classes.iter_mut().enumerate().filter(|(number, _)| is_open(*number)) {
                class.replenish();
                class.round = (class.round + 1).max(newest.saturating_sub(MOST_BEHIND));
            }
        }
    }

    /// Whether the packet of a flow that has left last came by itself, and no other has come since.
    pub(super) fn is_alone(&self, class: ClassId, bucket: Bucket) -> bool {
        self.classes.get(class.index()).is_some_and(|class| class.queue.is_alone(bucket))
    }

    /// Drops the packets that are stale; says since when the oldest of the others has waited.
    pub(super) fn drop_stale(
        &mut self,
        is_stale: impl Fn(&Queued) -> bool,
        pool: &mut BufPool,
    ) -> Option<Instant> {
        let oldest = |class: &mut Class| class.queue.drop_stale(&is_stale, &mut self.store, pool);
        self.classes.iter_mut().filter_map(oldest).min()
    }

    /// Something became of a packet elsewhere.
    pub(super) fn note(&mut self, packet: &Queued, fate: Fate) {
        self.store.note(packet, fate);
    }

    /// Whether something became of packets of flows since that was last taken.
    pub(super) fn has_fates(&self) -> bool {
        !self.store.fates.is_empty()
    }

    /// What became of packets of flows since this was last asked.
    pub(super) fn take_fates(&mut self) -> impl Iterator<Item = (FlowRef, Fate)> + '_ {
        self.store.fates.drain(..)
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.store.packets.len()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The classes, by their numbers.
    pub(super) fn status(&self) -> impl Iterator<Item = ClassStatus> {
        self.classes.iter().map(|class| {
            let (queued_packets, queued_bytes) = class.queue.backlog();
            let counters = class.queue.counters();
            ClassStatus { name: class.name.clone(), queued_packets, queued_bytes, is_stuck: false, counters }
        })
    }

    /// The class whose turn it is, of those that are ready, of which there must be one.
    fn next_class(&mut self, is_ready: impl Fn(usize, &Class) -> bool) -> usize {
        loop {
            let may = |&&number: &&usize| {
                let class = &self.classes[number];
                class.deficit > 0 && is_ready(number, class)
            };
            if let Some(&number) = self.order.iter().find(may) {
                return number;
            }
            self.classes.iter_mut().for_each(Class::replenish);
        }
    }
}

/// Empty classes by their numbers, and the numbers in the order of priority.
fn classes_of(configs: &[ClassConfig], quantum: i32) -> (Vec<Class>, Vec<usize>) {
    let class = |(number, config): (u16, &ClassConfig)| {
        let share = quantum * i32::from(config.weight);
        let protection = config.queue_protection.then(Protection::default);
        Class {
            name: config.name.clone(),
            queue: ClassQueue::new(number),
            protection,
            share,
            deficit: share,
            round: 0,
        }
    };
    let mut order: Vec<_> = (0..configs.len()).collect();
    order.sort_by_key(|&number| configs[number].priority);
    ((0..).zip(configs).map(class).collect(), order)
}
