//! One path of a session: it owns its numbers, windows, estimates and liveness, and emits its own datagrams.

mod allowance;
mod bottleneck;
mod emit;
mod filling;
mod governor;
mod hop;
mod liveness;
mod losses;
mod marking;
mod measurements;
mod mtu;
mod offload;
pub(crate) mod pacer;
mod received;
mod roaming;
pub(crate) mod rtt;
mod sent;
mod settle;
mod shares;
mod slots;
mod timing;
mod tokens;
mod usage;

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_wire::PathId;
use psmc_wire::control::{PathInfo, Tier};
use psmc_wire::counts::PathCounts;
use psmc_wire::datagram::DATAGRAM_OVERHEAD;
use psmc_wire::frame::{DATA_OVERHEAD, PathStats, PathUse, PathUseFrame};

pub(crate) use allowance::{Allowance, Feedback, Forecast, INITIAL_RTT, nanos};
pub(crate) use governor::Share;
pub(crate) use hop::FirstHop;
pub use hop::Via;
pub use liveness::PathState;
pub use marking::{EcnState, EcnStatus};
pub(crate) use received::{Arrival, Teller};
pub(crate) use sent::Settled;
pub use shares::ClassShare;
pub(crate) use shares::Shares;
pub use slots::Slot;
pub(crate) use tokens::Tokens;

use crate::batch::PathAddress;
use crate::classify::Detour;
use crate::config::{PathConfig, PathTuning};
use crate::congestion::CongestionConfig;
use crate::congestion::rate::RateSampler;
use crate::counted::Coloured;
use crate::egress::{Queued, Role};
use crate::keys::ExchangeFrame;
use bottleneck::{Bottleneck, ForwardDelay};
use filling::Filling;
use governor::Governor;
use liveness::Liveness;
use losses::Losses;
use marking::Marking;
use measurements::Measurements;
use mtu::PathMtu;
use offload::Offload;
pub(crate) use pacer::BURST;
use pacer::Pacer;
use received::Received;
use roaming::Roaming;
pub use rtt::RoundTrips;
use rtt::RttEstimator;
use sent::Sent;
use slots::Slots;
use usage::Usage;

/// The most packets that wait in a path: for its pacer, having been given to it for good (`flow`, `redundant`), or until those given to it
/// at the same moment have left.
const MAX_OUTBOX: usize = 512;

/// What a path has carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathCounters {
    /// Datagrams sent.
    pub tx_packets: u64,
    /// Their bytes (UDP payload).
    pub tx_bytes: u64,
    /// Datagrams found lost.
    pub lost_packets: u64,
    /// Datagrams acknowledged.
    pub acked_packets: u64,
    /// Inner packets that had to be sent again on another path.
    pub resent_packets: u64,
    /// Inner packets dropped because the path's own queue was full, and repairs for which its datagrams have become
    /// too small.
    pub dropped_packets: u64,
    /// How often the path became suspect because of a datagram that has not arrived, and was dead before that was known. What it had on
    /// its way then counts neither as acknowledged nor as lost.
    pub silences: u64,
    /// How often the path became suspect because the network said that it had not delivered a datagram.
    pub undelivered: u64,
}

/// One path.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) config: PathConfig,
    /// Whether this site opened it; the other one then learns its addresses from its datagrams.
    pub(crate) opened_here: bool,
    pub(crate) address: PathAddress,
    /// Where the peer seems to have moved.
    pub(crate) roaming: Roaming,
    pub(crate) first_hop: FirstHop,
    /// The source of the newest datagram.
    pub(crate) heard_from: Option<SocketAddr>,
    /// Where this site's datagrams come from, as the peer last said.
    pub(crate) seen_as: Option<SocketAddr>,
    pub(crate) liveness: Liveness,
    /// When it got the state that it has.
    pub(crate) state_since: Instant,
    pub(crate) usage: Usage,
    pub(crate) rtt: RttEstimator,
    forward: ForwardDelay,
    pub(crate) received: Received,
    pub(crate) sent: Sent,
    /// What was sent, by colour.
    coloured: Coloured,
    pub(crate) counters: PathCounters,
    /// What it has carried of each class, while somebody exports it.
    pub(crate) shares: Shares,
    pub(crate) peer_stats: PathStats,
    /// Frames about other paths that travel on this one.
    pub(crate) carried: Vec<u8>,
    pub(crate) carried_use: Option<PathUseFrame>,
    /// What is to be said of an exchange of keys.
    pub(crate) carried_exchange: Option<ExchangeFrame>,
    /// Whether acknowledgements of this path are carried by another one.
    pub(crate) ack_travels_elsewhere: bool,
    /// Whether all that waits in the session is for this path.
    is_alone: bool,
    governor: Governor,
    feedback: Feedback,
    rates: RateSampler,
    pacer: Pacer,
    bottleneck: Bottleneck,
    losses: Losses,
    slots: Slots,
    pub(crate) marking: Marking,
    outbox: VecDeque<Queued>,
    outbox_bytes: u64,
    response: Option<[u8; 8]>,
    newest_challenge: Option<[u8; 8]>,
    /// The token that the relay of this path waits for.
    pub(crate) hop_response: Option<[u8; 8]>,
    pub(crate) tokens: Tokens,
    measurements: Measurements,
    use_in_datagram: Option<PathUseFrame>,
    only_answered_since: Option<Instant>,
    last_eliciting_at: Option<Instant>,
    /// When something of this path was last acknowledged or answered.
    answered_at: Instant,
    keepalive: Duration,
    filling: Option<Filling>,
    /// Whether probes tell as much as data would.
    scrutiny: bool,
    pub(crate) mtu: PathMtu,
    pub(crate) offload: Offload,
}

impl Path {
    /// A path that has still to be validated.
    pub(crate) fn new(
        id: PathId,
        config: PathConfig,
        opened_here: bool,
        address: PathAddress,
        keepalive: Duration,
        tokens: Tokens,
        now: Instant,
    ) -> Self {
        let headers = mtu::headers_to(address.remote);
        let max_datagram = mtu::ceiling(config.mtu, headers);
        Self {
            id,
            is_alone: false,
            governor: Governor::new(config.congestion.build(max_datagram), config.max_rate),
            config,
            opened_here,
            address,
            roaming: Roaming::default(),
            first_hop: FirstHop::Peer,
            heard_from: None,
            seen_as: None,
            liveness: Liveness::new(now),
            state_since: now,
            usage: Usage::default(),
            rtt: RttEstimator::default(),
            forward: ForwardDelay::default(),
            received: Received::default(),
            sent: Sent::default(),
            coloured: Coloured::default(),
            counters: PathCounters::default(),
            shares: Shares::default(),
            peer_stats: PathStats::default(),
            carried: Vec::new(),
            carried_use: None,
            carried_exchange: None,
            ack_travels_elsewhere: false,
            feedback: Feedback::default(),
            rates: RateSampler::new(now),
            pacer: Pacer::new(max_datagram, now),
            bottleneck: Bottleneck::new(now),
            losses: Losses::default(),
            slots: Slots::new(now),
            marking: Marking::default(),
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            response: None,
            newest_challenge: None,
            hop_response: None,
            tokens,
            measurements: Measurements::default(),
            use_in_datagram: None,
            only_answered_since: None,
            last_eliciting_at: None,
            answered_at: now,
            keepalive,
            filling: None,
            scrutiny: false,
            mtu: PathMtu::new(max_datagram, headers, now),
            offload: Offload::default(),
        }
    }

    /// The state.
    pub(crate) fn state(&self) -> PathState {
        self.liveness.state()
    }

    /// Whether it works, and has shown that itself.
    pub(crate) fn is_proven(&self) -> bool {
        self.state() == PathState::Active && !self.liveness.is_on_trust()
    }

    /// Whether something of the peer's may be on its way on this path.
    pub(crate) fn is_live(&self) -> bool {
        self.state() != PathState::Dead && self.received.heard_at().is_some()
    }

    /// How much this path is to be preferred for data, smaller first; `None` if it must not carry any.
    pub(crate) fn rank(&self) -> Option<PathRank> {
        let state = self.state();
        let tier = match self.usage.effective() {
            PathUse::Available => self.config.own_tier(),
            PathUse::Standby => self.config.own_tier().max(Tier::Backup),
            PathUse::Closed => Tier::Never,
        };
        let usable = tier != Tier::Never && matches!(state, PathState::Active | PathState::Suspect);
        usable.then_some(PathRank { state, is_resting: self.is_resting(), tier })
    }

    /// Whether it is left alone for a moment in which it is known to deliver nothing.
    pub(crate) fn is_resting(&self) -> bool {
        self.slots.is_resting()
    }

    /// When it delivers nothing, if that comes back with a period.
    pub(crate) fn slot(&self) -> Option<Slot> {
        self.slots.slot()
    }

    /// How long it takes until what the peer sends is acknowledged. Our own datagrams may be too few to have met the queue in
    /// which those stand.
    pub(crate) fn peer_round_trip(&self) -> Option<Duration> {
        let queued = self.rtt.min().map(|shortest| shortest + self.received.queueing());
        self.rtt.smoothed().max(queued)
    }

    /// How large an inner packet fits into a datagram of this path.
    pub(crate) fn room(&self) -> usize {
        self.room_in(self.mtu.size())
    }

    /// The same once the size of the path's datagrams is found, as far as anybody can tell.
    pub(crate) fn expected_room(&self) -> usize {
        self.room_in(self.mtu.expected())
    }

    fn room_in(&self, datagram: usize) -> usize {
        datagram - self.first_hop.header_len() - DATAGRAM_OVERHEAD - DATA_OVERHEAD
    }

    /// Whether something of that size, with the frame of an inner packet around it, fits into a datagram of this path.
    pub(crate) fn fits(&self, bytes: usize) -> bool {
        bytes <= self.room()
    }

    /// How often the path is probed while it is idle.
    pub(crate) fn keepalive(&self) -> Duration {
        self.keepalive
    }

    /// Sets how often the path is probed while it is idle.
    pub(crate) fn set_keepalive(&mut self, interval: Duration) {
        self.keepalive = interval;
    }

    /// Sends datagrams of its own where traffic is thinner than this, until then.
    pub(crate) fn fill_gaps(&mut self, interval: Duration, until: Instant) {
        self.filling = Some(Filling { interval, until });
    }

    /// Sets whether probes tell as much as data would, or no more than that the path answers.
    pub(crate) fn set_scrutiny(&mut self, scrutiny: bool) {
        self.scrutiny = scrutiny;
    }

    /// Takes a packet to be sent on this path. When the path's queue is full the packet comes back, and so does a
    /// repair that was made for larger datagrams: it cannot be cut.
    pub(crate) fn enqueue(&mut self, packet: Queued) -> Option<Queued> {
        let is_too_large = packet.role == Role::Repair && !self.fits(packet.packet.len());
        if self.is_full() || is_too_large {
            self.counters.dropped_packets += 1;
            return Some(packet);
        }
        self.outbox_bytes += on_wire(packet.packet.len());
        self.outbox.push_back(packet);
        None
    }

    /// The turn of what leaves next.
    pub(crate) fn first_turn(&self) -> Option<u64> {
        self.outbox.front().map(|queued| queued.turn)
    }

    /// Whether as many packets wait in the path as may.
    pub(crate) fn is_full(&self) -> bool {
        self.outbox.len() >= MAX_OUTBOX
    }

    /// Takes back what was given to the path and has not left yet.
    pub(crate) fn take_outbox(&mut self) -> impl DoubleEndedIterator<Item = Queued> + '_ {
        self.outbox_bytes = 0;
        self.outbox.drain(..)
    }

    /// Whether anything was given to the path that has not left yet, or that the peer has not acknowledged.
    pub(crate) fn holds_packets(&self) -> bool {
        !self.outbox.is_empty() || self.sent.is_waiting()
    }

    /// The session has nothing more for this path: nothing at all, or nothing that need not wait for another
    /// one. If the path would have taken more, the rate measured from here on is not the path's. Says whether it would.
    pub(crate) fn note_idle(&mut self, now: Instant) -> bool {
        let is_idle = self.has_room(self.mtu.size(), now);
        if is_idle {
            self.feedback.idle = true;
            self.rates.set_app_limited(self.sent.inflight_bytes());
        }
        is_idle
    }

    /// Less was sent than the pacer would have let go. The rate measured from here on is that of a host that was late, not
    /// the path's.
    pub(crate) fn note_late(&mut self) {
        self.rates.set_app_limited(self.sent.inflight_bytes());
    }

    /// The peer wants these bytes back.
    pub(crate) fn on_challenge(&mut self, token: [u8; 8]) {
        self.response = Some(token);
        self.newest_challenge = Some(token);
    }

    /// The peer has answered a probe.
    pub(crate) fn on_response(&mut self, token: [u8; 8], now: Instant) {
        let before = self.state();
        if let Some(sample) = self.liveness.on_answer(token, now) {
            self.on_answered(before, sample, now);
        }
    }

    fn on_answered(&mut self, before: PathState, round_trip: Duration, now: Instant) {
        self.answered_at = now;
        if before == PathState::Dead && self.state() == PathState::Active {
            self.restart(now);
        }
        self.rtt.update(round_trip, Duration::ZERO, now);
        if before != PathState::Active && self.state() == PathState::Active {
            self.mtu.on_revived(now);
        }
    }

    /// Begins to measure the round trip. Says whether anything can leave: nothing does while the link is down or a session at
    /// relays is waited for.
    pub(crate) fn measure(&mut self, number: u64) -> bool {
        let may_leave = self.liveness.link_is_up() && !self.first_hop.is_awaited();
        if may_leave {
            self.measurements.begin(number);
        }
        may_leave
    }

    /// The measurements that the answer to this challenge ends, and the round trip.
    pub(crate) fn take_measured(&mut self, token: [u8; 8], now: Instant) -> Vec<(u64, Duration)> {
        self.measurements.on_answer(token, now)
    }

    /// The network says that it has not delivered the datagram to `remote` whose number has these low bits. That may be a
    /// lie, so it is worth a probe, and nothing if the path has not sent it.
    pub(crate) fn on_undelivered(&mut self, remote: SocketAddr, number: u32, now: Instant) {
        let is_own = self.address.remote == remote && self.sent.may_be_out(number);
        if is_own && self.liveness.on_undelivered(self.smoothed_rtt(), now) {
            self.counters.undelivered += 1;
            self.sent.doubt_number(number);
        }
    }

    /// What was counted by colour. Delay samples are told once to each.
    pub(crate) fn counts(&mut self, teller: Teller) -> PathCounts {
        let (received, samples) = self.received.counts(teller);
        PathCounts { path: self.id, sent: self.coloured.sent(), received, samples }
    }

    /// Moves the path to another remote address, at which the peer has answered after `round_trip` (roaming, NAT rebinding).
    pub(crate) fn move_to(&mut self, address: PathAddress, round_trip: Duration, now: Instant) {
        let before = self.state();
        self.address = address;
        self.refit(now);
        self.marking.restart();
        self.liveness.on_alive();
        self.on_answered(before, round_trip, now);
    }

    /// The network under the path is another one: it starts as a new path would, with its numbers going on.
    pub(crate) fn rebind(&mut self, address: PathAddress, now: Instant) {
        self.address = address;
        self.roaming.forget();
        self.refit(now);
        self.liveness.revalidate(now);
        self.slots = Slots::new(now);
        self.restart(now);
    }

    /// Seeks the size of datagrams anew: for another address, or with other headers in front of them. What becomes of batches
    /// on the way is open again, too.
    fn refit(&mut self, now: Instant) {
        self.offload = Offload::default();
        self.mtu.restart(self.datagram_ceiling(), mtu::headers_to(self.address.remote), now);
    }

    /// Forgets what was learnt of a path that may be quite another one by now: as if it were as short as ever, data would
    /// go to one that now takes long.
    fn restart(&mut self, now: Instant) {
        self.governor.on_restart(now);
        self.rates.on_restart(now);
        self.marking.restart();
        self.rtt = RttEstimator::default();
    }

    /// Changes what the path was configured with.
    pub(crate) fn reconfigure(&mut self, change: PathTuning) {
        self.config = self.config.clone().tuned(change).checked();
        self.governor.set_max_rate(self.config.max_rate);
    }

    /// The peer, whose path it is, tells what it is like.
    pub(crate) fn on_info(&mut self, info: PathInfo) {
        self.config.apply(info);
        self.governor.set_max_rate(self.config.max_rate);
    }

    /// Bytes of the IP packets that it has carried, in both directions.
    pub(crate) fn carried(&self) -> u64 {
        let (sent, received) = (&self.counters, self.received.stats());
        let headers = u64::from(mtu::headers_to(self.address.remote));
        sent.tx_bytes + received.bytes + headers * (sent.tx_packets + received.packets)
    }

    /// Sets how the rate of the path is found from now on. What was learnt about it so far is forgotten.
    pub(crate) fn set_congestion(&mut self, congestion: CongestionConfig) {
        if congestion != self.config.congestion {
            self.config.congestion = congestion;
            let controller = congestion.build(self.datagram_ceiling());
            self.governor.set_controller(controller);
        }
    }
}

/// Bytes of a datagram with one inner packet of `bytes`.
pub(crate) fn on_wire(bytes: usize) -> u64 {
    (bytes + DATAGRAM_OVERHEAD + DATA_OVERHEAD) as u64
}

/// Which paths are better than which. The order of the fields is the policy: a backup that works is better than a primary path that
/// fell silent, or that delivers nothing for a moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathRank {
    state: PathState,
    is_resting: bool,
    tier: Tier,
}

impl PathRank {
    /// Whether the path works, does not rest, and is of that tier.
    pub(crate) fn is_active_of(self, tier: Tier) -> bool {
        self.is_active() && !self.is_resting && self.tier == tier
    }

    /// Whether the path answers.
    pub(crate) fn is_active(self) -> bool {
        self.state == PathState::Active
    }

    /// The rank for a class to which the path is such a detour.
    pub(crate) fn for_class(self, detour: Detour) -> ClassRank {
        let Self { state, is_resting, tier } = self;
        ClassRank { state, is_resting, is_backup: tier >= Tier::Backup, detour, tier }
    }
}

/// Which paths are better than which for a class that prefers some. The order of the fields is the policy: a path that fell silent is
/// left, and a backup stays one, whoever prefers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ClassRank {
    state: PathState,
    is_resting: bool,
    is_backup: bool,
    detour: Detour,
    tier: Tier,
}

impl ClassRank {
    /// Whether a path of the `other` rank takes what paths of this one have no room for.
    pub(crate) fn is_relieved_by(self, other: Self) -> bool {
        let is_active = self.state == PathState::Active
            && (other.state, other.is_resting) == (self.state, self.is_resting);
        let tiers = (self.tier, other.tier) == (Tier::Primary, Tier::Secondary);
        is_active && tiers && self.detour == other.detour
    }
}
