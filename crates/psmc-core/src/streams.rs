//! Byte streams to the peer, which carry connections that the sites end.
//!
//! A stream's bytes have offsets, so they may take any path and come in any order: nothing is put back in order but by the stream
//! itself, and what a path loses of it is sent again until it has arrived. Only a few parts of each stream wait in the session's queue,
//! to take their turns among packets; the others wait in the stream, whose length the scheduler knows.

mod incoming;
mod outgoing;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use psmc_wire::frame::{StreamFrame, StreamOpening};
use psmc_wire::{Bucket, BufPool, PacketBuf, StreamId};

use crate::classify::ClassId;
use incoming::{Incoming, Violation};
use outgoing::{Chunk, Outgoing};

/// The most streams of a session.
const MAX_STREAMS: usize = 16 * 1024;

/// The most streams of the peer that may open after one that it has opened later: an even number keeps their parity.
const MAX_OVERTAKEN: u32 = 1024;

/// What a stream may hold at first while there are few: a tenth of a second of 80 Mbit/s.
const FIRST_WINDOW: u32 = 1 << 20;

/// What each may hold at first when the others have promised all: TCP's usual window without scaling.
const LEAST_WINDOW: u32 = 16 << 10;

/// What all streams of a session together may hold, but for the least of each.
const MAX_PROMISED: u64 = 128 << 20;

/// Bytes of a stream that wait for paths, beyond which its writer waits, where paths are short: half a millisecond of 8 Gbit/s.
const USUAL_WAITING: usize = 512 << 10;

/// The same where paths are long: a third of a second of 200 Mbit/s.
const MAX_WAITING: usize = 8 << 20;

/// The same when all streams together have too many.
const LEAST_WAITING: usize = 16 << 10;

/// Of all streams.
const MANY_WAITING: usize = 32 << 20;

/// Parts of a stream that wait in the queue, so that it keeps its turn; one of each when there are many streams.
const STAGED: u8 = 4;

/// So many.
const MANY: usize = 256;

/// A stream.
#[derive(Debug)]
struct Stream {
    opening: StreamOpening,
    outgoing: Outgoing,
    incoming: Incoming,
    class: ClassId,
    bucket: Bucket,
    stands: bool,
    /// Parts in the session's queue.
    staged: u8,
    /// Whether the driver knows that there is something to be taken.
    told: bool,
    /// Whether the driver waits for room.
    awaits_room: bool,
    /// Whether the driver knows that nothing more comes.
    end_is_taken: bool,
    /// When it was opened.
    since: Instant,
    /// How long after that the first byte has come.
    first_byte: Option<Duration>,
    /// Bytes that have left once more.
    resent: u64,
}

/// Where packets of a stream belong in the queue.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Lot {
    pub(crate) class: ClassId,
    pub(crate) bucket: Bucket,
}

/// A part that is to wait in the queue.
#[derive(Debug)]
pub(crate) struct Staged {
    pub(crate) lot: Lot,
    pub(crate) offset: u64,
    pub(crate) bytes: PacketBuf,
    pub(crate) fin: bool,
}

/// A stream as it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StreamStatus {
    /// The stream.
    pub id: StreamId,
    /// What it carries.
    pub opening: StreamOpening,
    /// Whether this site has opened it.
    pub is_from_here: bool,
    /// Whether the connection stands at both ends.
    pub stands: bool,
    /// Bytes that have left.
    pub sent: u64,
    /// Bytes that have come, in order.
    pub received: u64,
    /// Bytes that wait for paths.
    pub waiting: u64,
    /// Bytes that have come and were not taken yet.
    pub held: u64,
    /// How many bytes beyond what was taken the peer may send.
    pub window: u64,
    /// Bytes that have left once more, since they seemed to be lost.
    pub resent: u64,
    /// When it was opened.
    pub since: Instant,
    /// How long after that the first byte of the peer has come.
    pub first_byte: Option<Duration>,
}

/// What streams of a session have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCounters {
    /// Streams that this site has opened.
    pub opened: u64,
    /// Streams that the peer has opened.
    pub accepted: u64,
    /// Attempts of the peer that were refused here.
    pub refused: u64,
    /// Streams that have ended before their time.
    pub reset: u64,
    /// Bytes sent.
    pub tx_bytes: u64,
    /// Bytes that were sent once more, since they seemed to be lost.
    pub resent_bytes: u64,
    /// Bytes taken.
    pub rx_bytes: u64,
    /// Streams that this site has opened and of which a byte has come.
    pub answered: u64,
    /// How long these took together, from their opening to that byte.
    pub answer_time: Duration,
}

/// All streams to a peer.
#[derive(Debug)]
pub(crate) struct Streams {
    list: BTreeMap<StreamId, Stream>,
    /// Ascends by two.
    next_id: u32,
    /// The id behind the largest of the peer's, and those before it that have not come: they have been overtaken.
    next_of_peer: u32,
    overtaken: BTreeSet<u32>,
    serial: u8,
    promised: u64,
    waiting: usize,
    /// Bytes that each may have waiting.
    look_ahead: usize,
    pub(crate) counters: StreamCounters,
}

/// What has become of a frame with bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Taken {
    /// Nothing that anybody has to know.
    Quietly,
    /// The driver has something to take.
    Readable,
    /// The peer should know that it may send up to this offset: a gap holds the stream back, not the driver.
    MoreWanted(u64),
    /// The stream can't go on.
    Broken,
}

impl Streams {
    /// None; those of the site with the smaller key have even ids.
    pub(crate) fn new(smaller_key: bool) -> Self {
        Self {
            list: BTreeMap::new(),
            next_id: u32::from(!smaller_key),
            next_of_peer: u32::from(smaller_key),
            overtaken: BTreeSet::new(),
            serial: 0,
            promised: 0,
            waiting: 0,
            look_ahead: USUAL_WAITING,
            counters: StreamCounters::default(),
        }
    }

    /// Tells the buffers of these streams from those of an earlier peer.
    pub(crate) fn serial(&self) -> u8 {
        self.serial
    }

    /// What a new stream may be sent at first.
    fn first_window(&self) -> u32 {
        if self.promised + u64::from(FIRST_WINDOW) <= MAX_PROMISED / 2 { FIRST_WINDOW } else { LEAST_WINDOW }
    }

    /// Begins a stream of this site's. Returns its id and how much the peer may send at first; `None` if there are too many.
    pub(crate) fn open(&mut self, opening: StreamOpening, lot: Lot, now: Instant) -> Option<(StreamId, u32)> {
        let id = StreamId(self.next_id);
        let next = self.next_id.checked_add(2)?;
        let window = self.insert(id, opening, lot, now)?;
        self.next_id = next;
        self.counters.opened += 1;
        Some((id, window))
    }

    /// Whether this site gives such ids.
    fn is_own(&self, id: StreamId) -> bool {
        id.0 % 2 == self.next_id % 2
    }

    /// Whether a stream of this id may be opened by the peer: it is its own to give, and new.
    pub(crate) fn is_new(&self, id: StreamId) -> bool {
        let is_peers = id.0 % 2 == self.next_of_peer % 2;
        is_peers && (id.0 >= self.next_of_peer || self.overtaken.contains(&id.0))
    }

    /// Notes that the peer has opened a stream of this id, whatever becomes of it.
    pub(crate) fn see(&mut self, id: StreamId) {
        if id.0 < self.next_of_peer {
            self.overtaken.remove(&id.0);
            return;
        }
        let first = self.next_of_peer.max(id.0.saturating_sub(2 * MAX_OVERTAKEN));
        self.overtaken.extend((first..id.0).step_by(2));
        while self.overtaken.len() > MAX_OVERTAKEN as usize {
            self.overtaken.pop_first();
        }
        self.next_of_peer = id.0.saturating_add(2);
    }

    /// Begins a stream that the peer has opened; it has room for `credit` bytes. Says whether there is room for it.
    pub(crate) fn accept(
        &mut self,
        id: StreamId,
        credit: u32,
        opening: StreamOpening,
        lot: Lot,
        now: Instant,
    ) -> bool {
        let is_taken = self.insert(id, opening, lot, now).is_some();
        if let Some(stream) = self.list.get_mut(&id).filter(|_| is_taken) {
            stream.outgoing.set_first_limit(credit);
            self.counters.accepted += 1;
        }
        is_taken
    }

    fn insert(&mut self, id: StreamId, opening: StreamOpening, lot: Lot, now: Instant) -> Option<u32> {
        if self.list.len() >= MAX_STREAMS {
            return None;
        }
        let window = self.first_window();
        let stream = Stream {
            opening,
            outgoing: Outgoing::default(),
            incoming: Incoming::new(window),
            class: lot.class,
            bucket: lot.bucket,
            stands: false,
            staged: 0,
            told: false,
            awaits_room: false,
            end_is_taken: false,
            since: now,
            first_byte: None,
            resent: 0,
        };
        self.promised += u64::from(window);
        self.list.insert(id, stream);
        Some(window)
    }

    /// The connection of a stream stands. Returns how much the peer may send at first, if it has not stood before.
    pub(crate) fn stand(&mut self, id: StreamId) -> Option<u32> {
        let stream = self.list.get_mut(&id).filter(|stream| !stream.stands)?;
        stream.stands = true;
        u32::try_from(stream.incoming.window()).ok()
    }

    /// The peer has room for so many bytes of a stream at first.
    pub(crate) fn set_first_limit(&mut self, id: StreamId, credit: u32) {
        if let Some(stream) = self.list.get_mut(&id) {
            stream.outgoing.set_first_limit(credit);
        }
    }

    /// The peer has room up to the offset with these low bits.
    pub(crate) fn raise_limit(&mut self, id: StreamId, truncated: u32) {
        if let Some(stream) = self.list.get_mut(&id) {
            stream.outgoing.raise_limit(truncated);
        }
    }

    /// Whether there is such a stream.
    pub(crate) fn contains(&self, id: StreamId) -> bool {
        self.list.contains_key(&id)
    }

    /// Paths carry so many bytes within the round trip of the longest. What leaves on that one has to overtake, on its way, as much as the
    /// others carry meanwhile: so much must be there to choose from, and be left when the writer is told that there is room.
    pub(crate) fn look_ahead(&mut self, bytes: u64) {
        let bytes = usize::try_from(bytes).unwrap_or(MAX_WAITING);
        self.look_ahead = bytes.clamp(USUAL_WAITING, MAX_WAITING);
    }

    /// Bytes that may be written before the writer should wait; it is told when there is room again once there was none.
    pub(crate) fn room(&mut self, id: StreamId) -> usize {
        let most = if self.waiting < MANY_WAITING { self.look_ahead } else { LEAST_WAITING };
        let Some(stream) = self.list.get_mut(&id) else { return 0 };
        let room = most.saturating_sub(stream.outgoing.waiting());
        stream.awaits_room = room == 0;
        room
    }

    /// Appends bytes to a stream; buffers that wait for paths may be joined until they have `most` bytes.
    pub(crate) fn write(&mut self, id: StreamId, bytes: PacketBuf, most: usize, pool: &mut BufPool) {
        match self.list.get_mut(&id) {
            Some(stream) => {
                let before = stream.outgoing.waiting();
                stream.outgoing.push(bytes, most, pool);
                self.waiting += stream.outgoing.waiting() - before;
            }
            None => pool.put(bytes),
        }
    }

    /// Nothing follows what was written.
    pub(crate) fn finish(&mut self, id: StreamId) {
        if let Some(stream) = self.list.get_mut(&id) {
            stream.outgoing.finish();
        }
    }

    /// The next part of a stream that should wait in the queue, if too few do.
    pub(crate) fn stage(&mut self, id: StreamId, pool: &mut BufPool) -> Option<Staged> {
        let most = if self.list.len() > MANY { 1 } else { STAGED };
        let stream = self.list.get_mut(&id).filter(|stream| stream.stands && stream.staged < most)?;
        let Chunk { offset, bytes, fin } = stream.outgoing.take(pool)?;
        stream.staged += 1;
        self.waiting -= bytes.len();
        self.counters.tx_bytes += bytes.len() as u64;
        Some(Staged { lot: Lot { class: stream.class, bucket: stream.bucket }, offset, bytes, fin })
    }

    /// A part of a stream has left the queue. Whether its writer should be told that there is room again.
    pub(crate) fn on_left(&mut self, id: StreamId) -> bool {
        let Some(stream) = self.list.get_mut(&id) else { return false };
        stream.staged = stream.staged.saturating_sub(1);
        let has_room = stream.awaits_room && stream.outgoing.waiting() < self.look_ahead / 2;
        stream.awaits_room &= !has_room;
        has_room
    }

    /// A part of a stream leaves once more.
    pub(crate) fn on_resent(&mut self, id: StreamId, bytes: usize) {
        self.counters.resent_bytes += bytes as u64;
        if let Some(stream) = self.list.get_mut(&id) {
            stream.resent += bytes as u64;
        }
    }

    /// Bytes of a stream that could leave, beyond what waits in the queue.
    pub(crate) fn backlog(&self, id: StreamId) -> usize {
        self.list.get(&id).map_or(0, |stream| stream.outgoing.sendable())
    }

    /// Takes bytes that have come.
    pub(crate) fn on_bytes(&mut self, frame: &StreamFrame<'_>, pool: &mut BufPool, now: Instant) -> Taken {
        let is_own = self.is_own(frame.id);
        let Some(stream) = self.list.get_mut(&frame.id) else { return Taken::Quietly };
        if stream.first_byte.is_none() && !frame.bytes.is_empty() {
            let time = now.saturating_duration_since(stream.since);
            stream.first_byte = Some(time);
            if is_own {
                self.counters.answered += 1;
                self.counters.answer_time += time;
            }
        }
        match stream.incoming.insert(frame, pool) {
            Ok(true) if !std::mem::replace(&mut stream.told, true) => Taken::Readable,
            Ok(true) => Taken::Quietly,
            Ok(false) => {
                let (spare, before) = (MAX_PROMISED.saturating_sub(self.promised), stream.incoming.window());
                let limit = stream.incoming.take_limit_at_gap(spare);
                self.promised += stream.incoming.window() - before;
                limit.map_or(Taken::Quietly, Taken::MoreWanted)
            }
            Err(Violation) => Taken::Broken,
        }
    }

    /// What the driver can take of a stream, in order.
    pub(crate) fn chunks(&self, id: StreamId) -> impl Iterator<Item = &[u8]> {
        self.list.get(&id).into_iter().flat_map(|stream| stream.incoming.chunks())
    }

    /// Takes the end, if everything before it was taken. Whether that is so.
    pub(crate) fn take_end(&mut self, id: StreamId) -> bool {
        let stream = self.list.get_mut(&id).filter(|stream| stream.incoming.has_ended());
        stream.map(|stream| stream.end_is_taken = true).is_some()
    }

    /// The driver has taken so many bytes of a stream. Returns the offset up to which the peer may send, if it should know.
    pub(crate) fn consume(
        &mut self,
        id: StreamId,
        bytes: usize,
        round_trip: Duration,
        pool: &mut BufPool,
        now: Instant,
    ) -> Option<u64> {
        let stream = self.list.get_mut(&id)?;
        let before = stream.incoming.window();
        stream.incoming.consume(bytes, pool);
        self.counters.rx_bytes += bytes as u64;
        if stream.incoming.readable() == 0 {
            stream.told = stream.incoming.has_ended();
        }
        let spare = MAX_PROMISED.saturating_sub(self.promised);
        let limit = stream.incoming.take_limit(round_trip, spare, now);
        self.promised += stream.incoming.window() - before;
        limit
    }

    /// Forgets a stream if it has ended in both directions, and the driver knows.
    pub(crate) fn forget_ended(&mut self, id: StreamId, pool: &mut BufPool) {
        if self.list.get(&id).is_some_and(|stream| stream.outgoing.has_ended() && stream.end_is_taken) {
            self.remove(id, pool);
        }
    }

    /// Forgets a stream that has ended before its time. Whether there was one.
    pub(crate) fn reset(&mut self, id: StreamId, pool: &mut BufPool) -> bool {
        let was_there = self.remove(id, pool);
        self.counters.reset += u64::from(was_there);
        was_there
    }

    fn remove(&mut self, id: StreamId, pool: &mut BufPool) -> bool {
        let Some(mut stream) = self.list.remove(&id) else { return false };
        self.promised -= stream.incoming.window();
        self.waiting -= stream.outgoing.waiting();
        stream.outgoing.clear(pool);
        stream.incoming.clear(pool);
        true
    }

    /// Forgets all streams: the peer knows them no more. Returns which they were.
    pub(crate) fn clear(&mut self, pool: &mut BufPool) -> Vec<StreamId> {
        let all: Vec<_> = self.list.keys().copied().collect();
        for &id in &all {
            self.reset(id, pool);
        }
        // The peer numbers its streams anew, and may know some of this site's.
        self.next_of_peer %= 2;
        self.overtaken.clear();
        self.serial = self.serial.wrapping_add(1);
        all
    }

    /// The streams as they stand.
    pub(crate) fn status(&self) -> impl Iterator<Item = StreamStatus> {
        self.list.iter().map(|(&id, stream)| StreamStatus {
            id,
            opening: stream.opening,
            is_from_here: self.is_own(id),
            stands: stream.stands,
            sent: stream.outgoing.sent(),
            received: stream.incoming.received(),
            waiting: stream.outgoing.waiting() as u64,
            held: stream.incoming.held(),
            window: stream.incoming.window(),
            resent: stream.resent,
            since: stream.since,
            first_byte: stream.first_byte,
        })
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }
}
