//! Snapshots of the engine's state, for people and for monitoring.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_wire::PathId;
use psmc_wire::control::Tier;
use psmc_wire::frame::{PathStats, PathUse};
use psmc_wire::ids::KeyBytes;

use crate::batch::PathAddress;
use crate::config::{Direction, SchedulerKind};
use crate::egress::ClassStatus;
use crate::path::{ClassShare, EcnStatus, Path, PathCounters, PathState, RoundTrips, Slot};
use crate::police::PoliceCounters;
use crate::reorder::ReorderCounters;
use crate::session::{Refusal, Session, SessionCounters};
use crate::shed::ShedCounts;
use crate::split::AssemblyCounters;
use crate::streams::StreamCounters;

/// How often each refusal happened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RefusalCounters {
    counts: [u64; Refusal::ALL.len()],
}

impl RefusalCounters {
    pub(crate) fn count(&mut self, refusal: Refusal) {
        self.counts[refusal as usize] += 1;
    }

    /// Each refusal and how often it happened.
    pub fn iter(&self) -> impl Iterator<Item = (Refusal, u64)> + '_ {
        Refusal::ALL.into_iter().zip(self.counts)
    }

    /// How many datagrams were refused that nobody has proved to have sent.
    #[must_use]
    pub fn of_strangers(&self) -> u64 {
        self.iter().filter(|(refusal, _)| refusal.is_of_strangers()).map(|(_, count)| count).sum()
    }

    /// How often this one happened.
    #[must_use]
    pub fn get(&self, refusal: Refusal) -> u64 {
        self.counts[refusal as usize]
    }
}

/// A session.
#[derive(Clone, Debug)]
pub struct PeerStatus {
    /// What the peer is called here.
    pub name: String,
    /// What it says that it is, a program and its version; `None` before it is connected, and if it is older than this message.
    pub software: Option<String>,
    /// Which path takes a packet.
    pub scheduler: SchedulerKind,
    /// Since when a control connection is up, if one is.
    pub connected_since: Option<Instant>,
    /// Since when the present key seals, and the number of its epoch.
    pub key: Option<(Instant, u8)>,
    /// How often a key was rolled without a handshake.
    pub key_rolls: u64,
    /// How many generations of keys have come into use since the site was started.
    pub key_generations: u64,
    /// How many of these came from exchanges within the session, without a control connection.
    pub key_exchanges: u64,
    /// Since when nothing is sent or accepted, because the keys have reached their end and no control connection has
    /// brought others.
    pub keys_ended: Option<Instant>,
    /// Packets that wait for a path.
    pub queued_packets: usize,
    /// Packets dropped because the queue was full or they had waited too long.
    pub queue_drops: u64,
    /// Bits per second that plain UDP may have, as both sites agree.
    pub udp_rate_limit: Option<u64>,
    /// The traffic classes.
    pub classes: Vec<ClassStatus>,
    /// What the session has carried.
    pub counters: SessionCounters,
    /// What became of packets that arrived in parts.
    pub assembly: AssemblyCounters,
    /// What reordering has done.
    pub reorder: ReorderCounters,
    /// What became of flows that lose much, since these are judged; `None` if they are not.
    pub police: Option<PoliceCounters>,
    /// What has become of what the peer wanted dropped here.
    pub shed: ShedCounts,
    /// What streams have done; `None` if the sites do not both carry them.
    pub streams: Option<StreamCounters>,
    /// How many there are.
    pub open_streams: usize,
    /// The paths, by id.
    pub paths: Vec<PathStatus>,
}

/// A path of a session.
#[derive(Clone, Debug)]
pub struct PathStatus {
    /// Its id.
    pub id: PathId,
    /// Its name.
    pub name: String,
    /// Whether this site opened it.
    pub opened_here: bool,
    /// Whether it works.
    pub state: PathState,
    /// Since when it has that state.
    pub since: Instant,
    /// When something authentic was last heard on it, if anything ever was.
    pub heard_at: Option<Instant>,
    /// Whether its socket is open and the interface under it is up.
    pub link_up: bool,
    /// What it may be used for.
    pub usage: PathUse,
    /// Where its datagrams go.
    pub address: PathAddress,
    /// Where this site's datagrams come from, as the peer last said; `None` if it has not, and through relays.
    pub seen_as: Option<SocketAddr>,
    /// The key of the relay next to the end that has not opened it; `None` if it is direct, or has no session at its
    /// relays yet.
    pub relay: Option<KeyBytes>,
    /// Its weight.
    pub weight: u16,
    /// What it is for.
    pub tier: Tier,
    /// Who may send data on it; of a path that the peer has opened only its tier tells.
    pub direction: Direction,
    /// Its greatest rate, in bits per second.
    pub max_rate: Option<u64>,
    /// The largest IP packet that it is known to carry, in bytes, as if its IP version were 6.
    pub mtu: u16,
    /// What its interface carries, if the path was found to carry less.
    pub narrower_than: Option<u16>,
    /// Smoothed round trip and its variation.
    pub rtt: Option<(Duration, Duration)>,
    /// The newest sample of the round trip.
    pub latest_rtt: Option<Duration>,
    /// The newest samples of the round trip.
    pub round_trips: RoundTrips,
    /// The smallest round trip of the last seconds.
    pub min_rtt: Option<Duration>,
    /// The rate at which it delivers at its best, in bits per second.
    pub rate: Option<u64>,
    /// The share of the last hundred datagrams that was lost, 0 to 1.
    pub loss: f64,
    /// What is known of ECN marks on it.
    pub ecn: EcnStatus,
    /// When it delivers nothing, if that comes back with a period.
    pub slot: Option<Slot>,
    /// The number of the bottleneck that it shares with other paths of the session, if its queue shows that it does.
    pub bottleneck: Option<usize>,
    /// Bytes sent and not acknowledged yet.
    pub inflight_bytes: u64,
    /// What was sent.
    pub counters: PathCounters,
    /// What it has carried of each class, in the order of [`PeerStatus::classes`]; nothing unless flows are counted.
    pub classes: Vec<ClassShare>,
    /// What was received and measured here.
    pub received: PathStats,
    /// How many datagrams the peer has sent on it, by the largest number that has arrived.
    pub received_numbers: u64,
    /// What the peer received and measured.
    pub peer_received: PathStats,
}

impl Session {
    pub(crate) fn status(&self) -> PeerStatus {
        let (queued_packets, queue_drops) = self.queue();
        let (key_generations, key_exchanges) = self.key_generations();
        PeerStatus {
            name: self.config.name.clone(),
            software: self.peer_software().map(ToOwned::to_owned),
            scheduler: self.config.scheduler,
            connected_since: self.connected_since(),
            key: self.key_in_use(),
            key_rolls: self.key_rolls(),
            key_generations,
            key_exchanges,
            keys_ended: self.keys_ended_at(),
            queued_packets,
            queue_drops,
            udp_rate_limit: self.udp_rate_limit(),
            classes: self.classes(),
            counters: self.counters(),
            assembly: self.assembly_counters(),
            streams: self.stream_counters(),
            open_streams: self.open_streams(),
            reorder: self.reorder_counters(),
            police: self.police_counters(),
            shed: self.shed_counts(),
            paths: self.paths().iter().map(|path| path.status(self.coupling.group_of(path.id))).collect(),
        }
    }
}

impl Path {
    fn status(&self, bottleneck: Option<usize>) -> PathStatus {
        PathStatus {
            id: self.id,
            name: self.config.name.clone(),
            opened_here: self.opened_here,
            state: self.state(),
            since: self.state_since,
            heard_at: self.received.heard_at(),
            link_up: self.liveness.link_is_up(),
            usage: self.usage.effective(),
            address: self.address,
            seen_as: self.seen_as,
            relay: self.first_hop.relay(),
            weight: self.config.weight,
            tier: self.config.tier,
            direction: self.config.direction,
            max_rate: self.config.max_rate,
            mtu: self.mtu.packet_size(),
            narrower_than: self.mtu.narrower_than(),
            rtt: self.rtt.smoothed().zip(self.rtt.variation()),
            latest_rtt: self.rtt.latest(),
            round_trips: self.rtt.recent(),
            min_rtt: self.rtt.min(),
            rate: self.bandwidth().map(|bytes| bytes * 8),
            loss: self.loss(),
            ecn: self.marking.status(),
            slot: self.slot(),
            bottleneck,
            inflight_bytes: self.sent.inflight_bytes(),
            counters: self.counters,
            classes: self.shares.all().to_vec(),
            received: self.received.stats(),
            received_numbers: self.received.window.expected().0,
            peer_received: self.peer_stats,
        }
    }
}
