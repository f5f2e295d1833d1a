//! The queue in front of a transmitter.

use std::collections::VecDeque;

use super::PacketInfo;
use super::clock::Nanos;

/// A packet inside a link, until it is on the wire.
#[derive(Clone, Copy, Debug)]
pub(super) struct Queued<P> {
    pub(super) packet: P,
    pub(super) info: PacketInfo,
    pub(super) entered: Nanos,
    /// Whether it has been marked (ECN).
    pub(super) marked: bool,
}

/// First in, first out. Who adds to it sees to its limit.
#[derive(Debug)]
pub(super) struct Queue<P> {
    packets: VecDeque<Queued<P>>,
    bytes: usize,
}

impl<P> Queue<P> {
    pub(super) fn new() -> Self {
        Self { packets: VecDeque::new(), bytes: 0 }
    }

    pub(super) fn push(&mut self, packet: Queued<P>) {
        self.bytes += packet.info.len;
        self.packets.push_back(packet);
    }

    pub(super) fn pop(&mut self) -> Option<Queued<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.info.len;
        Some(packet)
    }

    /// Packets that wait.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Their bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}
