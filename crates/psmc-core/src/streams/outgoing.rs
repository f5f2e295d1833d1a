//! What a stream sends.

use std::collections::VecDeque;

use psmc_wire::{BufPool, PacketBuf, PacketNumber};

/// The end of what is sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Fin {
    #[default]
    Open,
    Wanted,
    Sent,
}

/// Bytes that wait for paths, and how many the peer has room for.
#[derive(Debug, Default)]
pub(super) struct Outgoing {
    waiting: VecDeque<PacketBuf>,
    bytes: usize,
    /// The offset of the first byte that waits.
    next: u64,
    /// The offset up to which the peer has room.
    limit: u64,
    fin: Fin,
}

/// Bytes that are to leave together.
#[derive(Debug)]
pub(super) struct Chunk {
    pub(super) offset: u64,
    pub(super) bytes: PacketBuf,
    pub(super) fin: bool,
}

impl Outgoing {
    /// Appends bytes; nothing behind the end. They join those before them if both have `most` bytes together at the most: who writes
    /// few bytes at a time while they have to wait does not fill the memory with buffers.
    pub(super) fn push(&mut self, bytes: PacketBuf, most: usize, pool: &mut BufPool) {
        if bytes.is_empty() || self.fin != Fin::Open {
            return pool.put(bytes);
        }
        self.bytes += bytes.len();
        let last = self.waiting.back_mut().filter(|last| last.len() + bytes.len() <= most);
        if last.is_some_and(|last| last.extend(bytes.packet())) {
            pool.put(bytes);
        } else {
            self.waiting.push_back(bytes);
        }
    }

    /// Nothing follows what was appended.
    pub(super) fn finish(&mut self) {
        if self.fin == Fin::Open {
            self.fin = Fin::Wanted;
        }
    }

    /// The peer has room for so many bytes at first.
    pub(super) fn set_first_limit(&mut self, credit: u32) {
        self.limit = self.limit.max(credit.into());
    }

    /// The peer has room up to the offset with these low bits. It never takes room back.
    pub(super) fn raise_limit(&mut self, truncated: u32) {
        self.limit = self.limit.max(PacketNumber::expand(truncated, PacketNumber(self.limit)).0);
    }

    /// What is to leave next.
    pub(super) fn take(&mut self, pool: &mut BufPool) -> Option<Chunk> {
        let offset = self.next;
        let Some(first) = self.waiting.front() else {
            if self.fin != Fin::Wanted {
                return None;
            }
            self.fin = Fin::Sent;
            return Some(Chunk { offset, bytes: pool.take(), fin: true });
        };
        let end = offset + first.len() as u64;
        if end > self.limit {
            return None;
        }
        let bytes = self.waiting.pop_front()?;
        self.next = end;
        self.bytes -= bytes.len();
        let fin = self.waiting.is_empty() && self.fin == Fin::Wanted;
        if fin {
            self.fin = Fin::Sent;
        }
        Some(Chunk { offset, bytes, fin })
    }

    /// Bytes that wait.
    pub(super) fn waiting(&self) -> usize {
        self.bytes
    }

    /// Bytes that wait and that the peer has room for.
    pub(super) fn sendable(&self) -> usize {
        usize::try_from(self.limit - self.next).map_or(self.bytes, |room| self.bytes.min(room))
    }

    /// Bytes that have left.
    pub(super) fn sent(&self) -> u64 {
        self.next
    }

    /// Whether everything has left, and nothing follows.
    pub(super) fn has_ended(&self) -> bool {
        self.fin == Fin::Sent
    }

    /// Gives up what waits.
    pub(super) fn clear(&mut self, pool: &mut BufPool) {
        self.waiting.drain(..).for_each(|bytes| pool.put(bytes));
        self.bytes = 0;
    }
}
