//! Inner packets that are larger than the datagrams of a path: cut into parts where they leave, joined where they
//! arrive.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use psmc_wire::frame::{DATA_OVERHEAD, DataFrame, PART_OVERHEAD, Part, STREAM_OVERHEAD};
use psmc_wire::{Bucket, BufPool, FlowSeq, PacketBuf};

use crate::egress::{Queued, Role, StreamPart};
use crate::flows::FlowRef;

/// Makes `first` fit where a whole packet has room for `room` bytes: what is too much is taken off its end and
/// comes back as a part of its own, which may have to be cut again. `None` if `first` fits as it is, or is a repair, of
/// which there are no parts.
pub(crate) fn cut(first: &mut Queued, room: usize, pool: &mut BufPool) -> Option<Queued> {
    let len = first.packet.len();
    if first.len_in_frame() <= room {
        return None;
    }
    match first.role {
        Role::Stream(part) => return cut_stream(first, part, room, pool),
        // Shorter than any datagram.
        Role::Repair | Role::StreamControl(_) => return None,
        Role::Packet(_) | Role::Copy { .. } => {}
    }
    let kept = u16::try_from(room.checked_sub(PART_OVERHEAD)?).ok().filter(|&kept| kept > 0)?;
    let whole = Part { offset: 0, total: u16::try_from(len).ok()? };
    let Part { offset, total } = first.part.unwrap_or(whole);
    let mut packet = pool.take();
    packet.fill(&first.packet.packet()[usize::from(kept)..]);
    packet.set_checksum(first.packet.checksum());
    first.packet.set_len(kept.into());
    first.part = Some(Part { offset, total });
    let part = Some(Part { offset: offset + kept, total });
    // It counts once, for the flow of its first part.
    Some(Queued { packet, part, flow: FlowRef::default(), ..*first })
}

/// The same for bytes of a stream, whose places are known by themselves.
fn cut_stream(first: &mut Queued, part: StreamPart, room: usize, pool: &mut BufPool) -> Option<Queued> {
    let kept = room.checked_sub(STREAM_OVERHEAD - DATA_OVERHEAD).filter(|&kept| kept > 0)?;
    let mut packet = pool.take();
    packet.fill(&first.packet.packet()[kept..]);
    first.packet.set_len(kept);
    first.role = Role::Stream(StreamPart { fin: false, ..part });
    let offset = part.offset.wrapping_add(u32::try_from(kept).ok()?);
    Some(Queued { packet, role: Role::Stream(StreamPart { offset, ..part }), ..*first })
}

/// A packet is given up when it is not complete after this time: so long does a sender keep the rest of it, and so
/// long, at the most, do packets behind it wait.
const MAX_TIME: Duration = Duration::from_secs(1);

/// The most packets of a session that wait for parts: 90 ms of 500 Mbit/s if every packet is split, and as many as lose
/// a part within a second at one loss in ten.
const MAX_PACKETS: usize = 4096;

/// The most bytes of their buffers: what [`MAX_PACKETS`] of usual size take.
const MAX_BYTES: usize = 8 << 20;

/// The most pieces with holes between them that are known of a packet. The largest packet there is, in the parts of the
/// smallest datagrams and with every second one missing, has 62.
const MAX_PIECES: usize = 64;

/// What became of parts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AssemblyCounters {
    /// Packets whose parts have all arrived.
    pub joined: u64,
    /// Packets given up because some part did not arrive in time, or because too many waited.
    pub incomplete: u64,
    /// Parts that contradicted others of their packet, or left too many holes.
    pub refused: u64,
    /// Packets that wait for parts.
    pub waiting: usize,
}

/// A packet's place in the order of its bucket, which is what its parts have in common.
type Place = (Bucket, u32);

/// Bytes that have arrived: the first one, and the one behind the last.
type Piece = (u16, u16);

/// A packet that is not complete.
#[derive(Debug)]
struct Partial {
    packet: PacketBuf,
    /// In order, with holes between them.
    pieces: Vec<Piece>,
    since: Instant,
}

impl Partial {
    fn new(total: u16, pool: &mut BufPool, now: Instant) -> Self {
        let mut packet = pool.take();
        packet.reserve(total.into());
        packet.set_len(total.into());
        Self { packet, pieces: Vec::new(), since: now }
    }

    /// Takes a part; says whether it makes sense beside the others.
    fn add(&mut self, part: Part, bytes: &[u8]) -> bool {
        let start = usize::from(part.offset);
        let end = start + bytes.len();
        let room = self.packet.packet_mut().get_mut(start..end);
        let (Some(room), Ok(end)) = (room, u16::try_from(end)) else { return false };
        room.copy_from_slice(bytes);
        self.note((part.offset, end));
        self.pieces.len() <= MAX_PIECES
    }

    /// Joins a piece with those that it touches.
    fn note(&mut self, (start, end): Piece) {
        let from = self.pieces.partition_point(|piece| piece.1 < start);
        let to = self.pieces.partition_point(|piece| piece.0 <= end);
        let joined = self.pieces[from..to].iter();
        let joined = joined.fold((start, end), |whole, piece| (whole.0.min(piece.0), whole.1.max(piece.1)));
        self.pieces.splice(from..to, std::iter::once(joined));
    }

    fn is_complete(&self) -> bool {
        matches!(self.pieces[..], [(0, end)] if usize::from(end) == self.packet.len())
    }
}

/// All packets of a session that are not complete, bounded in number, bytes and time.
#[derive(Debug, Default)]
pub(crate) struct Assembly {
    partials: BTreeMap<Place, Partial>,
    by_age: BTreeSet<(Instant, Place)>,
    /// Of the buffers.
    bytes: usize,
    counters: AssemblyCounters,
}

impl Assembly {
    /// Takes a part of a packet. If it was the last one missing the packet is complete; its buffer should go back to
    /// `pool`. Where parts overlap, the one that came last counts.
    pub(crate) fn insert(
        &mut self,
        data: &DataFrame<'_>,
        part: Part,
        now: Instant,
        pool: &mut BufPool,
    ) -> Option<PacketBuf> {
        let place = (data.bucket, data.seq.0);
        if !self.partials.contains_key(&place) {
            self.begin(place, part.total, now, pool);
        }
        let partial = self.partials.get_mut(&place)?;
        // A part that says another length is of another packet, or of none; the first one is believed.
        if partial.packet.len() != usize::from(part.total) {
            self.counters.refused += 1;
            return None;
        }
        if !partial.add(part, data.packet) {
            self.counters.refused += 1;
            self.give_up(place, pool);
            return None;
        }
        if !partial.is_complete() {
            return None;
        }
        self.counters.joined += 1;
        self.remove(place)
    }

    /// Forgets the parts of a packet that has come whole, in some other way.
    pub(crate) fn forget(&mut self, bucket: Bucket, seq: FlowSeq, pool: &mut BufPool) {
        if let Some(packet) = self.remove((bucket, seq.0)) {
            pool.put(packet);
        }
    }

    /// Gives up what has waited too long.
    pub(crate) fn handle_timeout(&mut self, now: Instant, pool: &mut BufPool) {
        while let Some(&(since, place)) = self.by_age.first()
            && since + MAX_TIME <= now
        {
            self.give_up(place, pool);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.by_age.first().map(|(since, _)| *since + MAX_TIME)
    }

    /// Gives everything up.
    pub(crate) fn clear(&mut self, pool: &mut BufPool) {
        while let Some(&(_, place)) = self.by_age.first() {
            self.give_up(place, pool);
        }
    }

    /// What became of the parts so far.
    pub(crate) fn counters(&self) -> AssemblyCounters {
        AssemblyCounters { waiting: self.partials.len(), ..self.counters }
    }

    #[cfg(test)]
    fn bytes(&self) -> usize {
        self.bytes
    }

    /// Makes room for another packet, at the expense of the oldest.
    fn begin(&mut self, place: Place, total: u16, now: Instant, pool: &mut BufPool) {
        let partial = Partial::new(total, pool, now);
        self.bytes += partial.packet.capacity();
        while (self.partials.len() >= MAX_PACKETS || self.bytes > MAX_BYTES)
            && let Some(&(_, oldest)) = self.by_age.first()
        {
            self.give_up(oldest, pool);
        }
        self.by_age.insert((now, place));
        self.partials.insert(place, partial);
    }

    fn give_up(&mut self, place: Place, pool: &mut BufPool) {
        if let Some(packet) = self.remove(place) {
            self.counters.incomplete += 1;
            pool.put(packet);
        }
    }

    fn remove(&mut self, place: Place) -> Option<PacketBuf> {
        let partial = self.partials.remove(&place)?;
        self.by_age.remove(&(partial.since, place));
        self.bytes -= partial.packet.capacity();
        Some(partial.packet)
    }
}

#[cfg(test)]
mod tests;
