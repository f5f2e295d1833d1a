//! Inner flows, each with what it has carried, for whoever exports them (IPFIX, RFC 7011).
//!
//! | module | what it has |
//! |---|---|
//! | `seen` | what tells flows apart in a packet |
//! | `recent` | those that are just carrying packets, counted in a few instructions |
//! | `table` | the flows that are known, in a room that never grows |
//! | `others` | what is counted together because there is no room for each by itself |
//!
//! Every byte that a session counts is in exactly one record. What the room is too small for is in a record without addresses.

mod others;
mod recent;
mod seen;
mod table;

use std::collections::VecDeque;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_wire::Bucket;

use crate::classify::{ClassId, Classes, Classified, classify};
use crate::ids::PeerId;
use others::Others;
use recent::Recent;
use seen::{Ends, Seen};
use table::{Flow, Key, Place, Slot, Table};

/// Records that wait to be taken. Whoever takes them comes ten times a second for [`MAX_TAKEN`]: so these are what half a second
/// can end of flows in a burst. What is more is counted with the others.
const MAX_WAITING: usize = 4096;

/// Records that are taken at a time: what is made of them, some 100 kB, leaves in one go and must fit into the queues on its way.
const MAX_TAKEN: usize = 1024;

/// A TCP connection whose end has been seen is over after this time: until then its last packets may be sent again.
const LINGER: Duration = Duration::from_secs(2);

/// All flows are looked at in so many steps, one each time that records are taken: so none of them holds up packets for long.
const STEPS: usize = 10;

/// Bits of TCP's flags (RFC 9293 §3.1) by which a connection ends.
const FIN_OR_RST: u8 = 0x01 | 0x04;

/// When the record of a flow that still carries packets is made, and when a flow counts as ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowConfig {
    /// A record covers this time at most.
    pub active_timeout: Duration,
    /// A flow without a packet for this time has ended.
    pub idle_timeout: Duration,
}

/// Why a record ends: the element `flowEndReason` of IANA's registry, with its numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FlowEnd {
    /// No packet came for the idle timeout.
    Idle = 1,
    /// The flow goes on, and its next record begins.
    Active = 2,
    /// A TCP connection has ended.
    Finished = 3,
    /// The peer was removed, or nobody wants records any more.
    Forced = 4,
    /// There was no room for it.
    NoRoom = 5,
}

/// What a flow has carried, or others together, since the record before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowRecord {
    /// Whose it is.
    pub peer: PeerId,
    /// Whether it goes to the peer; else it comes from there.
    pub is_sent: bool,
    /// The class that this site's rules put it into.
    pub class: Arc<str>,
    /// What tells it apart; `None` where several flows are counted together.
    pub flow: Option<FlowId>,
    /// When its first packet passed.
    pub first: Instant,
    /// When its last one did.
    pub last: Instant,
    /// What it has carried.
    pub counts: FlowCounts,
    /// Why the record ends.
    pub end: FlowEnd,
}

/// What tells a flow apart, and what its headers say beside.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowId {
    /// Whence.
    pub source: IpAddr,
    /// Whereto.
    pub destination: IpAddr,
    /// The upper-layer protocol, by its IANA number.
    pub protocol: u8,
    /// Source and destination port; 0 where there are none.
    pub ports: [u16; 2],
    /// The traffic class or type of service of its first packet.
    pub tos: u8,
    /// All flags that its TCP segments had.
    pub tcp_flags: u8,
}

/// What a flow has carried: bytes are those of inner packets with their IP headers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowCounts {
    /// Packets, as [`SessionCounters`](crate::SessionCounters) count them.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Those among them that the queue dropped.
    pub dropped_packets: u64,
    /// Their bytes.
    pub dropped_bytes: u64,
    /// How often packets were sent again because a path had lost them.
    pub resent_packets: u64,
    /// Received packets that were lost and computed from repairs.
    pub recovered_packets: u64,
}

impl FlowCounts {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    fn add(&mut self, other: &Self) {
        self.packets += other.packets;
        self.bytes += other.bytes;
        self.dropped_packets += other.dropped_packets;
        self.dropped_bytes += other.dropped_bytes;
        self.resent_packets += other.resent_packets;
        self.recovered_packets += other.recovered_packets;
    }
}

/// The flow of a packet that waits, if it is known; it may have ended since.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct FlowRef(Place);

impl FlowRef {
    /// Whether there is a flow whose drops count.
    pub(crate) fn is_known(self) -> bool {
        self.0 != Place::default()
    }
}

/// What became of a packet that a site has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    /// Its queue has dropped it, with so many bytes.
    Dropped(usize),
    /// A path has lost it, or seems to have, and it is sent again.
    SentAgain,
}

/// A packet that has come from a peer, as far as flows care.
pub(crate) struct Arrived<'a> {
    pub(crate) packet: &'a [u8],
    pub(crate) bucket: Bucket,
    /// Whether it was lost and computed from repairs.
    pub(crate) is_recovered: bool,
}

/// The flows of all sessions.
#[derive(Debug)]
pub(crate) struct Flows {
    config: FlowConfig,
    table: Table,
    waiting: VecDeque<FlowRecord>,
    others: Others,
    /// What classes are called.
    names: Vec<Arc<str>>,
    /// Of [`STEPS`].
    step: usize,
}

impl Flows {
    /// No flow yet.
    pub(crate) fn new(config: FlowConfig, classes: &Classes) -> Self {
        Self {
            config,
            table: Table::new(),
            waiting: VecDeque::with_capacity(MAX_WAITING),
            others: Others::default(),
            names: names_of(classes),
            step: 0,
        }
    }

    /// Makes records as this says from now on.
    pub(crate) fn set_config(&mut self, config: FlowConfig) {
        self.config = config;
    }

    /// Packets are put into other classes from now on: flows end, and begin anew in theirs.
    pub(crate) fn set_classes(&mut self, classes: &Classes) {
        self.end(None);
        self.tell_others();
        self.names = names_of(classes);
    }

    /// A packet goes to a peer. Says which flow it belongs to.
    #[inline]
    pub(crate) fn on_sent(
        &mut self,
        peer: PeerId,
        packet: &[u8],
        headers: &Classified,
        class: ClassId,
        now: Instant,
    ) -> FlowRef {
        let slot = Slot::of(headers.bucket, peer, true);
        match self.table.recent(slot) {
            Some(recent) if recent.sends(peer, class, headers.flow, packet) => {
                recent.note(packet, now);
                FlowRef(recent.place())
            }
            _ => self.begin_sent(slot, peer, packet, headers, class, now),
        }
    }

    /// The same of a flow that has not just sent one.
    fn begin_sent(
        &mut self,
        slot: Slot,
        peer: PeerId,
        packet: &[u8],
        headers: &Classified,
        class: ClassId,
        now: Instant,
    ) -> FlowRef {
        let plain = Seen::of_plain(packet);
        let seen = plain.unwrap_or_else(|| Seen::of(headers));
        let key = Key { ends: seen.ends, peer, is_sent: true, class };
        let known = self.table.find(slot, |other| *other == key).map(|(place, ..)| place);
        let place = known.or_else(|| self.make(slot, key, seen, now));
        self.flow(place, key, now).note(seen.tcp_flags, packet.len(), now);
        if plain.is_some() {
            self.expect_more(
                slot,
                place.and_then(|place| Recent::new(packet, Some(headers.flow), &key, place, now)),
            );
        }
        FlowRef(place.unwrap_or_default())
    }

    /// A packet has come from a peer that has just sent another one of the same flow. Says into which class that was put when it began;
    /// `None` if it is no such packet, and still to be told of by [`on_received`](Self::on_received).
    #[inline]
    pub(crate) fn on_more(
        &mut self,
        peer: PeerId,
        bucket: Bucket,
        packet: &[u8],
        now: Instant,
    ) -> Option<ClassId> {
        let recent = self.table.recent(Slot::of(bucket, peer, false))?;
        if !recent.receives(peer, packet) {
            return None;
        }
        recent.note(packet, now);
        Some(recent.class())
    }

    /// A packet has come from a peer. Says into which class its flow was put when it began.
    pub(crate) fn on_received(
        &mut self,
        peer: PeerId,
        arrived: &Arrived<'_>,
        classes: &Classes,
        flow_key: [u64; 2],
        now: Instant,
    ) -> ClassId {
        let slot = Slot::of(arrived.bucket, peer, false);
        let headers = || classify(arrived.packet, flow_key).ok();
        let plain = Seen::of_plain(arrived.packet);
        // It has been checked that it is an IP packet.
        let seen = plain.or_else(|| headers().as_ref().map(Seen::of));
        let Some(seen) = seen else { return ClassId::default() };
        let is_it = |key: &Key| key.ends == seen.ends && key.peer == peer && !key.is_sent;
        let (place, key) = match self.table.find(slot, is_it) {
            Some((place, key, _)) => (Some(place), *key),
            None => {
                let class = headers().map(|headers| classes.of(&headers)).unwrap_or_default();
                let key = Key { ends: seen.ends, peer, is_sent: false, class };
                (self.make(slot, key, seen, now), key)
            }
        };
        let flow = self.flow(place, key, now);
        flow.note(seen.tcp_flags, arrived.packet.len(), now);
        flow.counts.recovered_packets += u64::from(arrived.is_recovered);
        if plain.is_some() {
            self.expect_more(
                slot,
                place.and_then(|place| Recent::new(arrived.packet, None, &key, place, now)),
            );
        }
        key.class
    }

    /// More packets are likely to follow one that was counted.
    fn expect_more(&mut self, slot: Slot, recent: Option<Recent>) {
        if let Some(recent) = recent {
            self.table.set_recent(slot, recent);
        }
    }

    /// Something became of a packet. Of a flow that has ended since it is not told any more.
    pub(crate) fn on_fate(&mut self, flow: FlowRef, fate: Fate) {
        let Some(flow) = self.table.get_mut(flow.0) else { return };
        match fate {
            Fate::Dropped(len) => {
                flow.counts.dropped_packets += 1;
                flow.counts.dropped_bytes += len as u64;
            }
            Fate::SentAgain => flow.counts.resent_packets += 1,
        }
    }

    /// Ends the flows of a peer, or all.
    pub(crate) fn end(&mut self, peer: Option<PeerId>) {
        let is_it = |key: &Key| peer.is_none_or(|peer| peer == key.peer);
        for (key, flow) in self.table.take_all(is_it) {
            self.retire(key, flow, FlowEnd::Forced);
        }
    }

    /// Looks at some of the flows, all of them in turn, and takes the records of those that have ended; not too many at a time.
    pub(crate) fn take(&mut self, now: Instant) -> Vec<FlowRecord> {
        self.look(now);
        let mut records: Vec<_> = self.waiting.drain(..self.waiting.len().min(MAX_TAKEN)).collect();
        let names = &self.names;
        records.extend(self.others.take().map(|(key, flow)| record(key, flow, FlowEnd::NoRoom, None, names)));
        records
    }

    /// Ends flows by their age, as long as there is room for their records.
    fn look(&mut self, now: Instant) {
        self.step = (self.step + 1) % STEPS;
        for place in self.table.places(self.step, STEPS) {
            if self.waiting.len() >= MAX_WAITING {
                return;
            }
            let Some((key, flow)) = self.table.entry_mut(place) else { continue };
            let quiet = now.saturating_duration_since(flow.last);
            let is_finished = flow.tcp_flags & FIN_OR_RST != 0 && quiet >= LINGER;
            let end = if is_finished { FlowEnd::Finished } else { FlowEnd::Idle };
            if is_finished || quiet >= self.config.idle_timeout {
                let ended = self.table.take(place);
                ended.into_iter().for_each(|(key, flow)| self.retire(key, flow, end));
            } else if now.saturating_duration_since(flow.first) >= self.config.active_timeout {
                let (key, so_far) = (*key, flow.begin_anew(now));
                self.retire(key, so_far, FlowEnd::Active);
            }
        }
    }

    /// A record of a flow that has carried something waits to be taken.
    fn retire(&mut self, key: Key, flow: Flow, end: FlowEnd) {
        if flow.counts.is_empty() {
            return;
        }
        if self.waiting.len() < MAX_WAITING {
            let id = id_of(&key, &flow);
            self.waiting.push_back(record(key, flow, end, Some(id), &self.names));
        } else {
            self.others.add(key, &flow);
        }
    }

    /// What was counted together waits to be taken: a few records more than [`MAX_WAITING`].
    fn tell_others(&mut self) {
        let names = &self.names;
        let others = self.others.take().map(|(key, flow)| record(key, flow, FlowEnd::NoRoom, None, names));
        self.waiting.extend(others);
    }

    /// A place for a new flow; `None` if there is none, and no room for the record of one that would go for it.
    fn make(&mut self, slot: Slot, key: Key, seen: Seen, now: Instant) -> Option<Place> {
        let flow = Flow::new(seen, now);
        if let Some(place) = self.table.insert(slot, key, flow) {
            return Some(place);
        }
        if self.waiting.len() >= MAX_WAITING {
            return None;
        }
        let oldest = self.table.take_oldest(slot);
        oldest.into_iter().for_each(|(key, flow)| self.retire(key, flow, FlowEnd::NoRoom));
        self.table.insert(slot, key, flow)
    }

    /// The flow at a place, or those that have none.
    fn flow(&mut self, place: Option<Place>, key: Key, now: Instant) -> &mut Flow {
        match place.and_then(|place| self.table.get_mut(place)) {
            Some(flow) => flow,
            None => self.others.of(key, now),
        }
    }
}

fn id_of(key: &Key, flow: &Flow) -> FlowId {
    let Ends { source, destination, ports, protocol, .. } = key.ends;
    let Flow { tos, tcp_flags, .. } = *flow;
    let (source, destination) = (key.ends.address(source), key.ends.address(destination));
    FlowId { source, destination, protocol, ports, tos, tcp_flags }
}

fn record(key: Key, flow: Flow, end: FlowEnd, id: Option<FlowId>, names: &[Arc<str>]) -> FlowRecord {
    let class = names.get(key.class.index()).map_or_else(|| Arc::from(""), Arc::clone);
    let Flow { first, last, counts, .. } = flow;
    FlowRecord { peer: key.peer, is_sent: key.is_sent, class, flow: id, first, last, counts, end }
}

fn names_of(classes: &Classes) -> Vec<Arc<str>> {
    classes.list().iter().map(|class| Arc::from(class.name.as_str())).collect()
}

#[cfg(test)]
mod tests;
