//! One path of a session: it owns its numbers, windows, estimates and liveness, and emits its own datagrams.

mod emit;
mod forward;
mod hop;
mod liveness;
mod mtu;
pub(crate) mod pacer;
mod received;
pub(crate) mod rtt;
mod sent;
mod usage;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use psmc_wire::PathId;
use psmc_wire::datagram::DATAGRAM_OVERHEAD;
use psmc_wire::frame::{AckFrame, DATA_OVERHEAD, PathStats, PathUse, PathUseFrame};

pub use hop::Via;
pub use liveness::PathState;
pub(crate) use received::Arrival;
pub(crate) use sent::Settled;

use crate::batch::SocketId;
use crate::clock::SessionClock;
use crate::config::PathConfig;
use crate::congestion::rate::RateSampler;
use crate::congestion::{AckSample, CongestionConfig, Controller, rate_over};
use crate::egress::Queued;
use crate::repair::Role;
use forward::ForwardDelay;
use hop::FirstHop;
use liveness::Liveness;
use mtu::PathMtu;
use pacer::Pacer;
use received::{MAX_ACK_DELAY, Received};
use rtt::RttEstimator;
use sent::{NeverSent, Sent};
use usage::Usage;

/// The most packets that wait in a path for its pacer, having been given to it for good (`flow`, `redundant`).
const MAX_OUTBOX: usize = 512;

/// The round trip that is assumed before one is measured (RFC 9002 §6.2.2).
const INITIAL_RTT: Duration = Duration::from_millis(333);

/// A path on which a site only answers asks for an acknowledgement itself this often, so that its own
/// direction is known to work.
const PING_INTERVAL: Duration = Duration::from_millis(200);

/// An idle path of a session with recent traffic is probed this often, so that its estimates are fresh when
/// it is needed.
const WARM_INTERVAL: Duration = Duration::from_secs(1);

/// The pacer wakes the session when at least this many bytes may leave: a datagram of usual size.
const MIN_PACED: u64 = 1500;

/// A path that loses nearly all is not infinitely bad.
const LEAST_KEPT: f64 = 0.1;

/// About the last 250 datagrams: the burst that a path loses while its rate is found is not what it loses as a rule.
const LASTING_GAIN: f64 = 1.0 / 256.0;

/// A path that delivers this share is worth its repairs.
const MOSTLY_KEPT: f64 = 0.65;

/// The delays of a path that is used well vary by as much, because of its queue.
const OWN_DEVIATION: Duration = Duration::from_millis(20);

/// A large datagram that takes longer by this much is on a slow path: one of 1 Mb/s or less. Less may be jitter.
const CLEARLY_LONGER: Duration = Duration::from_millis(12);

/// The weight of each datagram in the share that is lost: about a hundred count.
const LOSS_GAIN: f64 = 1.0 / 64.0;

/// How much more a packet that is sent again shuns losses.
const AGAIN_RISK: f64 = 4.0;

/// Headers of UDP and of the larger IP version, in bytes.
const OUTER_HEADERS: u16 = 48;

/// Where the datagrams of a path go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PathAddress {
    /// The socket they leave through.
    pub socket: SocketId,
    /// The source address, where the socket has several.
    pub local_ip: Option<IpAddr>,
    /// The peer's, or its NAT's.
    pub remote: SocketAddr,
}

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
}

/// One path.
#[derive(Debug)]
pub(crate) struct Path {
    pub(crate) id: PathId,
    pub(crate) config: PathConfig,
    /// Whether this site opened it; the other one then learns its addresses from its datagrams.
    pub(crate) opened_here: bool,
    pub(crate) address: PathAddress,
    pub(crate) first_hop: FirstHop,
    pub(crate) liveness: Liveness,
    pub(crate) usage: Usage,
    pub(crate) rtt: RttEstimator,
    forward: ForwardDelay,
    pub(crate) received: Received,
    pub(crate) sent: Sent,
    pub(crate) counters: PathCounters,
    pub(crate) peer_stats: PathStats,
    /// Frames about other paths that travel on this one.
    pub(crate) carried: Vec<u8>,
    pub(crate) carried_use: Option<PathUseFrame>,
    /// Whether acknowledgements of this path are carried by another one.
    pub(crate) ack_travels_elsewhere: bool,
    controller: Box<dyn Controller>,
    rates: RateSampler,
    pacer: Pacer,
    /// When the bottleneck of the path will have forwarded what was sent, at the path's estimated rate.
    bottleneck: Instant,
    /// The share of the last datagrams that was lost, 0 to 1.
    loss_share: f64,
    /// The same over a longer time.
    lasting_loss: f64,
    outbox: VecDeque<Queued>,
    outbox_bytes: u64,
    response: Option<[u8; 8]>,
    newest_challenge: Option<[u8; 8]>,
    next_token: u64,
    use_in_datagram: Option<PathUseFrame>,
    only_answered_since: Option<Instant>,
    last_eliciting_at: Option<Instant>,
    /// When something of this path was last acknowledged or answered.
    answered_at: Instant,
    keepalive: Duration,
    pub(crate) mtu: PathMtu,
}

impl Path {
    /// A path that has still to be validated.
    pub(crate) fn new(
        id: PathId,
        config: PathConfig,
        opened_here: bool,
        address: PathAddress,
        keepalive: Duration,
        now: Instant,
    ) -> Self {
        let max_datagram = mtu::ceiling(config.mtu, OUTER_HEADERS);
        Self {
            id,
            controller: config.congestion.build(max_datagram, None),
            config,
            opened_here,
            address,
            first_hop: FirstHop::Peer,
            liveness: Liveness::new(now),
            usage: Usage::default(),
            rtt: RttEstimator::default(),
            forward: ForwardDelay::default(),
            received: Received::default(),
            sent: Sent::default(),
            counters: PathCounters::default(),
            peer_stats: PathStats::default(),
            carried: Vec::new(),
            carried_use: None,
            ack_travels_elsewhere: false,
            rates: RateSampler::new(now),
            pacer: Pacer::new(max_datagram, now),
            bottleneck: now,
            loss_share: 0.0,
            lasting_loss: 0.0,
            outbox: VecDeque::new(),
            outbox_bytes: 0,
            response: None,
            newest_challenge: None,
            next_token: 0,
            use_in_datagram: None,
            only_answered_since: None,
            last_eliciting_at: None,
            answered_at: now,
            keepalive,
            mtu: PathMtu::new(max_datagram, OUTER_HEADERS, now),
        }
    }

    /// The state.
    pub(crate) fn state(&self) -> PathState {
        self.liveness.state()
    }

    /// How much this path is to be preferred for data, smaller first; `None` if it must not carry any.
    pub(crate) fn rank(&self) -> Option<PathRank> {
        let usage = self.usage.effective();
        let state = self.state();
        let usable = usage != PathUse::Closed && matches!(state, PathState::Active | PathState::Suspect);
        usable.then_some(PathRank { state, usage })
    }

    /// Whether a packet of `bytes` could leave at once.
    pub(crate) fn has_room(&self, bytes: usize, now: Instant) -> bool {
        let waiting = self.outbox_bytes + on_wire(bytes);
        self.sent.has_room()
            && self.sent.inflight_bytes() + waiting <= self.controller.window()
            && waiting <= self.pacer.available(now, self.pacing_rate())
    }

    /// When a packet of `bytes` would arrive if it were given to this path now: what waits before it, at the
    /// path's rate, the path's delay, and what it costs on average that it may be lost. Comparable between the paths
    /// of a session. A packet that is sent `again` is late already, and others wait for it: it shuns losses more.
    pub(crate) fn arrival(&self, bytes: usize, again: bool, now: Instant) -> Duration {
        let rate = self.expected_rate();
        let queueing = self.forward.queueing(now);
        let waiting = Duration::from_secs_f64((self.outbox_bytes + on_wire(bytes)) as f64 / rate as f64);
        // What was sent of late stands in the queue of the bottleneck, and no round trip tells of it yet.
        let ahead = self.bottleneck.saturating_duration_since(now);
        let risk = if again { AGAIN_RISK * self.loss_share } else { self.loss_share };
        let repair = (self.smoothed_rtt() * 5 / 4).mul_f64(risk * self.repeated_losses());
        let varies = 4 * self.forward.deviation().saturating_sub(OWN_DEVIATION);
        self.propagation() + queueing.max(ahead) + waiting + repair + varies
    }

    /// How much worse than a loss by itself it is that what is sent again may be lost again: much, where a path loses
    /// most of what it is given and all that comes behind waits.
    fn repeated_losses(&self) -> f64 {
        let kept = (1.0 - self.lasting_loss).max(LEAST_KEPT);
        if kept < MOSTLY_KEPT { 1.0 / (kept * kept) } else { 1.0 }
    }

    /// The time of a packet on the path without any queue.
    pub(crate) fn propagation(&self) -> Duration {
        self.rtt.min().unwrap_or(INITIAL_RTT) / 2
    }

    /// By how much the delays of successive datagrams differ, as the peer has measured (RFC 3550 §6.4.1).
    pub(crate) fn jitter(&self) -> Duration {
        Duration::from_micros(u64::from(self.peer_stats.jitter_us))
    }

    /// The smoothed round trip, or what is assumed before the first one.
    pub(crate) fn smoothed_rtt(&self) -> Duration {
        self.rtt.smoothed().unwrap_or(INITIAL_RTT)
    }

    /// The round trip by which losses are judged (RFC 9002 §6.1.2).
    fn loss_rtt(&self) -> Duration {
        self.smoothed_rtt().max(self.rtt.latest().unwrap_or_default())
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

    /// Bytes per second at which data may leave.
    pub(crate) fn pacing_rate(&self) -> u64 {
        let ceiling = self.config.max_rate.map_or(u64::MAX, |bits| bits / 8);
        self.controller.pacing_rate().clamp(1, ceiling.max(1))
    }

    /// The path's estimated rate, in bytes per second.
    pub(crate) fn bandwidth(&self) -> Option<u64> {
        let ceiling = self.config.max_rate.map_or(u64::MAX, |bits| bits / 8);
        self.controller.bandwidth().map(|rate| rate.min(ceiling))
    }

    /// The rate, in bytes per second, at which the path is expected to forward what is sent now: more than was
    /// measured while that is still being found out.
    pub(crate) fn expected_rate(&self) -> u64 {
        self.bandwidth().unwrap_or(0).max(self.pacing_rate()).max(1)
    }

    /// Takes a packet to be sent on this path. When the path's queue is full the packet comes back, and so does a
    /// repair that was made for larger datagrams: it cannot be cut.
    pub(crate) fn enqueue(&mut self, packet: Queued) -> Option<Queued> {
        let is_too_large = packet.role == Role::Repair && !self.fits(packet.packet.len());
        if self.outbox.len() >= MAX_OUTBOX || is_too_large {
            self.counters.dropped_packets += 1;
            return Some(packet);
        }
        self.outbox_bytes += on_wire(packet.packet.len());
        self.outbox.push_back(packet);
        None
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
    /// one. If the path would have taken more, the rate measured from here on is not the path's.
    pub(crate) fn note_idle(&mut self, now: Instant) {
        if self.has_room(self.mtu.size(), now) {
            self.rates.set_app_limited(self.sent.inflight_bytes());
        }
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
            self.answered_at = now;
            self.rtt.update(sample, Duration::ZERO, now);
            if before == PathState::Dead && self.state() == PathState::Active {
                self.controller.on_restart(now);
            }
            if before != PathState::Active && self.state() == PathState::Active {
                self.mtu.on_revived(now);
            }
        }
    }

    /// The peer acknowledges datagrams of this path. What that settles is left in `acked` and `lost`.
    ///
    /// # Errors
    /// [`NeverSent`] if it can't be true; nothing in it is believed then.
    pub(crate) fn on_ack(
        &mut self,
        ack: &AckFrame<'_>,
        acked: &mut Settled,
        lost: &mut Settled,
        clock: &SessionClock,
        now: Instant,
    ) -> Result<(), NeverSent> {
        let ranges = ack.ranges(self.sent.next_number());
        let largest_sent_at = self.sent.acknowledge(ranges.clone(), acked)?;
        let delay = Duration::from_micros(u64::from(ack.header.delay_us)).min(2 * MAX_ACK_DELAY);
        if let Some((size, sent_at)) = self.mtu.on_ack(&ranges, now) {
            self.heed_large_probe(size, now.saturating_duration_since(sent_at).saturating_sub(delay));
        }
        if acked.datagrams.is_empty() {
            return Ok(());
        }
        self.answered_at = now;
        self.counters.acked_packets += acked.datagrams.len() as u64;
        self.note_losses(0, acked.datagrams.len());
        self.liveness.on_acknowledged();
        for datagram in &acked.datagrams {
            self.mtu.on_arrived(datagram.bytes, datagram.sent_at);
        }
        let mut queued = None;
        if let Some(sent_at) = largest_sent_at {
            let sample = now.saturating_duration_since(sent_at);
            self.rtt.update(sample, delay, now);
            let queueing = self.forward.update(clock.timestamp(sent_at), ack.header.received_at_us, now);
            queued = Some((sent_at, queueing));
        }
        self.detect_lost(lost, now);
        self.feed_controller(acked, queued, now);
        Ok(())
    }

    /// A probe of `size` bytes took so long. By how much that is longer than a small datagram takes, the path is slow.
    fn heed_large_probe(&mut self, size: u16, took: Duration) {
        let longer = self.rtt.min().map_or(Duration::ZERO, |least| took.saturating_sub(least));
        if longer > CLEARLY_LONGER {
            self.controller.on_hint(rate_over(size.into(), longer));
        }
    }

    /// Tells the controller what an acknowledgement has taught: `queued` is when its largest datagram was sent,
    /// and how long it stood in queues. For the controller, acknowledgements come as they would if they were
    /// never late and met no queue.
    fn feed_controller(&mut self, acked: &Settled, queued: Option<(Instant, Duration)>, now: Instant) {
        let shortest = self.rtt.min().unwrap_or_default();
        let round_trip = queued.map(|(_, queueing)| shortest + queueing);
        let arrived = queued.map_or(now, |(sent_at, queueing)| (sent_at + shortest + queueing).min(now));
        let mut acked_bytes = 0;
        for datagram in &acked.datagrams {
            acked_bytes += u64::from(datagram.bytes);
            self.rates.on_acked(&datagram.snapshot, datagram.sent_at, u64::from(datagram.bytes), arrived);
        }
        let sample = AckSample {
            acked_bytes,
            rate: self.rates.take_sample(self.rtt.min()),
            rtt: round_trip,
            min_rtt: self.rtt.min(),
            smoothed_rtt: self.rtt.smoothed(),
            jitter: self.jitter(),
            inflight: self.sent.inflight_bytes(),
        };
        self.controller.on_ack(&sample, now);
    }

    /// Finds the datagrams that are lost by now.
    pub(crate) fn detect_lost(&mut self, lost: &mut Settled, now: Instant) {
        let before = lost.datagrams.len();
        self.sent.detect_lost(self.loss_rtt(), now, lost);
        let bytes: u64 = lost.datagrams[before..].iter().map(|datagram| u64::from(datagram.bytes)).sum();
        if bytes > 0 {
            let count = lost.datagrams.len() - before;
            self.counters.lost_packets += count as u64;
            self.note_losses(count, count);
            self.controller.on_loss(bytes, self.sent.inflight_bytes(), now);
        }
        for datagram in &lost.datagrams[before..] {
            self.mtu.on_lost(datagram.bytes, datagram.sent_at);
        }
        self.mtu.judge(now);
    }

    /// Of `settled` datagrams `lost` were lost.
    fn note_losses(&mut self, lost: usize, settled: usize) {
        if settled > 0 {
            let share = lost as f64 / settled as f64;
            let gain = |of_one: f64| 1.0 - (1.0 - of_one).powf(settled as f64);
            self.loss_share += (share - self.loss_share) * gain(LOSS_GAIN);
            self.lasting_loss += (share - self.lasting_loss) * gain(LASTING_GAIN);
        }
    }

    /// Judges the silence, and keeps an idle path warm. `warm` says that the session has seen traffic of late.
    pub(crate) fn handle_timeout(&mut self, warm: bool, now: Instant) {
        if self.silence_deadline().is_some_and(|at| at <= now) {
            self.liveness.on_silence(self.smoothed_rtt(), now);
            self.mtu.on_silence(self.sent.oldest_bytes());
        }
        if self.keepalive_at(warm).is_some_and(|at| at <= now) {
            self.liveness.probe_now(now);
        }
    }

    /// When the path has something to do by itself. `backlog` is the size of the packet whose turn it is in the
    /// session.
    pub(crate) fn next_timeout(&self, warm: bool, backlog: Option<usize>, now: Instant) -> Option<Instant> {
        if self.first_hop.is_awaited() {
            return self.usage.forget_at();
        }
        let waiting = self.outbox_bytes + backlog.map_or(0, on_wire);
        let wants_data = waiting > 0 && self.rank().is_some() && self.window_is_open();
        let pacer = wants_data
            .then(|| self.pacer.ready_at(now, waiting.max(MIN_PACED), self.pacing_rate()))
            .filter(|&at| at > now);
        [
            self.received.ack_due(),
            pacer,
            self.liveness.next_probe(),
            self.received.stats_due(),
            self.silence_deadline(),
            self.sent.loss_deadline(self.loss_rtt()),
            self.keepalive_at(warm),
            self.ping_at(),
            self.usage.forget_at(),
            self.mtu_probe_at(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    /// Whether a datagram should leave now.
    pub(crate) fn wants_to_send(&self, now: Instant) -> bool {
        let is_due = |at: Option<Instant>| at.is_some_and(|at| at <= now);
        if self.first_hop.is_awaited() {
            return false;
        }
        self.response.is_some()
            || !self.carried.is_empty()
            || self.carried_use.is_some()
            || is_due(self.liveness.next_probe())
            || (is_due(self.received.ack_due()) && !self.ack_travels_elsewhere)
            || is_due(self.received.stats_due())
            || self.ping_due(now)
            || is_due(self.mtu_probe_at())
            || self.may_send_data(now)
    }

    /// Moves the path to another remote address (roaming, NAT rebinding).
    pub(crate) fn move_to(&mut self, address: PathAddress, now: Instant) {
        self.address = address;
        self.mtu.restart(now);
        self.liveness.probe_now(now);
    }

    /// The network under the path is another one: it starts as a new path would, with its numbers going on.
    pub(crate) fn rebind(&mut self, address: PathAddress, now: Instant) {
        self.address = address;
        self.mtu.restart(now);
        self.liveness.revalidate(now);
        self.controller.on_restart(now);
    }

    /// Changes what the path was configured with.
    pub(crate) fn reconfigure(&mut self, weight: Option<u16>, max_rate: Option<Option<u64>>) {
        self.config.weight = weight.unwrap_or(self.config.weight);
        self.config.max_rate = max_rate.unwrap_or(self.config.max_rate);
        self.config = self.config.clone().checked();
    }

    /// Has the rate of the path found in another way from now on. What was learnt about it so far is forgotten.
    pub(crate) fn set_congestion(&mut self, congestion: CongestionConfig) {
        if congestion != self.config.congestion {
            self.config.congestion = congestion;
            self.controller = congestion.build(mtu::ceiling(self.config.mtu, OUTER_HEADERS), None);
        }
    }

    fn may_send_data(&self, now: Instant) -> bool {
        self.outbox.front().filter(|_| self.rank().is_some()).is_some_and(|front| {
            let bytes = on_wire(front.packet.len());
            self.window_is_open() && self.pacer.ready_at(now, bytes, self.pacing_rate()) <= now
        })
    }

    fn window_is_open(&self) -> bool {
        self.sent.has_room() && self.sent.inflight_bytes() < self.controller.window()
    }

    fn silence_deadline(&self) -> Option<Instant> {
        let since = self.sent.oldest_sent_at()?.max(self.answered_at);
        self.liveness.silence_deadline(since, self.smoothed_rtt())
    }

    fn keepalive_at(&self, warm: bool) -> Option<Instant> {
        let idle = self.state() == PathState::Active && self.liveness.next_probe().is_none();
        let interval = if warm { WARM_INTERVAL.min(self.keepalive) } else { self.keepalive };
        let since = self.last_eliciting_at.map_or(self.answered_at, |at| at.max(self.answered_at));
        idle.then(|| since + interval)
    }

    fn ping_at(&self) -> Option<Instant> {
        self.only_answered_since.map(|since| since + PING_INTERVAL)
    }

    /// When something is to be done for finding the datagram size.
    fn mtu_probe_at(&self) -> Option<Instant> {
        self.mtu.due().filter(|_| self.state() == PathState::Active)
    }

    fn ping_due(&self, now: Instant) -> bool {
        self.ping_at().is_some_and(|at| at <= now)
    }
}

/// Bytes of a datagram with one inner packet of `bytes`.
pub(crate) fn on_wire(bytes: usize) -> u64 {
    (bytes + DATAGRAM_OVERHEAD + DATA_OVERHEAD) as u64
}

/// Which paths are better than which. The order of the fields is the policy: a standby path that works is
/// better than an available one that fell silent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PathRank {
    state: PathState,
    usage: PathUse,
}

impl PathRank {
    /// Whether the path answers.
    pub(crate) fn is_active(self) -> bool {
        self.state == PathState::Active
    }
}
