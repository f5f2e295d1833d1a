//! What the sessions of a site have in common.

use std::collections::{BTreeMap, VecDeque};
use std::hash::{Hash, Hasher};
use std::time::Instant;

use psmc_wire::control::Message;
use psmc_wire::crypto::Aead;
use psmc_wire::ids::KeyBytes;
use psmc_wire::{BufPool, Incarnation, Label, PacketBuf};
use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use siphasher::sip::SipHasher24;

use crate::batch::PathAddress;
use crate::classify::{self, Classes};
use crate::conditioners::Conditioners;
use crate::config::KeyLimits;
use crate::event::Event;
use crate::flows::Flows;
use crate::ids::{ConnectionId, PeerId};
use crate::mss::ClampMss;
use crate::police::{Entry, PoliceConfig};
use crate::probes::Probes;
use crate::routing::AllowedIps;
use crate::samples::Sampler;
use crate::tap::{Passage, Tap};

/// Site-wide state that a session works on.
pub(crate) struct Shared {
    pub(crate) name: String,
    pub(crate) software: String,
    pub(crate) mtu: u16,
    pub(crate) aead: Aead,
    pub(crate) key_limits: KeyLimits,
    pub(crate) hidden: bool,
    /// The relays at which this site has registered, and where each of them takes its datagrams.
    pub(crate) relays: BTreeMap<KeyBytes, PathAddress>,
    pub(crate) classes: Classes,
    pub(crate) conditioners: Conditioners,
    pub(crate) clamp_mss: ClampMss,
    /// How flows that heed no loss are held down, if they are.
    pub(crate) police: Option<PoliceConfig>,
    pub(crate) flow_key: [u64; 2],
    /// How many secrets were derived from it.
    pub(crate) secrets: u64,
    pub(crate) rng: Pcg64Mcg,
    pub(crate) pool: BufPool,
    /// Inner packets to be delivered.
    pub(crate) delivered: VecDeque<PacketBuf>,
    pub(crate) events: VecDeque<Event>,
    pub(crate) messages: VecDeque<(ConnectionId, Message)>,
    pub(crate) routes: AllowedIps<PeerId>,
    pub(crate) labels: BTreeMap<Label, PeerId>,
    /// What peers ask about NATs.
    pub(crate) probes: Probes,
    /// While somebody looks on.
    pub(crate) tap: Option<Box<Tap>>,
    /// While somebody exports them.
    pub(crate) flows: Option<Box<Flows>>,
    /// While somebody looks for what fills a segment.
    pub(crate) sampler: Option<Box<Sampler>>,
    /// What flows have lost on the way to a peer, for those others from which they come.
    pub(crate) losses: Vec<(PeerId, Entry)>,
}

impl Shared {
    /// Whether anybody looks at inner packets.
    pub(crate) fn is_watched(&self) -> bool {
        self.tap.is_some() || self.sampler.is_some()
    }

    /// Shows an inner packet that passes to all who look.
    pub(crate) fn show(&mut self, passage: Passage, packet: &PacketBuf, now: Instant) {
        if let Some(tap) = &mut self.tap {
            tap.note(passage, packet, self.flow_key, now);
        }
        if let Some(sampler) = &mut self.sampler {
            sampler.note(passage, packet.packet(), &mut self.rng);
        }
    }

    /// A label that finds `peer`, not in use yet.
    pub(crate) fn allocate_label(&mut self, peer: PeerId) -> Label {
        loop {
            let label = Label(self.rng.next_u32());
            if let std::collections::btree_map::Entry::Vacant(vacant) = self.labels.entry(label) {
                vacant.insert(peer);
                return label;
            }
        }
    }

    /// A new incarnation, never the one that stands for none.
    pub(crate) fn new_incarnation(&mut self) -> Incarnation {
        Incarnation(self.rng.next_u64().max(1))
    }

    /// A secret that is used for nothing else: for the challenges of one path.
    pub(crate) fn new_secret(&mut self) -> [u64; 2] {
        let [key0, key1] = self.flow_key;
        self.secrets += 1;
        let secret = |half: u8| {
            let mut hasher = SipHasher24::new_with_keys(key0, key1);
            (b"challenges", self.secrets, half).hash(&mut hasher);
            hasher.finish()
        };
        [secret(0), secret(1)]
    }

    /// An inner packet has come: it may answer those of a flow that a conditioner wants to know more of.
    pub(crate) fn note_reply(&mut self, packet: &[u8], now: Instant) {
        if let Ok(headers) =
            classify::classify(packet, self.flow_key).map(|headers| headers.reversed(self.flow_key))
        {
            self.conditioners.on_reply(self.classes.of(&headers), headers.flow, packet, now);
        }
    }

    /// Makes labels free again.
    pub(crate) fn release_labels(&mut self, labels: impl IntoIterator<Item = Label>) {
        for label in labels {
            self.labels.remove(&label);
        }
    }
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared").field("name", &self.name).finish_non_exhaustive()
    }
}
