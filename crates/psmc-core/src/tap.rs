//! Inner packets as they pass, for whoever looks on, each with the path that it takes.

use std::collections::VecDeque;
use std::time::Instant;

use psmc_wire::{PacketBuf, PathId};

use crate::classify::{ClassMatch, classify};
use crate::ids::PeerId;

/// Bytes of packets that wait for whoever looks on, who comes ten times a second: 800 Mbit/s. More are dropped and counted, so
/// that nothing waits for him.
const MAX_BYTES: usize = 10 << 20;

/// What somebody wants to see. What is empty or absent excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TapConfig {
    /// Only what goes to this peer or comes from it.
    pub peer: Option<PeerId>,
    /// Only what takes this path.
    pub path: Option<PathId>,
    /// Only packets that are one of these.
    pub packets: Vec<ClassMatch>,
}

/// A packet that has passed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tapped {
    /// When.
    pub at: Instant,
    /// How.
    pub passage: Passage,
    /// All of it, from its IP header on, with a complete checksum.
    pub packet: Vec<u8>,
}

/// How a packet passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passage {
    /// Whose it is.
    pub peer: PeerId,
    /// The path that it takes, or on which the last part of it has come.
    pub path: PathId,
    /// Whether it is sent; else it has come.
    pub is_sent: bool,
}

/// What waits for whoever looks on.
#[derive(Debug)]
pub(crate) struct Tap {
    config: TapConfig,
    packets: VecDeque<Tapped>,
    bytes: usize,
    dropped: u64,
}

impl Tap {
    pub(crate) fn new(config: TapConfig) -> Self {
        Self { config, packets: VecDeque::new(), bytes: 0, dropped: 0 }
    }

    /// A packet passes.
    pub(crate) fn note(&mut self, passage: Passage, packet: &PacketBuf, flow_key: [u64; 2], now: Instant) {
        let TapConfig { peer, path, packets } = &self.config;
        let is_elsewhere =
            peer.is_some_and(|peer| peer != passage.peer) || path.is_some_and(|path| path != passage.path);
        let is_wanted = || {
            let headers = classify(packet.packet(), flow_key);
            headers.is_ok_and(|headers| packets.iter().any(|wanted| wanted.takes(&headers)))
        };
        if is_elsewhere || !(packets.is_empty() || is_wanted()) {
            return;
        }
        if self.bytes + packet.len() > MAX_BYTES {
            self.dropped += 1;
            return;
        }
        self.bytes += packet.len();
        let mut copy = PacketBuf::with_capacity(packet.len());
        copy.fill(packet.packet());
        copy.set_checksum(packet.checksum());
        copy.complete_checksum();
        self.packets.push_back(Tapped { at: now, passage, packet: copy.packet().to_vec() });
    }

    /// What has passed since this was last asked, and how many more have, for which there was no room.
    pub(crate) fn take(&mut self) -> (Vec<Tapped>, u64) {
        self.bytes = 0;
        (std::mem::take(&mut self.packets).into(), std::mem::take(&mut self.dropped))
    }
}
