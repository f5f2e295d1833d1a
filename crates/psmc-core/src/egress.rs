//! The queue of a session: inner packets that wait for a path.

use std::collections::{BTreeSet, VecDeque};
use std::time::{Duration, Instant};

use psmc_wire::{Bucket, BufPool, FlowSeq, PacketBuf};

/// The most packets that wait in a session. As long as a network interface's own queue usually is.
const MAX_PACKETS: usize = 1024;

/// A packet that waited longer is of no use to anybody: its sender has long sent it again.
const MAX_AGE: Duration = Duration::from_secs(1);

/// An inner packet with its place in the order of its bucket.
#[derive(Debug)]
pub(crate) struct Queued {
    pub(crate) packet: PacketBuf,
    pub(crate) bucket: Bucket,
    /// Given with the first path, kept when it is sent again.
    pub(crate) seq: Option<FlowSeq>,
    pub(crate) ordered: bool,
    pub(crate) queued_at: Instant,
}

/// First in, first out, bounded in packets and in time.
#[derive(Debug, Default)]
pub(crate) struct EgressQueue {
    packets: VecDeque<Queued>,
    dropped: u64,
}

impl EgressQueue {
    /// Adds a packet at the end; when the queue is full the packet goes back to `pool` instead.
    pub(crate) fn push(&mut self, packet: Queued, pool: &mut BufPool) {
        if self.packets.len() >= MAX_PACKETS {
            self.dropped += 1;
            pool.put(packet.packet);
            return;
        }
        self.packets.push_back(packet);
    }

    /// Puts packets that a path could not deliver back in front, in their order, however full the queue is:
    /// they are as many as a path can have outstanding, no more.
    pub(crate) fn put_back(&mut self, packets: impl DoubleEndedIterator<Item = Queued>) {
        for packet in packets.rev() {
            self.packets.push_front(packet);
        }
    }

    /// The packet whose turn it is.
    pub(crate) fn front(&self) -> Option<&Queued> {
        self.packets.front()
    }

    /// Takes the packet whose turn it is.
    pub(crate) fn pop(&mut self) -> Option<Queued> {
        let packet = self.packets.pop_front()?;
        Some(packet)
    }

    /// Gives packets that have waited too long back to `pool`.
    pub(crate) fn drop_stale(&mut self, now: Instant, pool: &mut BufPool) {
        while self.packets.front().is_some_and(|front| front.queued_at + MAX_AGE <= now) {
            if let Some(stale) = self.pop() {
                self.dropped += 1;
                pool.put(stale.packet);
            }
        }
    }

    /// When the oldest packet will have waited too long.
    pub(crate) fn stale_at(&self) -> Option<Instant> {
        self.packets.front().map(|front| front.queued_at + MAX_AGE)
    }

    /// Gives everything back to `pool`.
    pub(crate) fn clear(&mut self, pool: &mut BufPool) {
        while let Some(packet) = self.pop() {
            pool.put(packet.packet);
        }
    }

    /// Takes all places in the order of buckets back: the session starts anew. Of copies that were on several
    /// paths one is kept: without their places the peer could not tell.
    pub(crate) fn forget_order(&mut self, pool: &mut BufPool) {
        let mut places = BTreeSet::new();
        for mut packet in std::mem::take(&mut self.packets) {
            let place = packet.seq.take().map(|seq| (packet.bucket, seq.0));
            if place.is_none_or(|place| places.insert(place)) {
                self.packets.push_back(packet);
            } else {
                pool.put(packet.packet);
            }
        }
    }

    /// Packets that wait.
    pub(crate) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Packets dropped so far, for lack of room or for age.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }
}
