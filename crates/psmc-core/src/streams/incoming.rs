//! What a stream receives: bytes at their offsets, in whatever order they come, and how many more may come.

use std::collections::{BTreeMap, VecDeque};
use std::time::{Duration, Instant};

use psmc_wire::frame::StreamFrame;
use psmc_wire::{BufPool, PacketBuf, PacketNumber};

/// The most a stream may hold, whatever paths carry: a second of 250 Mbit/s.
const MAX_WINDOW: u64 = 32 << 20;

/// Pieces with gaps between them that a stream keeps beyond those that a window of full datagrams makes.
const SPARE_PIECES: usize = 64;

/// A full datagram has more than this, and pieces that follow each other are joined.
const USUAL_PIECE: u64 = 512;

/// The peer has sent what it must not.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Violation;

/// Bytes that have come, until the driver takes them in order.
#[derive(Debug)]
pub(super) struct Incoming {
    /// In order, behind what was taken.
    ready: VecDeque<PacketBuf>,
    /// So many bytes of the first of them have been taken.
    taken: usize,
    /// Pieces beyond a gap, by their offsets.
    ahead: BTreeMap<u64, PacketBuf>,
    /// The first byte that has not come.
    next: u64,
    /// The first byte that has not been taken.
    read: u64,
    /// The offset up to which the peer may send.
    limit: u64,
    /// How far that may be beyond what was taken.
    window: u64,
    /// When the limit was raised last.
    raised_at: Option<Instant>,
    /// Where the stream ends, once that is known.
    end: Option<u64>,
}

impl Incoming {
    pub(super) fn new(window: u32) -> Self {
        let window = u64::from(window);
        Self {
            ready: VecDeque::new(),
            taken: 0,
            ahead: BTreeMap::new(),
            next: 0,
            read: 0,
            limit: window,
            window,
            raised_at: None,
            end: None,
        }
    }

    /// Takes a frame. Whether there is something new to be taken in order.
    ///
    /// # Errors
    /// [`Violation`] if it exceeds what the peer may send, or contradicts what it has sent.
    pub(super) fn insert(&mut self, frame: &StreamFrame<'_>, pool: &mut BufPool) -> Result<bool, Violation> {
        let offset = PacketNumber::expand(frame.offset, PacketNumber(self.next)).0;
        let end = offset + frame.bytes.len() as u64;
        let is_beyond = end > self.limit || self.end.is_some_and(|last| end > last);
        let contradicts = frame.fin && (self.end.is_some_and(|last| end != last) || end < self.furthest());
        if is_beyond || contradicts {
            return Err(Violation);
        }
        let ends = frame.fin && self.end.is_none();
        if frame.fin {
            self.end = Some(end);
        }
        if end <= self.next {
            return Ok(ends && end == self.next);
        }
        if offset > self.next {
            self.keep(offset, frame.bytes, pool)?;
            return Ok(false);
        }
        // It fits: what is behind `next` ends behind it.
        let new = usize::try_from(self.next - offset).ok().and_then(|known| frame.bytes.get(known..));
        self.append(new.unwrap_or_default(), pool);
        self.join(pool);
        Ok(true)
    }

    /// The end of the last byte that has come.
    fn furthest(&self) -> u64 {
        self.ahead
            .last_key_value()
            .map_or(self.next, |(offset, piece)| offset + piece.len() as u64)
            .max(self.next)
    }

    /// Keeps a piece beyond a gap.
    fn keep(&mut self, offset: u64, bytes: &[u8], pool: &mut BufPool) -> Result<(), Violation> {
        if let Some((&before, piece)) = self.ahead.range_mut(..=offset).next_back() {
            let behind = before + piece.len() as u64;
            if offset + bytes.len() as u64 <= behind {
                return Ok(());
            }
            if behind == offset && piece.extend(bytes) {
                return Ok(());
            }
        }
        if self.ahead.len() as u64 > self.window / USUAL_PIECE + SPARE_PIECES as u64 {
            return Err(Violation);
        }
        let mut piece = pool.take();
        piece.fill(bytes);
        if let Some(shorter) = self.ahead.insert(offset, piece) {
            pool.put(shorter);
        }
        Ok(())
    }

    fn append(&mut self, bytes: &[u8], pool: &mut BufPool) {
        self.next += bytes.len() as u64;
        if !self.ready.back_mut().is_some_and(|last| last.extend(bytes)) {
            let mut piece = pool.take();
            piece.fill(bytes);
            self.ready.push_back(piece);
        }
    }

    /// Takes over the pieces that follow what is in order.
    fn join(&mut self, pool: &mut BufPool) {
        while let Some(first) = self.ahead.first_entry().filter(|first| *first.key() <= self.next) {
            let (offset, mut piece) = first.remove_entry();
            let known = usize::try_from(self.next - offset).unwrap_or(usize::MAX);
            match piece.packet().get(known..) {
                Some(new) if !new.is_empty() => {
                    self.next += new.len() as u64;
                    if known > 0 {
                        let new = new.len();
                        piece.packet_mut().copy_within(known.., 0);
                        piece.set_len(new);
                    }
                    self.ready.push_back(piece);
                }
                _ => pool.put(piece),
            }
        }
    }

    /// What can be taken, in order.
    pub(super) fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        let mut from = self.taken;
        self.ready.iter().map(move |piece| &piece.packet()[std::mem::take(&mut from)..])
    }

    /// Bytes that can be taken.
    pub(super) fn readable(&self) -> u64 {
        self.next - self.read
    }

    /// So many of them have been taken; no more than there are.
    pub(super) fn consume(&mut self, bytes: usize, pool: &mut BufPool) {
        let mut left = bytes.min(usize::try_from(self.readable()).unwrap_or(usize::MAX));
        self.read += left as u64;
        while left > 0
            && let Some(first) = self.ready.front()
        {
            let rest = first.len() - self.taken;
            if left < rest {
                self.taken += left;
                return;
            }
            left -= rest;
            self.taken = 0;
            if let Some(empty) = self.ready.pop_front() {
                pool.put(empty);
            }
        }
    }

    /// Whether everything was taken, and nothing follows.
    pub(super) fn has_ended(&self) -> bool {
        self.end == Some(self.read)
    }

    /// Bytes that have come and were not taken yet.
    pub(super) fn held(&self) -> u64 {
        self.readable() + self.ahead.values().map(|piece| piece.len() as u64).sum::<u64>()
    }

    /// Bytes that have come in order.
    pub(super) fn received(&self) -> u64 {
        self.next
    }

    /// How far the peer may send beyond what was taken.
    pub(super) fn window(&self) -> u64 {
        self.window
    }

    /// The offset up to which the peer may send, if it should be told a new one. The window is doubled, by `spare` bytes at the most,
    /// while half of it is taken within two round trips: then it is what holds the peer back.
    pub(super) fn take_limit(&mut self, round_trip: Duration, spare: u64, now: Instant) -> Option<u64> {
        if self.end.is_some() || self.limit - self.read > self.window / 2 {
            return None;
        }
        let is_short = self.raised_at.is_some_and(|at| now < at + 2 * round_trip);
        if is_short {
            self.window = (2 * self.window).min(self.window + spare).min(MAX_WINDOW.max(self.window));
        }
        self.raised_at = Some(now);
        self.limit = self.read + self.window;
        Some(self.limit)
    }

    /// The same where what holds the peer back is a gap, not who takes the bytes: while lost bytes are sent again, the others go on
    /// coming, and twice as many as before may.
    pub(super) fn take_limit_at_gap(&mut self, spare: u64) -> Option<u64> {
        let is_short = self.readable() == 0 && self.furthest() - self.read > self.window / 2;
        let window = (2 * self.window).min(self.window + spare).min(MAX_WINDOW);
        if self.end.is_some() || !is_short || window <= self.window {
            return None;
        }
        self.window = window;
        self.limit = self.read + window;
        Some(self.limit)
    }

    /// Gives up what has come.
    pub(super) fn clear(&mut self, pool: &mut BufPool) {
        let pieces = std::mem::take(&mut self.ahead).into_values();
        self.ready.drain(..).chain(pieces).for_each(|piece| pool.put(piece));
    }
}
