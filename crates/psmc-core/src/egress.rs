//! The queue of a session: inner packets that wait for a path.

mod acks;
mod class;
mod classes;
mod codel;
mod ecn;
mod flow;
mod protection;

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use psmc_wire::frame::{DATA_OVERHEAD, PART_OVERHEAD, Part, STREAM_OVERHEAD};
use psmc_wire::{Bucket, BufPool, FlowSeq, PacketBuf, StreamId};

use crate::classify::{ClassConfig, ClassId, RepairKind, classify};
use crate::condition::Precedence;
use crate::flows::{Fate, FlowRef};
use crate::police::{Facts, Marked, Tag};
use classes::ClassQueues;
pub(crate) use codel::Service;

/// A packet that waited longer is of no use to anybody: its sender has long sent it again.
const MAX_AGE: Duration = Duration::from_secs(1);

/// An inner packet with its place in the order of its bucket.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) packet: PacketBuf,
    /// Which part of a packet it is; `None` if it is all of one.
    pub(crate) part: Option<Part>,
    pub(crate) bucket: Bucket,
    pub(crate) class: ClassId,
    /// Given with the first path, kept when it is sent again.
    pub(crate) seq: Option<FlowSeq>,
    pub(crate) ordered: bool,
    pub(crate) role: Role,
    /// What the police took it for.
    pub(crate) marked: Marked,
    /// How willingly networks shall drop what carries it.
    pub(crate) precedence: Precedence,
    pub(crate) queued_at: Instant,
    /// Which one it is of all that paths were given, from 1; 0 until then.
    pub(crate) turn: u64,
    /// The flow that it counts for; copies and repairs count for none.
    pub(crate) flow: FlowRef,
}

/// What is in a buffer that waits for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An inner packet, and how it is made good if it is lost.
    Packet(RepairKind),
    /// One more copy of an inner packet, and whether that is sent again if it is lost.
    Copy { resent: bool },
    /// A repair of a group of packets, whose first one has its place.
    Repair,
    /// Bytes of a stream.
    Stream(StreamPart),
    /// A whole frame about a stream, with the serial of the session's streams.
    StreamControl(u8),
}

/// Which bytes of which stream are in a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct StreamPart {
    pub(crate) id: StreamId,
    /// Of the first of them, low 32 bits.
    pub(crate) offset: u32,
    /// Whether the stream ends behind them.
    pub(crate) fin: bool,
    /// The serial of the session's streams: those of a peer that has lost its state are of no use to it any more.
    pub(crate) serial: u8,
}

impl Role {
    /// Whether it is sent again when a path has lost it.
    pub(crate) fn is_resent(self) -> bool {
        matches!(self, Self::Packet(RepairKind::Auto | RepairKind::Resend)) || self.is_of_stream()
    }

    /// Whether it is an inner packet, or a part of one.
    pub(crate) fn is_packet(self) -> bool {
        matches!(self, Self::Packet(_) | Self::Copy { .. })
    }

    /// Whether it belongs to a stream: then it waits for as long as the session lasts, and arrives.
    pub(crate) fn is_of_stream(self) -> bool {
        matches!(self, Self::Stream(_) | Self::StreamControl(_))
    }

    /// Whether it is worth waiting for what is missing before it.
    pub(crate) fn promises_more(self) -> bool {
        self.is_resent() || self == Self::Copy { resent: true }
    }

    /// Whether it may travel in one datagram with others. A repair must not be lost with what it repairs; and of packets
    /// that are repaired together no two, for repairs are counted as if each of them were lost by itself.
    pub(crate) fn may_join(self, mut others: impl Iterator<Item = Self>) -> bool {
        match self {
            Self::Repair => false,
            Self::Packet(RepairKind::Fec) => others.all(|other| other != self),
            Self::Packet(_) | Self::Copy { .. } | Self::Stream(_) | Self::StreamControl(_) => true,
        }
    }
}

impl Queued {
    /// One more copy, in a buffer of `pool`; what is lost of both is sent again if `resent`.
    pub(crate) fn copy(&self, resent: bool, pool: &mut BufPool) -> Self {
        let mut packet = pool.take();
        packet.fill(self.packet.packet());
        packet.set_checksum(self.packet.checksum());
        let role = if self.role.is_of_stream() { self.role } else { Role::Copy { resent } };
        let (marked, flow) = (Marked::default(), FlowRef::default());
        Self { packet, role, marked, flow, ..*self }
    }

    /// What the police has to know of it. What is left of a packet in parts says nothing.
    fn facts(&self) -> Option<Facts> {
        let headers = classify(self.packet.packet(), [0; 2]).ok()?;
        Some(self.marked.facts(&headers, self.bucket, self.class))
    }

    /// Bytes of the packet that it is, or is the first part of.
    pub(crate) fn len(&self) -> usize {
        self.part.map_or(self.packet.len(), |part| part.total.into())
    }

    /// The bytes it takes in a datagram beyond what every frame with data takes.
    pub(crate) fn len_in_frame(&self) -> usize {
        let more = match self.role {
            Role::Stream(_) => STREAM_OVERHEAD - DATA_OVERHEAD,
            Role::StreamControl(_) | Role::Repair => 0,
            Role::Packet(_) | Role::Copy { .. } => self.part.map_or(0, |_| PART_OVERHEAD),
        };
        self.packet.len() + more
    }

    /// The bytes by which it makes its queue longer. Of a stream only a few wait here, the others in the stream.
    fn bulk(&self) -> u32 {
        if self.role.is_of_stream() { 0 } else { u32::try_from(self.packet.len()).unwrap_or(u32::MAX) }
    }
}

/// A class of a session's queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Packets that wait.
    pub queued_packets: usize,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Whether they wait for paths that the class insists on, while none of these works and others do.
    pub is_stuck: bool,
    /// What became of the others.
    pub counters: QueueCounters,
}

/// What became of the packets of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounters {
    /// Packets that waited and went to a path.
    pub passed: u64,
    /// Their bytes.
    pub passed_bytes: u64,
    /// Packets dropped because their flow kept the queue too long.
    pub dropped_by_codel: u64,
    /// Packets dropped because the queue was full.
    pub dropped_full: u64,
    /// Packets dropped because they had waited for more than a second.
    pub dropped_stale: u64,
    /// Packets that were marked, as congestion experienced, where they would have been dropped otherwise.
    pub marked: u64,
    /// Acknowledgements of TCP in the place of which a later one went, which said the same and more.
    pub superseded: u64,
    /// Packets of flows that built a queue where none should, which were put among those of no class.
    pub put_out: u64,
}

impl QueueCounters {
    /// All drops.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped_by_codel + self.dropped_full + self.dropped_stale
    }
}

/// Classes, and in each of them flow queueing with controlled delay (FQ-CoDel, RFC 8290), bounded in packets, bytes
/// and time; and in front of all that what paths have given back.
///
/// [`front`](Self::front) decides whose turn it is and drops what its flow has too much of;
/// [`pop`](Self::pop) takes the packet that `front` has shown. Packets have no place in the order of their
/// bucket while they are here, unless a path gave them back: so a drop leaves no gap for the peer to wait at.
/// Those that came back have a place, and have waited where nobody could help it. They go first, and are
/// never dropped but for their age.
#[derive(Debug)]
pub(crate) struct EgressQueue {
    /// One for all classes that go by any path, and one for each of the others: whose paths have no room keeps nobody else waiting.
    lanes: Vec<Lane>,
    /// The lane of each class; empty if there is only one.
    lane_of: Vec<usize>,
    /// The lane whose turn it is, and those that have stepped aside, a bit each.
    turn: usize,
    aside: u32,
    classes: ClassQueues,
    /// No packet of `classes` has waited since before.
    oldest: Option<Instant>,
    /// Of those given back.
    dropped: u64,
}

/// Packets that have left their classes, and wait for a path.
#[derive(Debug, Default)]
struct Lane {
    /// What paths have given back.
    returned: VecDeque<Queued>,
    /// Out of `classes`, and next to go; and since when it is that. It has had its turn, and does not grow stale by what
    /// it waited before: a class that is always late would lose its turns again and again.
    staged: Option<(Queued, Instant)>,
}

impl Lane {
    fn front(&self) -> Option<&Queued> {
        self.returned.front().or(self.staged.as_ref().map(|(packet, _)| packet))
    }

    fn len(&self) -> usize {
        self.returned.len() + usize::from(self.staged.is_some())
    }

    fn take_all(&mut self) -> impl Iterator<Item = Queued> {
        let staged = self.staged.take().map(|(packet, _)| packet);
        self.returned.drain(..).chain(staged)
    }
}

/// A packet that was dropped, for the police.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Loss {
    pub(crate) facts: Facts,
    pub(crate) tag: Tag,
    pub(crate) bytes: usize,
}

/// Drops that the police has not been told of yet; `None` without one.
pub(crate) type Losses = Option<Vec<Loss>>;

/// More are not told one by one: it is told after each packet, and after that so many say all.
const MAX_LOSSES: usize = 256;

/// Notes a packet that is dropped, if somebody wants to know.
pub(crate) fn note_loss(losses: &mut Losses, packet: &Queued) {
    let Some(losses) = losses.as_mut().filter(|losses| losses.len() < MAX_LOSSES) else { return };
    if let (Role::Packet(_), Some(facts)) = (packet.role, packet.facts()) {
        losses.push(Loss { facts, tag: packet.marked.tag, bytes: packet.packet.len() });
    }
}

impl EgressQueue {
    /// An empty queue with these classes, for packets of up to `mtu` bytes.
    pub(crate) fn new(classes: &[ClassConfig], mtu: u16) -> Self {
        let mut queue = Self {
            lanes: Vec::new(),
            lane_of: Vec::new(),
            turn: 0,
            aside: 0,
            classes: ClassQueues::new(classes, mtu),
            oldest: None,
            dropped: 0,
        };
        queue.make_lanes(classes);
        queue
    }

    /// Sorts packets into these classes from now on. Those that wait go first, in the order in which they came; the counters of
    /// a class that keeps its name go on. Returns what became of each class: the one that has its name now.
    pub(crate) fn set_classes(&mut self, classes: &[ClassConfig]) -> Vec<ClassId> {
        let mut waiting: Vec<_> = self.lanes.iter_mut().flat_map(Lane::take_all).collect();
        let (moved, queued) = self.classes.replace(classes);
        waiting.extend(queued);
        self.make_lanes(classes);
        for mut packet in waiting {
            packet.class = moved.get(packet.class.index()).copied().unwrap_or_default();
            let lane = self.lane_of(packet.class);
            self.lanes[lane].returned.push_back(packet);
        }
        moved
    }

    fn make_lanes(&mut self, classes: &[ClassConfig]) {
        let mut lanes = 1;
        let lane_of = classes.iter().map(|class| {
            if class.paths.is_none() {
                return 0;
            }
            lanes += 1;
            lanes - 1
        });
        self.lane_of = lane_of.collect();
        self.lanes = (0..lanes).map(|_| Lane::default()).collect();
        (self.turn, self.aside) = (0, 0);
    }

    fn lane_of(&self, class: ClassId) -> usize {
        self.lane_of.get(class.index()).copied().unwrap_or_default()
    }

    /// Adds a packet at the end of its flow. If that makes the queue too long, the flow with the largest
    /// backlog loses its first packets; their buffers go back to `pool`.
    pub(crate) fn push(&mut self, packet: Queued, pool: &mut BufPool) {
        if !packet.role.is_of_stream() && (self.classes.is_empty() || self.oldest.is_none()) {
            self.oldest = Some(packet.queued_at);
        }
        if self.classes.is_empty() && self.heads().next().is_none() {
            self.classes.params().on_idle();
        }
        self.classes.push(packet, pool);
    }

    /// Puts packets that a path could not deliver back in front, in their order, however full the queue is:
    /// they are as many as a path can have outstanding, no more.
    pub(crate) fn put_back(&mut self, packets: impl DoubleEndedIterator<Item = Queued>) {
        for packet in packets.rev() {
            let lane = self.lane_of(packet.class);
            self.lanes[lane].returned.push_front(packet);
        }
    }

    /// Has a packet go before all that paths have not given back.
    pub(crate) fn push_urgent(&mut self, packet: Queued) {
        let lane = self.lane_of(packet.class);
        self.lanes[lane].returned.push_back(packet);
    }

    /// The same for packets that have left and are sent again.
    pub(crate) fn put_back_sent(&mut self, packets: impl DoubleEndedIterator<Item = Queued>) {
        for packet in packets.rev() {
            self.classes.note(&packet, Fate::SentAgain);
            let lane = self.lane_of(packet.class);
            self.lanes[lane].returned.push_front(packet);
        }
    }

    /// The packet whose turn it is, of lanes that have not stepped aside. What is dropped on the way to it goes back to `pool`.
    pub(crate) fn front(&mut self, pool: &mut BufPool, now: Instant) -> Option<&Queued> {
        if let [lane] = self.lanes.as_mut_slice() {
            if lane.len() == 0 {
                lane.staged = self.classes.pop(pool, now).map(|packet| (packet, now));
            }
        } else {
            self.turn = self.next_lane(pool, now)?;
        }
        self.shown()
    }

    /// The lane whose turn it is among several: one that was given something back, or else the one of the class that is next.
    fn next_lane(&mut self, pool: &mut BufPool, now: Instant) -> Option<usize> {
        let is_open = |lane: usize| self.aside >> lane & 1 == 0;
        let has_returned = |lane: &usize| is_open(*lane) && !self.lanes[*lane].returned.is_empty();
        if let Some(lane) = (0..self.lanes.len()).find(has_returned) {
            return Some(lane);
        }
        loop {
            let (lanes, lane_of, aside) = (&self.lanes, &self.lane_of, self.aside);
            let lane = |class: usize| lane_of.get(class).copied().unwrap_or_default();
            let is_open = |class: usize| aside >> lane(class) & 1 == 0;
            let class = self.classes.next_of(is_open, |class, waiting| {
                let staged = lanes[lane(class)].staged.as_ref();
                waiting || staged.is_some_and(|(packet, _)| packet.class.index() == class)
            })?;
            let lane = lane(class);
            if self.lanes[lane].staged.is_none() {
                let packet = self.classes.pop_of(class, pool, now);
                self.lanes[lane].staged = packet.map(|packet| (packet, now));
            }
            // Its class may have had nothing but what its flows had too much of.
            if self.lanes[lane].staged.is_some() {
                return Some(lane);
            }
        }
    }

    /// The packet that [`front`](Self::front) has shown waits, and so does all that wants its paths, until
    /// [`step_back`](Self::step_back). Whether there may be others that do not.
    pub(crate) fn step_aside(&mut self) -> bool {
        self.aside |= 1 << self.turn;
        self.lanes.len() > 1
    }

    /// All lanes may have their turn again.
    pub(crate) fn step_back(&mut self) {
        self.aside = 0;
    }

    /// Takes the packet that [`front`](Self::front) has shown.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let lane = &mut self.lanes[self.turn];
        if let Some(packet) = lane.returned.pop_front() {
            return Some(packet);
        }
        let (packet, _) = lane.staged.take()?;
        if self.lanes.len() > 1 {
            self.classes.charge(&packet);
        }
        Some(packet)
    }

    /// What [`front`](Self::front) has shown, or what has come back since.
    pub(crate) fn shown(&self) -> Option<&Queued> {
        self.lanes[self.turn].front()
    }

    /// The packets of which each waits for a path, and no other packet.
    pub(crate) fn heads(&self) -> impl Iterator<Item = &Queued> {
        self.lanes.iter().filter_map(Lane::front)
    }

    /// How many packets wait for the same paths as the one that [`front`](Self::front) has shown, with it.
    pub(crate) fn backlog(&self) -> usize {
        if self.lanes.len() == 1 {
            return self.len();
        }
        let waiting = |class: &usize| self.lane_of.get(*class).is_some_and(|lane| *lane == self.turn);
        let in_classes = (0..self.lane_of.len()).filter(waiting).map(|class| self.classes.waiting(class));
        self.lanes[self.turn].len() + in_classes.sum::<usize>()
    }

    /// Whether the packet that [`front`](Self::front) has shown, which has not been on a path, came by itself: long after the
    /// one before in its flow, and with none behind it.
    pub(crate) fn is_alone(&self) -> bool {
        let lane = &self.lanes[self.turn];
        let staged = lane.staged.as_ref().filter(|_| lane.returned.is_empty());
        staged.is_some_and(|(packet, _)| self.classes.is_alone(packet.class, packet.bucket))
    }

    /// Keeps drops for the police from now on, or no more.
    pub(crate) fn tell_losses(&mut self, wanted: bool) {
        *self.classes.losses() = wanted.then(Vec::new);
    }

    /// A path has lost a packet, which is not sent again.
    pub(crate) fn note_loss(&mut self, packet: &Queued) {
        note_loss(self.classes.losses(), packet);
    }

    /// The drops that nobody was told of yet.
    pub(crate) fn losses(&mut self) -> impl Iterator<Item = Loss> {
        self.classes.losses().iter_mut().flat_map(|losses| losses.drain(..))
    }

    /// Takes over what is known of the paths that packets go to.
    pub(crate) fn set_service(&mut self, service: &Service, now: Instant) {
        self.classes.params().set_service(service, now);
    }

    /// Paths have come or gone, or count for more or less.
    pub(crate) fn on_paths_changed(&mut self) {
        self.classes.params().on_paths_changed();
    }

    /// Gives packets that have waited too long back to `pool`.
    pub(crate) fn drop_stale(&mut self, now: Instant, pool: &mut BufPool) {
        let is_stale = |since: Instant| since + MAX_AGE <= now;
        let may_go = |packet: &Queued, since: Instant| !packet.role.is_of_stream() && is_stale(since);
        for lane in &mut self.lanes {
            let returned =
                std::iter::from_fn(|| lane.returned.pop_front_if(|packet| may_go(packet, packet.queued_at)));
            let staged = lane.staged.take_if(|(packet, since)| may_go(packet, *since));
            let staged = staged.map(|(packet, _)| packet);
            for stale in returned.chain(staged) {
                self.dropped += 1;
                note_loss(self.classes.losses(), &stale);
                self.classes.note(&stale, Fate::Dropped(stale.len()));
                pool.put(stale.packet);
            }
        }
        if self.oldest.is_some_and(is_stale) {
            self.oldest = self.classes.drop_stale(|packet| may_go(packet, packet.queued_at), pool);
        }
    }

    /// Whether something became of packets of flows since that was last taken.
    pub(crate) fn has_fates(&self) -> bool {
        self.classes.has_fates()
    }

    /// What became of packets of flows since this was last asked.
    pub(crate) fn take_fates(&mut self) -> impl Iterator<Item = (FlowRef, Fate)> + '_ {
        self.classes.take_fates()
    }

    /// When the oldest packet will have waited too long, or earlier.
    pub(crate) fn stale_at(&self) -> Option<Instant> {
        let may_go = |packet: &Queued| !packet.role.is_of_stream();
        let returned =
            |lane: &Lane| lane.returned.front().filter(|front| may_go(front)).map(|front| front.queued_at);
        let staged =
            |lane: &Lane| lane.staged.as_ref().filter(|(packet, _)| may_go(packet)).map(|(_, since)| *since);
        let oldest = self.oldest.filter(|_| !self.classes.is_empty());
        let in_lanes = self.lanes.iter().flat_map(|lane| [returned(lane), staged(lane)]);
        in_lanes.chain([oldest]).flatten().min().map(|at| at + MAX_AGE)
    }

    /// Gives everything back to `pool`.
    pub(crate) fn clear(&mut self, pool: &mut BufPool) {
        for packet in self.lanes.iter_mut().flat_map(Lane::take_all) {
            pool.put(packet.packet);
        }
        self.classes.drop_stale(|_| true, pool);
    }

    /// Takes all places in the order of buckets back: the session starts anew. Of copies that were on several
    /// paths one is kept: without their places the peer could not tell. Repairs are dropped, for they name places, and
    /// so are parts: without their place nobody knows what they belong to.
    pub(crate) fn forget_order(&mut self, pool: &mut BufPool) {
        let mut places = BTreeSet::new();
        for lane in &mut self.lanes {
            for mut packet in std::mem::take(&mut lane.returned) {
                if packet.role == Role::Repair {
                    pool.put(packet.packet);
                    continue;
                }
                let place = packet.seq.take().map(|seq| (packet.bucket, seq.0));
                if packet.part.is_none() && place.is_none_or(|place| places.insert(place)) {
                    lane.returned.push_back(packet);
                } else {
                    pool.put(packet.packet);
                }
            }
        }
    }

    /// The classes and what they hold.
    pub(crate) fn classes(&self) -> impl Iterator<Item = ClassStatus> {
        self.classes.status()
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.lanes.iter().map(Lane::len).sum::<usize>() + self.classes.len()
    }

    /// Packets dropped so far.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped + self.classes().map(|class| class.counters.dropped()).sum::<u64>()
    }
}

#[cfg(test)]
mod tests;
