//! The receive side of the flow buckets: every inner packet once, and in order where its flow asks for that.

mod buffer;
mod sampling;
mod seen;
mod sequence;
#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use psmc_wire::ids::BUCKETS;
use psmc_wire::{Bucket, BufPool, FlowSeq, PacketBuf, PathId};

pub use buffer::{AdaptiveBuffer, ReorderPolicy};
use sampling::Sampling;
use seen::SPAN;
use sequence::{Incoming, Sequence};

/// The most places in all the rings together: sixteen times the span of a bucket, 2 MiB. Without this bound,
/// one packet far ahead in each of the buckets would take 512 MiB.
const MAX_SLOTS: usize = 16 * SPAN as usize;

/// What a session may hold in all.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReorderLimits {
    /// Packets.
    pub(crate) held_packets: usize,
    /// Bytes of the buffers that they are in.
    pub(crate) held_bytes: usize,
}

impl Default for ReorderLimits {
    /// 8192 packets are twice the span of a bucket, so one flow can't take the room of all; 16 MiB are so
    /// many buffers for packets of usual size, and bound those for jumbo frames.
    fn default() -> Self {
        Self { held_packets: 8192, held_bytes: 16 << 20 }
    }
}

/// What happened so far, and what is held.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ReorderCounters {
    /// Packets delivered, the late ones among them.
    pub delivered: u64,
    /// Packets delivered after their place had been given up.
    pub late: u64,
    /// Packets dropped because they had arrived before.
    pub duplicates: u64,
    /// Sequence numbers given up before they arrived: losses, and later [`late`](Self::late) packets.
    pub skipped: u64,
    /// Times that a packet was too far ahead to wait for those between.
    pub jumps: u64,
    /// Times that gaps were given up because a packet's deadline had passed.
    pub released_by_deadline: u64,
    /// Times that gaps were given up because every path had delivered something sent later.
    pub released_by_horizon: u64,
    /// Times that gaps were given up because the limits were reached.
    pub released_by_limit: u64,
    /// Times that gaps were given up because a flow's buffer was full.
    pub released_by_buffer: u64,
    /// Packets held.
    pub held: usize,
    /// Bytes of the buffers that the held packets are in.
    pub held_bytes: usize,
}

/// An inner packet that arrived.
#[derive(Debug)]
pub(crate) struct Arrival {
    pub(crate) bucket: Bucket,
    pub(crate) seq: FlowSeq,
    /// Whether its flow asks for order.
    pub(crate) ordered: bool,
    pub(crate) packet: PacketBuf,
    /// The sender's clock when it was sent, in microseconds, wrapping.
    pub(crate) sent_at_us: u32,
    /// How much longer than the path it came by the slowest live path may take: the difference of their
    /// one-way delays, plus jitter.
    pub(crate) spread: Duration,
    /// How much longer than for the slowest path it is worth waiting for what is missing before it.
    pub(crate) patience: Duration,
    /// The path it came by.
    pub(crate) path: PathId,
    /// How long it was on its way, in microseconds, relative to the offset of the two clocks.
    pub(crate) delay_us: i32,
}

/// The sender's clock in microseconds, extended so that it doesn't wrap; only differences mean anything.
type SenderTime = u64;

/// The receive side of all buckets of a session.
///
/// Whenever [`next_timeout`](Self::next_timeout) has passed, [`handle_timeout`](Self::handle_timeout) is due;
/// calling it earlier or more often does nothing. A packet of an ordered flow costs amortised O(1) per
/// sequence number, and O(log n) over the n buckets that hold something when it changes what its bucket
/// releases next; others cost O(1).
#[derive(Debug)]
pub(crate) struct Reorder {
    policy: ReorderPolicy,
    limits: ReorderLimits,
    /// Empty until the first packet, then one place for each bucket.
    sequences: Vec<Option<Box<Sequence>>>,
    deadlines: Agenda<Instant>,
    sent: Agenda<SenderTime>,
    last_sent: SenderTime,
    counters: ReorderCounters,
    /// Length of all rings together.
    slots: usize,
    sampling: Sampling,
}

impl Reorder {
    /// A receive side to which nothing has arrived; it allocates nothing before something does.
    pub(crate) fn new(policy: ReorderPolicy, limits: ReorderLimits) -> Self {
        Self {
            policy,
            limits,
            sequences: Vec::new(),
            deadlines: Agenda::default(),
            sent: Agenda::default(),
            // Far enough from zero that earlier readings extend downwards.
            last_sent: 1 << 32,
            counters: ReorderCounters::default(),
            slots: 0,
            sampling: Sampling::default(),
        }
    }

    /// Waits for what is missing as this says, from the next packet on. What is held already leaves by its own deadline.
    pub(crate) fn set_policy(&mut self, policy: ReorderPolicy) {
        self.policy = policy;
    }

    /// Takes an inner packet and appends to `out` all that can be delivered. The buffer of a duplicate goes back to
    /// `pool`.
    pub(crate) fn insert(
        &mut self,
        arrival: Arrival,
        now: Instant,
        pool: &mut BufPool,
        out: &mut VecDeque<PacketBuf>,
    ) {
        let sent = extend(arrival.sent_at_us, self.last_sent);
        self.last_sent = sent;
        let incoming = Incoming {
            seq: arrival.seq,
            hold: arrival.ordered && self.policy != ReorderPolicy::Off,
            deadline: now + self.policy.hold(arrival.spread + arrival.patience),
            // What was sent again was sent later.
            sent: sent.saturating_add(u64::try_from(arrival.patience.as_micros()).unwrap_or(u64::MAX)),
        };
        let (policy, measured) = (self.policy, *self.sampling.measured());
        let duplicate = self.update(arrival.bucket, out, |sequence, sink| {
            if let ReorderPolicy::Adaptive(adaptive) = policy {
                sequence.buffer.on_arrival(&adaptive, &measured);
            }
            let (segment, duplicate) = sequence.insert(incoming, arrival.packet, now, sink);
            sequence.heed_buffer(&policy, segment, sink);
            duplicate
        });
        if let Some(duplicate) = duplicate {
            pool.put(duplicate);
        }
        if matches!(policy, ReorderPolicy::Adaptive(_)) {
            self.sampling.on_packet(arrival.path, arrival.delay_us);
        }
        self.handle_timeout(now, out);
        self.enforce_limits(out);
    }

    /// Whether a packet has arrived before, as far as is known.
    pub(crate) fn has_seen(&self, bucket: Bucket, seq: FlowSeq) -> bool {
        let sequence = self.sequences.get(bucket.index()).and_then(Option::as_deref);
        sequence.is_some_and(|sequence| sequence.has_seen(seq))
    }

    /// Whether [`sample`](Self::sample) is due before the next packet is inserted.
    pub(crate) fn is_sample_due(&self, now: Instant) -> bool {
        match self.policy {
            ReorderPolicy::Adaptive(adaptive) => self.sampling.is_due(adaptive.sampling, now),
            ReorderPolicy::Deadline | ReorderPolicy::Fixed { .. } | ReorderPolicy::Off => false,
        }
    }

    /// Begins a new sampling period: there are `paths` paths, the longest of whose round trips takes
    /// `round_trip`.
    pub(crate) fn sample(&mut self, paths: usize, round_trip: Duration, now: Instant) {
        self.sampling.end_period(paths, round_trip, now);
    }

    /// Appends to `out` what has been held until its deadline.
    pub(crate) fn handle_timeout(&mut self, now: Instant, out: &mut VecDeque<PacketBuf>) {
        while let Some((_, bucket)) = self.deadlines.first().filter(|(deadline, _)| *deadline <= now) {
            self.counters.released_by_deadline += 1;
            let (policy, measured) = (self.policy, *self.sampling.measured());
            self.update(bucket, out, |sequence, sink| {
                sequence.release_first_due(sink);
                if let ReorderPolicy::Adaptive(adaptive) = policy {
                    sequence.buffer.remeasure(&adaptive, &measured);
                }
            });
        }
    }

    /// Appends to `out` what was sent, by more than its patience, before `horizon_us`: the least, over the live paths, of the
    /// newest sender's clock that each has delivered. What such a packet waits for was sent before it, or again within its
    /// patience, and would have come by now. Only the policy `deadline` makes use of it.
    pub(crate) fn release_before(&mut self, horizon_us: u32, out: &mut VecDeque<PacketBuf>) {
        if self.policy != ReorderPolicy::Deadline {
            return;
        }
        let horizon = extend(horizon_us, self.last_sent);
        while let Some((_, bucket)) = self.sent.first().filter(|(sent, _)| *sent < horizon) {
            self.counters.released_by_horizon += 1;
            self.update(bucket, out, Sequence::release_first_sent);
        }
    }

    /// When [`handle_timeout`](Self::handle_timeout) is due, if anything is held.
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.deadlines.first().map(|(deadline, _)| deadline)
    }

    /// What happened so far, and what is held.
    pub(crate) fn counters(&self) -> ReorderCounters {
        self.counters
    }

    fn enforce_limits(&mut self, out: &mut VecDeque<PacketBuf>) {
        while let Some((_, bucket)) = self.deadlines.first().filter(|_| self.exceeds_limits()) {
            self.counters.released_by_limit += 1;
            self.update(bucket, out, Sequence::release_first_due);
        }
    }

    fn exceeds_limits(&self) -> bool {
        self.counters.held > self.limits.held_packets
            || self.counters.held_bytes > self.limits.held_bytes
            || self.slots > MAX_SLOTS
    }

    /// Applies `change` to the sequence of `bucket`, and keeps the agendas right.
    fn update<T>(
        &mut self,
        bucket: Bucket,
        out: &mut VecDeque<PacketBuf>,
        change: impl FnOnce(&mut Sequence, &mut Sink<'_>) -> T,
    ) -> T {
        if self.sequences.is_empty() {
            self.sequences.resize_with(usize::from(BUCKETS), || None);
        }
        let sequence = self.sequences[bucket.index()].get_or_insert_with(|| Box::new(Sequence::new()));
        let mut sink = Sink { out, counters: &mut self.counters, slots: &mut self.slots };
        let old = sequence.keys();
        let result = change(sequence, &mut sink);
        let new = sequence.keys();
        self.deadlines.update(bucket, old.deadline, new.deadline);
        self.sent.update(bucket, old.sent, new.sent);
        result
    }
}

/// The time nearest to `last` at which the sender's clock reads `sent_at_us`.
#[expect(clippy::cast_possible_truncation, reason = "the clock's reading is the low 32 bits")]
fn extend(sent_at_us: u32, last: SenderTime) -> SenderTime {
    let ahead = sent_at_us.wrapping_sub(last as u32).cast_signed();
    last.saturating_add_signed(ahead.into())
}

// Whose turn it is among the buckets that hold something.

/// The buckets that hold something, by the key at which they next release it: one entry each.
#[derive(Debug)]
struct Agenda<K> {
    entries: BTreeSet<(K, Bucket)>,
}

impl<K> Default for Agenda<K> {
    fn default() -> Self {
        Self { entries: BTreeSet::new() }
    }
}

impl<K: Copy + Ord> Agenda<K> {
    /// Moves `bucket` from its `old` key to its `new` one.
    fn update(&mut self, bucket: Bucket, old: Option<K>, new: Option<K>) {
        if old == new {
            return;
        }
        if let Some(old) = old {
            self.entries.remove(&(old, bucket));
        }
        if let Some(new) = new {
            self.entries.insert((new, bucket));
        }
    }

    /// The smallest key and its bucket.
    fn first(&self) -> Option<(K, Bucket)> {
        self.entries.first().copied()
    }
}

// Where packets go that need not wait, and the session's account of those that do.

/// What a bucket changes outside itself.
#[derive(Debug)]
struct Sink<'a> {
    out: &'a mut VecDeque<PacketBuf>,
    counters: &'a mut ReorderCounters,
    /// Length of all rings together.
    slots: &'a mut usize,
}

impl Sink<'_> {
    /// Delivers a packet that was never held.
    fn deliver(&mut self, buf: PacketBuf) {
        self.counters.delivered += 1;
        self.out.push_back(buf);
    }

    /// Accounts for `slots` more in a ring.
    fn grow(&mut self, slots: usize) {
        *self.slots += slots;
    }

    /// Accounts for a packet that is put in a slot.
    fn hold(&mut self, buf: &PacketBuf) {
        self.counters.held += 1;
        self.counters.held_bytes += buf.capacity();
    }

    /// Delivers what was held in a slot, which leaves its ring.
    fn release(&mut self, slot: Option<PacketBuf>) {
        *self.slots -= 1;
        if let Some(buf) = slot {
            self.counters.held -= 1;
            self.counters.held_bytes -= buf.capacity();
            self.deliver(buf);
        }
    }
}
