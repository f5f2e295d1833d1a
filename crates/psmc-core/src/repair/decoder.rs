//! The receiver's side of `fec`: what has arrived of late, and what can be computed from it.
//!
//! Packets that have arrived of late.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use psmc_wire::frame::RepairFrame;
use psmc_wire::{BufPool, PacketBuf};
use reed_solomon_simd::ReedSolomonDecoder;

use super::{Place, UNORDERED};

/// Packets are kept for this long after the peer's last repair: one that sends none costs nothing.
const ACTIVE_TIME: Duration = Duration::from_secs(10);

/// The most packets of a group: a third more than senders of this implementation put into one.
const MAX_MEMBERS: usize = 64;

/// The most repair shards of a group: all that senders make of packets in four parts.
const MAX_SHARDS: u8 = 64;

/// The most groups that wait for a packet or a repair: those of 30 ms at 1 Gb/s.
const MAX_WAITING: usize = 64;

/// The most repair shards that wait with them, eight for each.
const MAX_SHARDS_KEPT: usize = 8 * MAX_WAITING;

/// A group that is this old is given up: its packets are as old as those that nobody sends again.
const MAX_AGE: Duration = Duration::from_secs(1);

/// The most groups that are solved in a second, since each costs some 100 microseconds: at 1 Gb/s, as many as there are.
const MAX_SOLVED_PER_SECOND: f64 = 2000.0;

/// The most that are solved at once, after a second's rest.
const MAX_BURST: f64 = 200.0;

/// Groups are told apart by the place of their first packet and by a number.
type Key = (Place, u16);

/// An inner packet that has been computed.
#[derive(Debug)]
pub(crate) struct Recovered {
    pub(crate) place: Place,
    pub(crate) ordered: bool,
    pub(crate) packet: PacketBuf,
}

/// Remembers packets, and recovers others from them.
#[derive(Default)]
pub(crate) struct Decoder {
    /// Made with the first group that lacks a packet.
    decoder: Option<ReedSolomonDecoder>,
    last_repair: Option<Instant>,
    history: History,
    waiting: BTreeMap<Key, Group>,
    /// Which groups lack which packets.
    missing: BTreeMap<Place, Key>,
    credit: f64,
    credited_at: Option<Instant>,
    shard: Vec<u8>,
    record: Vec<u8>,
    unsolved: u64,
}

/// A group that lacks packets.
#[derive(Debug)]
struct Group {
    members: Vec<Place>,
    cells: u8,
    repairs: u8,
    shard_len: usize,
    missing: usize,
    shards: Vec<(u8, PacketBuf)>,
    since: Instant,
}

impl Group {
    fn is_solvable(&self) -> bool {
        self.shards.len() >= self.missing * usize::from(self.cells)
    }

    fn accepts(&self, frame: &RepairFrame<'_>) -> bool {
        self.cells == frame.cells
            && self.repairs == frame.repairs
            && self.shard_len == frame.shard.len()
            && self.shards.iter().all(|(index, _)| *index != frame.index)
            && places(frame).eq(self.members.iter().copied())
    }
}

impl Decoder {
    /// Whether the peer has sent repairs of late.
    pub(crate) fn is_active(&self, now: Instant) -> bool {
        self.last_repair.is_some_and(|at| now < at + ACTIVE_TIME)
    }

    /// Remembers a packet that has arrived, and puts into `out` what can be recovered with it.
    pub(crate) fn on_packet(
        &mut self,
        (place, ordered, packet): (Place, bool, &[u8]),
        out: &mut Vec<Recovered>,
        pool: &mut BufPool,
        now: Instant,
    ) {
        self.history.push(place, ordered, packet, pool);
        let Some(key) = self.missing.remove(&place) else { return };
        let Some(group) = self.waiting.get_mut(&key) else { return };
        group.missing = group.missing.saturating_sub(1);
        if group.missing == 0 {
            self.forget(key, pool);
        } else if group.is_solvable() {
            self.solve(key, out, pool, now);
        }
    }

    /// Takes a repair, and puts into `out` what can be recovered with it. Says whether it is one that can be.
    pub(crate) fn on_repair(
        &mut self,
        frame: &RepairFrame<'_>,
        out: &mut Vec<Recovered>,
        pool: &mut BufPool,
        now: Instant,
    ) -> bool {
        let count = places(frame).take(MAX_MEMBERS + 1).count();
        if count > MAX_MEMBERS || frame.repairs > MAX_SHARDS || !frame.shard.len().is_multiple_of(2) {
            return false;
        }
        self.last_repair = Some(now);
        let Some(first) = places(frame).next() else { return false };
        let key = (first, frame.group);
        if places(frame).all(|place| self.history.contains(place)) {
            return true;
        }
        if !self.waiting.contains_key(&key) {
            self.open(key, frame, pool, now);
        }
        let Some(group) = self.waiting.get_mut(&key).filter(|group| group.accepts(frame)) else {
            return false;
        };
        let mut shard = pool.take();
        shard.fill(frame.shard);
        group.shards.push((frame.index, shard));
        if group.is_solvable() {
            self.solve(key, out, pool, now);
        } else if self.waiting.values().map(|group| group.shards.len()).sum::<usize>() > MAX_SHARDS_KEPT {
            self.give_up_oldest(pool);
        }
        true
    }

    /// Forgets everything if the peer sends no repairs any more.
    pub(crate) fn handle_timeout(&mut self, pool: &mut BufPool, now: Instant) {
        if self.last_repair.is_some() && !self.is_active(now) {
            self.last_repair = None;
            self.clear(pool);
        }
    }

    /// Forgets everything.
    pub(crate) fn clear(&mut self, pool: &mut BufPool) {
        self.history.clear(pool);
        self.missing.clear();
        for group in std::mem::take(&mut self.waiting).into_values() {
            recycle(group, pool);
        }
    }

    /// Groups that lacked too much, or came too fast.
    pub(crate) fn unsolved(&self) -> u64 {
        self.unsolved
    }

    fn open(&mut self, key: Key, frame: &RepairFrame<'_>, pool: &mut BufPool, now: Instant) {
        let oldest = self.oldest();
        if oldest.is_some_and(|(since, _)| self.waiting.len() >= MAX_WAITING || since + MAX_AGE <= now) {
            self.give_up_oldest(pool);
        }
        let members: Vec<_> = places(frame).collect();
        let mut missing = 0;
        for place in members.iter().filter(|place| !self.history.contains(**place)) {
            // A place that is named twice, or by two groups, is nobody's.
            missing += usize::from(self.missing.insert(*place, key) != Some(key));
        }
        let (cells, repairs, shard_len) = (frame.cells, frame.repairs, frame.shard.len());
        let group = Group { members, cells, repairs, shard_len, missing, shards: Vec::new(), since: now };
        self.waiting.insert(key, group);
    }

    fn oldest(&self) -> Option<(Instant, Key)> {
        self.waiting.iter().map(|(key, group)| (group.since, *key)).min()
    }

    fn give_up_oldest(&mut self, pool: &mut BufPool) {
        if let Some((_, oldest)) = self.oldest() {
            self.unsolved += 1;
            self.forget(oldest, pool);
        }
    }

    fn forget(&mut self, key: Key, pool: &mut BufPool) {
        let Some(group) = self.waiting.remove(&key) else { return };
        for place in &group.members {
            if self.missing.get(place) == Some(&key) {
                self.missing.remove(place);
            }
        }
        recycle(group, pool);
    }

    fn solve(&mut self, key: Key, out: &mut Vec<Recovered>, pool: &mut BufPool, now: Instant) {
        let before = out.len();
        if !self.take_credit(now) || self.restore(key, out, pool).is_none() {
            self.unsolved += 1;
        }
        self.forget(key, pool);
        // The group's other repairs need not recover them again.
        for found in &out[before..] {
            self.history.push(found.place, found.ordered, found.packet.packet(), pool);
        }
    }

    fn take_credit(&mut self, now: Instant) -> bool {
        let rest = now.saturating_duration_since(self.credited_at.unwrap_or(now)).as_secs_f64();
        let before = if self.credited_at.is_some() { self.credit } else { MAX_BURST };
        self.credited_at = Some(now);
        self.credit = (before + rest * MAX_SOLVED_PER_SECOND).min(MAX_BURST);
        let may = self.credit >= 1.0;
        self.credit -= if may { 1.0 } else { 0.0 };
        may
    }

    /// Computes the missing packets of a group. `None` if it can't be done: the code takes every group that fits
    /// together, and a peer that sends others is on its own.
    fn restore(&mut self, key: Key, out: &mut Vec<Recovered>, pool: &mut BufPool) -> Option<()> {
        let group = self.waiting.get(&key)?;
        let (cells, len) = (usize::from(group.cells), group.shard_len);
        let originals = group.members.len() * cells;
        let decoder = prepared(&mut self.decoder, originals, group.repairs.into(), len)?;
        for (member, place) in group.members.iter().enumerate() {
            let Some((ordered, packet)) = self.history.get(*place) else { continue };
            let unordered = if ordered { 0 } else { UNORDERED };
            self.record.clear();
            self.record.extend_from_slice(&(u16::try_from(packet.len()).ok()? | unordered).to_be_bytes());
            self.record.extend_from_slice(packet);
            if self.record.len() > cells * len {
                return None;
            }
            for cell in 0..cells {
                super::cut_cell(&self.record, cell, len, &mut self.shard);
                decoder.add_original_shard(member * cells + cell, &self.shard).ok()?;
            }
        }
        for (index, shard) in &group.shards {
            decoder.add_recovery_shard(usize::from(*index), shard.packet()).ok()?;
        }
        let result = decoder.decode().ok()?;
        for (member, place) in group.members.iter().enumerate() {
            if self.history.contains(*place) {
                continue;
            }
            self.record.clear();
            for cell in 0..cells {
                self.record.extend_from_slice(result.restored_original(member * cells + cell)?);
            }
            let (head, rest) = self.record.split_first_chunk::<2>()?;
            let head = u16::from_be_bytes(*head);
            let mut packet = pool.take();
            packet.fill(rest.get(..usize::from(head & !UNORDERED))?);
            out.push(Recovered { place: *place, ordered: head & UNORDERED == 0, packet });
        }
        Some(())
    }
}

fn places<'a>(frame: &RepairFrame<'a>) -> impl Iterator<Item = Place> + use<'a> {
    frame.places().map(Place::new)
}

fn recycle(group: Group, pool: &mut BufPool) {
    for (_, shard) in group.shards {
        pool.put(shard);
    }
}

/// The decoder, ready for a group of this shape.
fn prepared(
    decoder: &mut Option<ReedSolomonDecoder>,
    originals: usize,
    repairs: usize,
    len: usize,
) -> Option<&mut ReedSolomonDecoder> {
    if let Some(decoder) = decoder {
        decoder.reset(originals, repairs, len).ok()?;
    } else {
        *decoder = ReedSolomonDecoder::new(originals, repairs, len).ok();
    }
    decoder.as_mut()
}

impl std::fmt::Debug for Decoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { last_repair, waiting, credit, unsolved, .. } = self;
        f.debug_struct("Decoder")
            .field("last_repair", last_repair)
            .field("waiting", waiting)
            .field("credit", credit)
            .field("unsolved", unsolved)
            .finish_non_exhaustive()
    }
}

/// How many packets are kept: those of 48 ms at 1 Gb/s, more than paths worth bundling differ by.
const MAX_PACKETS: usize = 4096;

/// Bytes of the buffers that they are in: as many buffers for packets of usual size.
const MAX_BYTES: usize = 8 << 20;

/// The newest packets of a peer, by their places.
#[derive(Debug, Default)]
pub(super) struct History {
    packets: VecDeque<(Place, bool, PacketBuf)>,
    /// The number of the oldest, counted from the first that was ever kept.
    first: u64,
    numbers: BTreeMap<Place, u64>,
    bytes: usize,
}

impl History {
    /// Keeps a copy; the oldest give way.
    pub(super) fn push(&mut self, place: Place, ordered: bool, packet: &[u8], pool: &mut BufPool) {
        if self.numbers.contains_key(&place) {
            return;
        }
        let mut copy = pool.take();
        copy.fill(packet);
        self.bytes += copy.capacity();
        self.numbers.insert(place, self.first + self.packets.len() as u64);
        self.packets.push_back((place, ordered, copy));
        while self.packets.len() > MAX_PACKETS || self.bytes > MAX_BYTES {
            self.drop_first(pool);
        }
    }

    /// Whether the packet is here.
    pub(super) fn contains(&self, place: Place) -> bool {
        self.numbers.contains_key(&place)
    }

    /// The packet at `place`, and whether it is ordered.
    pub(super) fn get(&self, place: Place) -> Option<(bool, &[u8])> {
        let number = self.numbers.get(&place)?;
        let (_, ordered, packet) = self.packets.get(usize::try_from(number - self.first).ok()?)?;
        Some((*ordered, packet.packet()))
    }

    /// Gives everything back to `pool`.
    pub(super) fn clear(&mut self, pool: &mut BufPool) {
        while !self.packets.is_empty() {
            self.drop_first(pool);
        }
    }

    fn drop_first(&mut self, pool: &mut BufPool) {
        if let Some((place, _, packet)) = self.packets.pop_front() {
            self.first += 1;
            self.numbers.remove(&place);
            self.bytes -= packet.capacity();
            pool.put(packet);
        }
    }
}
