//! The flows that are known, in a room that never grows.

use std::time::Instant;

use psmc_wire::Bucket;

use super::FlowCounts;
use super::recent::Recent;
use super::seen::{Ends, Seen};
use crate::classify::ClassId;
use crate::ids::PeerId;

/// Sets of places, each for the flows of the same hash.
const SETS: usize = 1024;

/// Places in a set: with 4000 flows at a time one in fifty finds its set full, and the one of them that has been quiet for longest
/// goes. All places together take 1.3 MiB.
const WAYS: usize = 8;

/// What tells flows apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Key {
    pub(super) ends: Ends,
    pub(super) peer: PeerId,
    pub(super) is_sent: bool,
    pub(super) class: ClassId,
}

/// What a flow has carried.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    pub(super) first: Instant,
    pub(super) last: Instant,
    pub(super) counts: FlowCounts,
    pub(super) tos: u8,
    pub(super) tcp_flags: u8,
}

impl Flow {
    /// The flow of a packet that is still to be counted.
    pub(super) fn new(seen: Seen, now: Instant) -> Self {
        Self { tos: seen.tos, ..Self::empty(now) }
    }

    /// A flow that has carried nothing.
    pub(super) fn empty(now: Instant) -> Self {
        Self { first: now, last: now, counts: FlowCounts::default(), tos: 0, tcp_flags: 0 }
    }

    /// A packet of it has passed.
    pub(super) fn note(&mut self, tcp_flags: u8, len: usize, now: Instant) {
        if self.counts.packets == 0 {
            self.first = now;
        }
        self.last = now;
        self.tcp_flags |= tcp_flags;
        self.counts.packets += 1;
        self.counts.bytes += len as u64;
    }

    /// Ends the record, and begins the next one of the same flow.
    pub(super) fn begin_anew(&mut self, now: Instant) -> Self {
        let so_far = *self;
        (self.first, self.counts) = (now, FlowCounts::default());
        so_far
    }
}

/// Where a flow may be.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot(usize);

impl Slot {
    /// The set of a bucket of a peer. Buckets are keyed hashes, which nobody in the tunnel can aim at one set; a peer can with those
    /// of its own, whose flows then push each other out.
    pub(super) fn of(bucket: Bucket, peer: PeerId, is_sent: bool) -> Self {
        let mixed = peer.0.wrapping_mul(0x9E37_79B1) >> 16 ^ u32::from(is_sent) << 9;
        Self((usize::from(bucket.number()) ^ mixed as usize) % SETS)
    }
}

/// Where a flow is, as long as no other one is there: a number of its place, and how many flows have had that, in one word, for it
/// travels with each packet. By default that is nowhere. Who holds one for so long that half a million flows have had the place
/// meanwhile takes another flow for his.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Place(u32);

/// Bits of the number of a place.
const INDEX_BITS: u32 = (SETS * WAYS).ilog2();

impl Place {
    #[expect(
        clippy::cast_possible_truncation,
        reason = "places are fewer than 2^13, and the number of tenants may wrap"
    )]
    fn new(index: usize, tenant: u32) -> Self {
        Self(tenant << INDEX_BITS | index as u32)
    }

    fn index(self) -> usize {
        self.0 as usize % (SETS * WAYS)
    }
}

/// The places of flows of the same hash.
#[derive(Debug, Default)]
struct Set {
    /// What one of them has carried of late, which is still to be counted for it.
    recent: Option<Recent>,
    entries: [Entry; WAYS],
}

/// A place, and who has it.
#[derive(Debug, Default)]
struct Entry {
    held: Option<(Key, Flow)>,
    /// How many flows have had it, from 1 on.
    tenant: u32,
}

/// A flow that is known.
pub(super) type Found<'a> = (Place, &'a Key, &'a mut Flow);

/// All places.
#[derive(Debug)]
pub(super) struct Table {
    sets: Box<[Set]>,
}

impl Table {
    /// Empty, with all the room that it will ever have.
    pub(super) fn new() -> Self {
        Self { sets: std::iter::repeat_with(Set::default).take(SETS).collect() }
    }

    /// The flow of the set that has carried something last, if it may carry more before that is counted.
    #[inline]
    pub(super) fn recent(&mut self, slot: Slot) -> Option<&mut Recent> {
        self.sets.get_mut(slot.0)?.recent.as_mut()
    }

    /// From now on this is the flow of the set that has carried something last.
    pub(super) fn set_recent(&mut self, slot: Slot, recent: Recent) {
        if let Some(set) = self.sets.get_mut(slot.0) {
            set.settle();
            set.recent = Some(recent);
        }
    }

    /// The flow that is the one.
    pub(super) fn find(&mut self, slot: Slot, is_it: impl Fn(&Key) -> bool) -> Option<Found<'_>> {
        let entries = &mut self.sets.get_mut(slot.0)?.entries;
        let is_there = |entry: &Entry| entry.held.as_ref().is_some_and(|(key, _)| is_it(key));
        let way = entries.iter().position(is_there)?;
        let entry = &mut entries[way];
        let place = Place::new(slot.0 * WAYS + way, entry.tenant);
        entry.held.as_mut().map(|(key, flow)| (place, &*key, flow))
    }

    /// Gives a flow a place, if one is free.
    pub(super) fn insert(&mut self, slot: Slot, key: Key, flow: Flow) -> Option<Place> {
        let entries = &mut self.sets.get_mut(slot.0)?.entries;
        let way = entries.iter().position(|entry| entry.held.is_none())?;
        let entry = &mut entries[way];
        entry.held = Some((key, flow));
        entry.tenant = (entry.tenant + 1) % (1 << (u32::BITS - INDEX_BITS));
        // No place is the one that is nowhere.
        entry.tenant = entry.tenant.max(1);
        Some(Place::new(slot.0 * WAYS + way, entry.tenant))
    }

    /// The flow at a place, unless another one is there. What it has carried of late may still be missing.
    pub(super) fn get_mut(&mut self, place: Place) -> Option<&mut Flow> {
        self.sets.get_mut(place.index() / WAYS)?.flow_mut(place)
    }

    /// The flow at a place with all that it has carried, and what tells it apart.
    pub(super) fn entry_mut(&mut self, place: Place) -> Option<(&Key, &mut Flow)> {
        let set = self.sets.get_mut(place.index() / WAYS)?;
        set.settle();
        set.held_mut(place).map(|(key, flow)| (&*key, flow))
    }

    /// Takes the flow at a place.
    pub(super) fn take(&mut self, place: Place) -> Option<(Key, Flow)> {
        let set = self.sets.get_mut(place.index() / WAYS)?;
        set.settle();
        set.entries[place.index() % WAYS].held.take()
    }

    /// Takes the flow of a set that has been quiet for longest.
    pub(super) fn take_oldest(&mut self, slot: Slot) -> Option<(Key, Flow)> {
        let set = self.sets.get_mut(slot.0)?;
        set.settle();
        let last = |entry: &&mut Entry| entry.held.as_ref().map(|(_, flow)| flow.last);
        set.entries.iter_mut().filter(|entry| entry.held.is_some()).min_by_key(last)?.held.take()
    }

    /// Takes all flows of a kind.
    pub(super) fn take_all(&mut self, is_it: impl Fn(&Key) -> bool) -> Vec<(Key, Flow)> {
        self.sets.iter_mut().for_each(Set::settle);
        let taken = |entry: &mut Entry| entry.held.take_if(|(key, _)| is_it(key));
        self.sets.iter_mut().flat_map(|set| &mut set.entries).filter_map(taken).collect()
    }

    /// The places of flows in one of so many parts of the table.
    pub(super) fn places(&self, part: usize, parts: usize) -> Vec<Place> {
        let all = self.sets.len() * WAYS;
        let some = all * part / parts..all * (part + 1) / parts;
        let entry = |index: usize| (index, &self.sets[index / WAYS].entries[index % WAYS]);
        let held = some.map(entry).filter(|(_, entry)| entry.held.is_some());
        held.map(|(index, entry)| Place::new(index, entry.tenant)).collect()
    }
}

impl Set {
    /// Counts what was carried of late.
    fn settle(&mut self) {
        if let Some(recent) = self.recent.take()
            && let Some(flow) = self.flow_mut(recent.place())
        {
            recent.settle(flow);
        }
    }

    fn flow_mut(&mut self, place: Place) -> Option<&mut Flow> {
        self.held_mut(place).map(|(_, flow)| flow)
    }

    fn held_mut(&mut self, place: Place) -> Option<&mut (Key, Flow)> {
        let entry = &mut self.entries[place.index() % WAYS];
        let is_same = Place::new(place.index(), entry.tenant) == place;
        entry.held.as_mut().filter(|_| is_same)
    }
}
