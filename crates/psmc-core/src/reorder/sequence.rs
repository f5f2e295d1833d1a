//! The sequence of one bucket: what is next, what is held, what has been seen.

use std::collections::VecDeque;
use std::time::Instant;

use psmc_wire::{FlowSeq, PacketBuf};

use super::Sink;
use super::buffer::{BufferSize, FIRST_PACKETS};
use super::seen::Staircase;
use super::seen::{SPAN, Seen};
use super::{ReorderPolicy, SenderTime};

/// Slots of the ring that are kept when it becomes empty: enough for the reordering of an ordinary burst,
/// and 2 MiB over all the buckets of a session.
const KEPT_SLOTS: usize = 16;

/// The place of a packet in the bucket, and how long it may be held.
#[derive(Clone, Copy, Debug)]
pub(super) struct Incoming {
    pub(super) seq: FlowSeq,
    /// Whether it is held at all if packets before it are missing.
    pub(super) hold: bool,
    /// When packets before it need no longer be expected.
    pub(super) deadline: Instant,
    /// By when, by the sender's clock, they have been sent, if need be again.
    pub(super) sent: SenderTime,
}

/// The keys under which a bucket stands in the agendas; none when it holds nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Keys {
    pub(super) deadline: Option<Instant>,
    pub(super) sent: Option<SenderTime>,
}

/// One bucket.
///
/// ```text
///     delivered or given up │ next        newest seen
///   ────────────────────────┼──┬──┬──┬──┬──┐
///                           │  │■ │  │■ │■ │   ring: slot i is number next + i
///                           └──┴──┴──┴──┴──┘
/// ```
/// The newest number seen is less than [`SPAN`] ahead of `next`. The ring reaches to the last packet held, so
/// it is empty when none is; a number in it that is seen and not held was delivered at once, as unordered.
#[derive(Debug)]
pub(super) struct Sequence {
    next: FlowSeq,
    seen: Seen,
    ring: VecDeque<Option<PacketBuf>>,
    /// Packets in the ring.
    held: usize,
    /// How many it may hold, under the policy `adaptive`.
    pub(super) buffer: BufferSize,
    deadlines: Staircase<Instant>,
    sent: Staircase<SenderTime>,
    /// A number delivered before others, as unordered, and when these have been waited for long enough.
    overtaken: Option<(FlowSeq, Instant)>,
}

impl Sequence {
    /// A bucket of which nothing has arrived: number zero is next.
    pub(super) fn new() -> Self {
        Self {
            next: FlowSeq(0),
            seen: Seen::new(),
            ring: VecDeque::new(),
            held: 0,
            buffer: BufferSize::default(),
            deadlines: Staircase::default(),
            sent: Staircase::default(),
            overtaken: None,
        }
    }

    /// Whether a packet has arrived before, as far as is known.
    pub(super) fn has_seen(&self, seq: FlowSeq) -> bool {
        self.seen.contains(seq)
    }

    /// Delivers the packet and what waited for it, or holds it; a duplicate comes back. Says how long the segment is
    /// that it has put in order.
    pub(super) fn insert(
        &mut self,
        incoming: Incoming,
        packet: PacketBuf,
        now: Instant,
        sink: &mut Sink<'_>,
    ) -> (u32, Option<PacketBuf>) {
        self.give_up_overtaken(now, sink);
        if incoming.seq.distance_from(self.next) >= SPAN.cast_signed() {
            sink.counters.jumps += 1;
            self.skip_to(incoming.seq, sink);
        }
        if !self.seen.insert(incoming.seq) {
            sink.counters.duplicates += 1;
            return (0, Some(packet));
        }
        let before = self.next;
        let in_order = incoming.seq == before;
        self.place(incoming, packet, sink);
        let segment = if in_order { self.next.distance_from(before).unsigned_abs() } else { 0 };
        (segment, None)
    }

    /// Heeds the size of the buffer after a packet has put a segment of that many packets in order.
    pub(super) fn heed_buffer(&mut self, policy: &ReorderPolicy, segment: u32, sink: &mut Sink<'_>) {
        match policy {
            ReorderPolicy::Deadline | ReorderPolicy::Off => {}
            ReorderPolicy::Fixed { packets, .. } => {
                if self.held >= (*packets).into() {
                    self.release_full(sink);
                }
            }
            ReorderPolicy::Adaptive(_) => {
                self.buffer.on_segment(segment);
                if self.buffer.is_full(self.held) && self.release_full(sink) {
                    self.buffer.on_full();
                }
                self.buffer.on_turn_end();
            }
        }
    }

    /// Gives up the gaps before the packet whose deadline is first.
    pub(super) fn release_first_due(&mut self, sink: &mut Sink<'_>) {
        if let Some((seq, _)) = self.deadlines.first() {
            self.skip_to(seq.plus(1), sink);
        }
    }

    /// Gives up the gaps before the packet that was sent first.
    pub(super) fn release_first_sent(&mut self, sink: &mut Sink<'_>) {
        if let Some((seq, _)) = self.sent.first() {
            self.skip_to(seq.plus(1), sink);
        }
    }

    /// When the bucket next has to release something.
    pub(super) fn keys(&self) -> Keys {
        Keys {
            deadline: self.deadlines.first().map(|(_, deadline)| deadline),
            sent: self.sent.first().map(|(_, sent)| sent),
        }
    }

    /// Gives up the gaps before the first packets, the buffer being full; says whether it holds any.
    fn release_full(&mut self, sink: &mut Sink<'_>) -> bool {
        let held = (0..SPAN).zip(&self.ring).filter(|(_, slot)| slot.is_some());
        let Some((slot, _)) = held.take(FIRST_PACKETS).last() else {
            return false;
        };
        sink.counters.released_by_buffer += 1;
        self.skip_to(self.next.plus(slot + 1), sink);
        true
    }

    fn place(&mut self, incoming: Incoming, buf: PacketBuf, sink: &mut Sink<'_>) {
        let ahead = incoming.seq.distance_from(self.next);
        if ahead > 0 && incoming.hold {
            self.hold(incoming, buf, sink);
            return;
        }
        sink.deliver(buf);
        if ahead > 0 {
            self.note_overtaking(incoming);
        } else if ahead == 0 {
            self.step(sink);
            self.deliver_run(sink);
        } else {
            sink.counters.late += 1;
        }
    }

    fn hold(&mut self, incoming: Incoming, buf: PacketBuf, sink: &mut Sink<'_>) {
        let slot = incoming.seq.distance_from(self.next).unsigned_abs() as usize;
        if self.ring.len() <= slot {
            sink.grow(slot + 1 - self.ring.len());
            self.ring.resize_with(slot + 1, || None);
        }
        sink.hold(&buf);
        self.held += 1;
        self.ring[slot] = Some(buf);
        self.deadlines.insert(incoming.seq, incoming.deadline);
        self.sent.insert(incoming.seq, incoming.sent);
    }

    /// Unordered packets set no timer: what they overtook is given up when the bucket is next looked at, so
    /// that no ordered packet waits for an unordered one lost long ago.
    fn note_overtaking(&mut self, incoming: Incoming) {
        let pending = self.overtaken.is_some_and(|(seq, _)| seq.distance_from(self.next) > 0);
        if !pending {
            self.overtaken = Some((incoming.seq, incoming.deadline));
        }
    }

    fn give_up_overtaken(&mut self, now: Instant, sink: &mut Sink<'_>) {
        let Some((seq, _)) = self.overtaken.take_if(|(_, deadline)| *deadline <= now) else {
            return;
        };
        if seq.distance_from(self.next) > 0 {
            self.skip_to(seq.plus(1), sink);
        }
    }

    /// Gives up every gap before `target`, delivers what is held there, and goes on from `target`.
    fn skip_to(&mut self, target: FlowSeq, sink: &mut Sink<'_>) {
        while self.next != target && self.next.distance_from(self.seen.newest()) <= 0 {
            sink.counters.skipped += u64::from(!self.seen.contains(self.next));
            self.step(sink);
        }
        let unseen = target.distance_from(self.next).unsigned_abs();
        sink.counters.skipped += u64::from(unseen);
        self.next = target;
        self.deliver_run(sink);
    }

    /// Goes on over all that has arrived without a gap.
    fn deliver_run(&mut self, sink: &mut Sink<'_>) {
        while self.seen.contains(self.next) {
            self.step(sink);
        }
        self.deadlines.discard_before(self.next);
        self.sent.discard_before(self.next);
        if self.ring.is_empty() {
            self.ring.shrink_to(KEPT_SLOTS);
        }
    }

    /// Goes on by one number.
    fn step(&mut self, sink: &mut Sink<'_>) {
        if let Some(slot) = self.ring.pop_front() {
            self.held -= usize::from(slot.is_some());
            sink.release(slot);
        }
        self.next = self.next.plus(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reorder::ReorderCounters;

    #[test]
    fn a_bucket_that_holds_nothing_gives_its_room_back() {
        let (mut sequence, now) = (Sequence::new(), Instant::now());
        let (mut out, mut counters, mut slots) = (VecDeque::new(), ReorderCounters::default(), 0);
        let mut sink = Sink { out: &mut out, counters: &mut counters, slots: &mut slots };
        let incoming = Incoming { seq: FlowSeq(4000), hold: true, deadline: now, sent: 0 };
        sequence.insert(incoming, PacketBuf::default(), now, &mut sink);
        assert_eq!((sequence.ring.len(), *sink.slots), (4001, 4001));
        sequence.release_first_due(&mut sink);
        assert_eq!(*sink.slots, 0);
        assert!(sequence.ring.capacity() <= 2 * KEPT_SLOTS);
    }
}
