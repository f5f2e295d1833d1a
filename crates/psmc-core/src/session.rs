//! A session: everything between this site and one peer.

mod control;
mod counts;
mod establish;
mod handle;
mod ids;
mod losses;
mod paths;
mod pins;
mod police;
mod receive;
mod renewal;
mod repair;
mod seen;
mod shedding;
mod standing;
mod streams;
mod transmit;
mod udp_limit;
mod via;

use std::time::{Duration, Instant};

use psmc_wire::frame::PathUseFrame;
use psmc_wire::ids::BUCKETS;
use psmc_wire::{Bucket, FlowSeq, Incarnation, PathId};

pub use handle::{PathHandle, PeerHandle, StreamHandle, TcpFlow};
pub use paths::{PathError, SilentPath};
pub use receive::{DatagramOrigin, Refusal};
pub use shedding::ShedError;
pub use streams::StreamError;

use crate::classify::{ClassId, QuicFlows};
use crate::clock::SessionClock;
use crate::config::PeerConfig;
use crate::coupling::Coupling;
use crate::egress::{ClassStatus, EgressQueue};
use crate::event::Event;
use crate::ids::PeerId;
use crate::keys::KeyRing;
use crate::path::{Path, Settled, on_wire};
use crate::police::Police;
use crate::reorder::{Reorder, ReorderCounters, ReorderLimits};
use crate::repair::{Coder, Copies, Decoder, Extras, Recovered, RepairCounters};
use crate::roster::Roster;
use crate::scheduler::{self, Scheduler};
use crate::shared::Shared;
use crate::split::{Assembly, AssemblyCounters};
use crate::streams::Streams;
use control::Control;
use counts::Questions;
use ids::SpentIds;
use losses::Losses;
use pins::Pins;
use psmc_wire::control::{PathInfo, PathVia};
use seen::Sightings;
use shedding::Shedding;
use standing::Trial;
use udp_limit::UdpLimit;

/// The most paths of a session (mission S1).
pub const MAX_PATHS: usize = 64;

/// Idle paths are kept warm for this long after the last inner packet.
const WARM_TIME: Duration = Duration::from_secs(10);

/// When no path has answered and nothing has been heard for this long, the peer may have lost its state: it is
/// dialled anew, however well the control connection looks. Doubled each time that doesn't help.
const MIN_DEAF_TIME: Duration = Duration::from_millis(500);

/// A network that carries TCP and drops UDP costs a handshake in this time, no more.
const MAX_DEAF_TIME: Duration = Duration::from_secs(30);

/// Everything between this site and one peer.
#[derive(Debug)]
pub(crate) struct Session {
    pub(crate) peer: PeerId,
    pub(crate) config: PeerConfig,
    incarnation: Incarnation,
    peer_incarnation: Incarnation,
    clock: SessionClock,
    keys: KeyRing,
    control: Control,
    /// About what the sites have counted.
    questions: Questions,
    /// Sorted by id.
    paths: Roster,
    next_path_id: u16,
    /// Ids of paths of either site that must not come to life again.
    spent: SpentIds,
    /// What the peer told about paths that have not been heard of yet.
    announced: Vec<PathInfo>,
    /// The relays of paths of the peer's that have not been heard of yet.
    vias: Vec<PathVia>,
    /// What the peer wishes of paths that have not been heard of yet.
    wished: Vec<PathUseFrame>,
    egress: EgressQueue,
    quic: QuicFlows,
    extras: Extras,
    /// How many turns paths have been given.
    turns: u64,
    copies: Copies,
    coder: Coder,
    decoder: Decoder,
    udp_limit: UdpLimit,
    police: Option<Box<Police>>,
    sightings: Sightings,
    losses: Losses,
    shedding: Shedding,
    trial: Trial,
    /// What the peer says that it is.
    peer_software: Option<String>,
    streams: Streams,
    /// Whether the peer has said that it carries streams, and whether this site has said so to the peer.
    peer_takes_streams: bool,
    said_streams: bool,
    sequences: Sequences,
    scheduler: Box<dyn Scheduler>,
    pins: Pins,
    pub(crate) coupling: Coupling,
    assembly: Assembly,
    reorder: Reorder,
    waiting: Waiting,
    /// How long what the peer's paths lose may take to be made good, by its newest ordered packet.
    peer_patience: Duration,
    counters: SessionCounters,
    last_traffic: Option<Instant>,
    last_active: Instant,
    deaf_time: Duration,
    emission_turn: usize,
    unplaced: Option<transmit::Unplaced>,
    scratch: Scratch,
}

/// What a session has carried and dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounters {
    /// Inner packets given to the peer.
    pub tx_packets: u64,
    /// Their bytes.
    pub tx_bytes: u64,
    /// Inner packets received from the peer and accepted.
    pub rx_packets: u64,
    /// Their bytes.
    pub rx_bytes: u64,
    /// Inner packets longer than a datagram of their path, which were sent in parts.
    pub split: u64,
    /// SYN and SYN-ACK segments of inner TCP connections, of either direction, whose MSS was lowered.
    pub mss_lowered: u64,
    /// Inner packets of plain UDP beyond its limit.
    pub udp_limited: u64,
    /// Inner packets of flows that heed no loss, beyond what arrives of them.
    pub unresponsive: u64,
    /// Inner packets that the peer has asked to be dropped.
    pub shed: u64,
    /// What repair has done.
    pub repair: RepairCounters,
    /// Inner packets that paths which are forgotten by now had sent again on others.
    pub forgotten_resent: u64,
    /// Inner packets that such paths dropped.
    pub forgotten_dropped: u64,
}

/// How long gaps wait, looked at anew from time to time.
#[derive(Debug, Default)]
struct Waiting {
    /// The largest one-way delay of late of any path that delivers, microseconds on the relative scale.
    slowest: Option<i32>,
    /// For what is sent again.
    repair: Duration,
    looked_at: Option<Instant>,
}

/// Lists that are filled and emptied again and again.
#[derive(Debug, Default)]
struct Scratch {
    acked: Settled,
    lost: Settled,
    recovered: Vec<Recovered>,
    frame: Vec<u8>,
}

/// The next sequence number of each bucket; allocated with the first packet.
#[derive(Debug, Default)]
struct Sequences {
    next: Vec<FlowSeq>,
}

impl Sequences {
    fn take(&mut self, bucket: Bucket) -> FlowSeq {
        if self.next.is_empty() {
            self.next.resize(usize::from(BUCKETS), FlowSeq::default());
        }
        let next = &mut self.next[bucket.index()];
        std::mem::replace(next, next.plus(1))
    }
}

impl Session {
    pub(crate) fn new(peer: PeerId, config: PeerConfig, shared: &mut Shared, now: Instant) -> Self {
        let mut session = Self {
            peer,
            incarnation: shared.new_incarnation(),
            peer_incarnation: Incarnation::NONE,
            clock: SessionClock::new(now),
            keys: KeyRing::new(shared.key_limits, config.smaller_key),
            control: Control::new(config.can_dial, config.smaller_key, now),
            questions: Questions::default(),
            paths: Roster::default(),
            next_path_id: u16::from(!config.smaller_key),
            spent: SpentIds::default(),
            announced: Vec::new(),
            vias: Vec::new(),
            wished: Vec::new(),
            egress: EgressQueue::new(shared.classes.list(), shared.mtu),
            extras: Extras::default(),
            turns: 0,
            copies: Copies::default(),
            coder: Coder::default(),
            decoder: Decoder::default(),
            udp_limit: UdpLimit::new(config.udp_rate_limit),
            police: None,
            sightings: Sightings::default(),
            losses: Losses::default(),
            shedding: Shedding::new(now),
            trial: Trial::default(),
            peer_software: None,
            streams: Streams::new(config.smaller_key),
            peer_takes_streams: false,
            said_streams: false,
            sequences: Sequences::default(),
            scheduler: scheduler::build(config.scheduler, config.bad_path_rule),
            pins: Pins::default(),
            coupling: Coupling::default(),
            assembly: Assembly::default(),
            reorder: Reorder::new(config.reorder, ReorderLimits::default()),
            waiting: Waiting::default(),
            quic: QuicFlows::new(now),
            peer_patience: Duration::ZERO,
            counters: SessionCounters::default(),
            last_traffic: None,
            last_active: now,
            deaf_time: MIN_DEAF_TIME,
            emission_turn: 0,
            unplaced: None,
            scratch: Scratch::default(),
            config,
        };
        session.set_police(shared);
        session.paths.steer(shared.classes.list());
        session
    }

    fn path_index(&self, id: PathId) -> Option<usize> {
        self.paths.index_of(id)
    }

    fn path_mut(&mut self, id: PathId) -> Option<&mut Path> {
        let index = self.path_index(id)?;
        Some(&mut self.paths[index])
    }

    fn is_warm(&self, now: Instant) -> bool {
        self.last_traffic.is_some_and(|at| now < at + WARM_TIME)
    }

    /// Does what is due by now.
    pub(crate) fn handle_timeout(&mut self, shared: &mut Shared, now: Instant) {
        self.tend_keys(shared, now);
        self.paths.refresh(now);
        for index in self.paths.due(self.is_warm(now), now).iter() {
            self.handle_path_timeout(index, shared, now);
        }
        self.forget_closed_paths(shared, now);
        self.assembly.handle_timeout(now, &mut shared.pool);
        self.reorder.handle_timeout(now, &mut shared.delivered);
        self.egress.drop_stale(now, &mut shared.pool);
        self.tell_fates(shared);
        self.extras.drop_stale(now, &mut shared.pool);
        self.decoder.handle_timeout(&mut shared.pool, now);
        if self.coder.due_at().is_some_and(|at| at <= now) {
            self.close_group(shared, now);
        }
        self.listen_for_life(now);
        self.tell_seen(shared, now);
        self.judge_flows(shared, now);
        self.tell_losses(shared, now);
        for hangup in self.control.take_overdue(now) {
            self.hang_up(hangup, shared);
        }
        shared.release_labels(self.control.take_void_labels());
        if self.control.take_dial(now) {
            shared.events.push_back(Event::Dial(self.peer));
        }
    }

    fn handle_path_timeout(&mut self, index: usize, shared: &mut Shared, now: Instant) {
        let warm = self.is_warm(now);
        let path = &mut self.paths[index];
        let (before, rested) = (path.state(), path.is_resting());
        path.detect_lost(&mut self.scratch.lost, now);
        path.handle_timeout(warm, now);
        if path.is_resting() != rested {
            self.replan();
        }
        self.settle_lost(index, shared);
        self.note_state(index, before, shared, now);
    }

    /// Dials anew when no path has worked for a while.
    fn listen_for_life(&mut self, now: Instant) {
        self.paths.refresh(now);
        if self.paths.is_any_active() && self.keys.ended_at().is_none() {
            self.last_active = now;
            self.deaf_time = MIN_DEAF_TIME;
        } else if self.deaf_at().is_some_and(|at| at <= now) {
            self.last_active = now;
            self.deaf_time = (self.deaf_time * 2).min(MAX_DEAF_TIME);
            self.control.want(now);
        }
    }

    fn deaf_at(&self) -> Option<Instant> {
        let established = self.control.current().map(|(.., since)| since)?;
        let heard = self.paths.iter().filter_map(|path| path.received.heard_at()).max();
        Some(self.last_active.max(established).max(heard.unwrap_or(established)) + self.deaf_time)
    }

    /// When [`handle_timeout`](Self::handle_timeout) or a transmission is due.
    pub(crate) fn next_timeout(&mut self, now: Instant) -> Option<Instant> {
        self.paths.refresh(now);
        let backlog = self.egress.heads().map(|front| front.packet.len()).max().max(self.extras.first_len());
        let may_seal = self.keys.sealing(now).is_some();
        let is_any_active = self.paths.is_any_active();
        let paths = if may_seal {
            self.paths.next_wake(self.is_warm(now), backlog.map(on_wire), now)
        } else {
            self.paths.iter().filter_map(|path| path.usage.forget_at()).min()
        };
        // Without a path that works wishes wait, and need no timer: one that becomes active is an event.
        let wishes = self.paths.next_wish().filter(|_| may_seal && is_any_active);
        let exchange = self.keys.exchange_at().filter(|_| may_seal && is_any_active);
        let others = [
            paths,
            wishes,
            exchange,
            self.keys.next_timeout(now),
            self.assembly.next_timeout(),
            self.reorder.next_timeout(),
            self.control.next_timeout(),
            self.egress.stale_at(),
            self.egress.heads().filter_map(|front| self.paths.overdue_at(front.queued_at, now)).min(),
            self.extras.stale_at(),
            self.coder.due_at(),
            self.sightings.due_at(),
            self.losses.due_at(),
            self.trial_ends_at(),
            self.police.as_ref().and_then(|police| police.due_at()),
            if is_any_active && self.keys.ended_at().is_none() { None } else { self.deaf_at() },
        ];
        others.into_iter().flatten().min()
    }

    /// Since when a control connection is up.
    pub(crate) fn connected_since(&self) -> Option<Instant> {
        self.control.current().map(|(.., since)| since)
    }

    /// Since when the present key seals, and its epoch.
    pub(crate) fn key_in_use(&self) -> Option<(Instant, u8)> {
        self.keys.sealing_since()
    }

    /// How often a key was rolled.
    pub(crate) fn key_rolls(&self) -> u64 {
        self.keys.rolls()
    }

    /// How many generations of keys have come into use, and how many of these by exchanges within the session.
    pub(crate) fn key_generations(&self) -> (u64, u64) {
        self.keys.generations_used()
    }

    /// Since when nothing is sent, because the keys have reached their end.
    pub(crate) fn keys_ended_at(&self) -> Option<Instant> {
        self.keys.ended_at()
    }

    /// Packets that wait for a path, and those dropped while they did.
    pub(crate) fn queue(&self) -> (usize, u64) {
        (self.egress.len(), self.egress.dropped())
    }

    /// Bits per second that plain UDP may have.
    pub(crate) fn udp_rate_limit(&self) -> Option<u64> {
        self.udp_limit.rate()
    }

    /// The classes of the queue.
    pub(crate) fn classes(&self) -> Vec<ClassStatus> {
        let is_stuck = |(id, class)| ClassStatus { is_stuck: self.paths.is_stuck(ClassId::at(id)), ..class };
        self.egress.classes().enumerate().map(is_stuck).collect()
    }

    /// What the session has carried.
    pub(crate) fn counters(&self) -> SessionCounters {
        let (dropped, unsolved) = (self.extras.dropped(), self.decoder.unsolved());
        let repair = RepairCounters { dropped, unsolved, ..self.counters.repair };
        SessionCounters { repair, ..self.counters }
    }

    /// What became of packets that arrived in parts.
    pub(crate) fn assembly_counters(&self) -> AssemblyCounters {
        self.assembly.counters()
    }

    /// What reordering has done.
    pub(crate) fn reorder_counters(&self) -> ReorderCounters {
        self.reorder.counters()
    }

    /// All paths, by id.
    pub(crate) fn paths(&self) -> &[Path] {
        &self.paths
    }
}
