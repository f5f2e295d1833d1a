//! Which packets travel to the kernel as one.
//!
//! `tun-rs` can do this too, but copies each packet twice, allocates for each, and reports one error for all.

use psmc_wire::Checksum;
use psmc_wire::buf::PacketBuf;

use super::header::{Flow, Segment, Transport, parse};

/// How many packets are joined at most: as many as the kernel accepts of UDP (`UDP_MAX_SEGMENTS` until Linux 6.7).
pub(super) const MAX_JOINED: usize = 64;

/// How many groups back a packet looks for the last of its flow: beyond that, flows are too many to gain much.
const LOOK_BACK: usize = 16;

/// The largest IP packet.
const MAX_LEN: usize = 65535;

/// The packets of one write, by their places in the batch.
#[derive(Debug)]
pub(super) struct Group {
    pub(super) first: usize,
    last: usize,
    pub(super) count: usize,
    /// Length of the packet that the kernel is to see.
    pub(super) total_len: usize,
    flow: Option<Flow>,
    /// What the first packet is; `None` is never joined.
    pub(super) segment: Option<Segment>,
    /// Whether another packet may follow the last.
    is_open: bool,
    pub(super) push: bool,
}

/// Sorts the packets of a batch into groups. Its memory is used again for the next batch, into which the last group may
/// be carried over.
#[derive(Debug)]
pub(super) struct Coalescer {
    groups: Vec<Group>,
    /// For each packet the next of its group, or itself.
    next: Vec<usize>,
    joins_udp: bool,
}

impl Coalescer {
    /// One that joins TCP segments and, if told to, UDP datagrams.
    pub(super) fn new(joins_udp: bool) -> Self {
        Self { groups: Vec::new(), next: Vec::new(), joins_udp }
    }

    /// Groups a batch, which begins with what was carried over. Groups are in the order of their first packets, and a
    /// flow's packets stay in order: each joins the last group of its flow, or starts a new one.
    pub(super) fn group(&mut self, packets: &[PacketBuf]) {
        for index in self.next.len()..packets.len() {
            self.next.push(index);
            self.add(packets, index);
        }
    }

    /// The last group, if another packet may join it.
    pub(super) fn open(&self) -> Option<&Group> {
        self.groups.last().filter(|group| group.may_grow())
    }

    /// The batch is done with, but for what is carried over: its last group, or nothing.
    pub(super) fn end_batch(&mut self, carries_over: bool) {
        let carried = self.groups.pop().filter(|_| carries_over);
        self.groups.clear();
        self.next.clear();
        if let Some(group) = carried {
            let last = group.count - 1;
            self.next.extend((1..=last).chain([last]));
            self.groups.push(Group { first: 0, last, ..group });
        }
    }

    pub(super) fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The places of the packets of a group, in order.
    pub(super) fn members(&self, group: &Group) -> impl Iterator<Item = usize> {
        let next = |index: &usize| Some(self.next[*index]).filter(|next| next != index);
        std::iter::successors(Some(group.first), next)
    }

    fn add(&mut self, packets: &[PacketBuf], index: usize) {
        let packet = &packets[index];
        let (flow, segment) = parse(packet.packet()).unzip();
        let segment = segment.flatten().filter(|it| self.joins_udp || it.transport != Transport::Udp);
        if let (Some(flow), Some(segment)) = (flow, segment)
            && let Some(group) = self.groups.iter_mut().rev().take(LOOK_BACK).find(|it| it.flow == Some(flow))
            && group.accepts(&segment, packets, packet)
        {
            self.next[group.last] = index;
            group.append(&segment, index);
        } else {
            self.groups.push(Group::new(index, packet.len(), flow, segment));
        }
    }
}

impl Group {
    fn new(index: usize, total_len: usize, flow: Option<Flow>, segment: Option<Segment>) -> Self {
        let push = segment.is_some_and(|it| it.is_push());
        Self { first: index, last: index, count: 1, total_len, flow, segment, is_open: !push, push }
    }

    fn may_grow(&self) -> bool {
        let piece = self.segment.map_or(MAX_LEN, |head| head.payload_len);
        self.is_open && self.count < MAX_JOINED && self.total_len + piece <= MAX_LEN
    }

    fn accepts(&self, segment: &Segment, packets: &[PacketBuf], packet: &PacketBuf) -> bool {
        let Some(head) = &self.segment else { return false };
        let head_packet = &packets[self.first];
        self.is_open
            && self.count < MAX_JOINED
            && self.total_len + segment.payload_len <= MAX_LEN
            && segment.header_len == head.header_len
            && segment.payload_len <= head.payload_len
            && self.is_next(head, segment)
            && head.is_alike(head_packet.packet(), packet.packet(), self.count)
            // What has a wrong checksum must keep it, and the kernel is about to compute one.
            && segment.may_be_completed(packet)
            && (self.count > 1 || head.may_be_completed(head_packet))
    }

    fn is_next(&self, head: &Segment, segment: &Segment) -> bool {
        match (head.transport, segment.transport) {
            (Transport::Tcp { sequence: first, .. }, Transport::Tcp { sequence, .. }) => {
                sequence.wrapping_sub(first) as usize == self.total_len - head.header_len
            }
            (head, segment) => head == segment,
        }
    }

    fn append(&mut self, segment: &Segment, index: usize) {
        self.last = index;
        self.count += 1;
        self.total_len += segment.payload_len;
        self.push = segment.is_push();
        // Only the last piece may be shorter than the others, or pushed.
        let is_full = self.segment.is_some_and(|head| head.payload_len == segment.payload_len);
        self.is_open = is_full && !self.push;
    }
}

impl Segment {
    /// Whether a checksum computed anew is as right as the packet's own.
    fn may_be_completed(&self, packet: &PacketBuf) -> bool {
        packet.checksum() == Checksum::Partial || self.is_intact(packet.packet())
    }

    fn is_push(&self) -> bool {
        matches!(self.transport, Transport::Tcp { push: true, .. })
    }
}

#[cfg(test)]
mod tests;
