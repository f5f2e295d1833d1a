//! All that waits at a relay, and whose turn is when.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use psmc_wire::{BufPool, PacketBuf};

use super::rio::Waiting;
use super::session::Side;
use crate::slab::Slab;

/// Longest datagram that can wait, in bytes: one of a network with jumbo frames. Longer ones pass, but do not wait.
pub(super) const MAX_LEN: usize = 9216;

/// Buffers are as long as the datagrams of ordinary networks; the pool drops those that had to grow.
const BUFFER: usize = 2048;

/// Buffers that are kept for the next burst: 8 MiB.
const MAX_FREE: usize = 4096;

/// A lane in which something waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Turn {
    pub(super) session: u32,
    pub(super) generation: u32,
    pub(super) to: Side,
    pub(super) why: Why,
    /// Its place among those that are due at the same time.
    ticket: u64,
}

/// What a lane waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    /// Its rate.
    Paced,
    /// That its side shows where it is; this is when nobody waits for that any more.
    Held,
}

/// When a turn is due, and which comes first of those that are due together.
type Key = Reverse<(u64, u64)>;

/// Memory for all that waits, and the lanes in which it does.
#[derive(Debug)]
pub(super) struct Queues {
    pub(super) slab: Slab<Waiting>,
    turns: BinaryHeap<ByKey>,
    pool: BufPool,
    next_ticket: u64,
    max_waiting: usize,
}

#[derive(Debug)]
struct ByKey(Key, Turn);

impl Queues {
    /// Room for so many datagrams.
    pub(super) fn new(max_waiting: usize) -> Self {
        Self {
            slab: Slab::default(),
            turns: BinaryHeap::new(),
            pool: BufPool::new(BUFFER, MAX_FREE.min(max_waiting)),
            next_ticket: 0,
            max_waiting,
        }
    }

    /// A copy of a datagram, unless too much waits already.
    pub(super) fn copy(&mut self, datagram: &[u8]) -> Option<PacketBuf> {
        if self.slab.len() >= self.max_waiting {
            return None;
        }
        let mut buffer = self.pool.take();
        buffer.fill(datagram);
        Some(buffer)
    }

    /// Takes a buffer back.
    pub(super) fn recycle(&mut self, buffer: PacketBuf) {
        self.pool.put(buffer);
    }

    /// A lane has something that waits until `due`, behind the others that wait until then.
    pub(super) fn schedule(&mut self, session: u32, generation: u32, to: Side, due: u64) {
        let ticket = self.take_ticket();
        self.put_off(Turn { session, generation, to, why: Why::Paced, ticket }, due);
    }

    /// A lane has something that waits for an address, and does so until `end` at the most.
    pub(super) fn schedule_end(&mut self, session: u32, generation: u32, to: Side, end: u64) {
        let ticket = self.take_ticket();
        self.put_off(Turn { session, generation, to, why: Why::Held, ticket }, end);
    }

    /// Whose turn it was has to wait on, and keeps its place.
    pub(super) fn put_off(&mut self, turn: Turn, due: u64) {
        self.turns.push(ByKey(Reverse((due, turn.ticket)), turn));
    }

    /// When the next turn is due.
    pub(super) fn next_due(&self) -> Option<u64> {
        self.turns.peek().map(|ByKey(Reverse((due, _)), _)| *due)
    }

    /// Takes the next turn that is due.
    pub(super) fn take_due(&mut self, now: u64) -> Option<Turn> {
        if self.next_due()? > now {
            return None;
        }
        self.turns.pop().map(|ByKey(_, turn)| turn)
    }

    fn take_ticket(&mut self) -> u64 {
        self.next_ticket += 1;
        self.next_ticket - 1
    }
}

impl PartialEq for ByKey {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}

impl Eq for ByKey {}

impl PartialOrd for ByKey {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByKey {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.0.cmp(&other.0)
    }
}
