//! What a session does with a datagram of its peer.

use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use psmc_wire::crypto::TAG_LEN;
use psmc_wire::datagram::{HEADER_LEN, Header, split_timestamp};
use psmc_wire::frame::{AckFrame, DataFrame, Frame, Frames, PathStats};
use psmc_wire::hop::HopChallenge;
use psmc_wire::ip::Ecn;
use psmc_wire::ip::transport::{Checksum, ChecksumPlace};
use psmc_wire::{Bucket, FlowSeq, PacketBuf, PacketNumber, PathId};

use super::{Session, police};
use crate::batch::{PathAddress, SocketId};
use crate::classify;
use crate::event::Event;
use crate::flows::Arrived;
use crate::path::{Arrival, PathState};
use crate::reorder;
use crate::repair::repair_time;
use crate::session::Waiting;
use crate::shared::Shared;
use crate::tap::Passage;

/// How long a gap waits beyond the measured spread of the paths: timers and batches of both ends.
const REORDER_SLACK: Duration = Duration::from_millis(3);

/// While a gap waits, the queue that the missing packet stands in may still grow, by a quarter of the time: so
/// much faster than a path delivers is it probed.
const SPREAD_GROWTH: u64 = 4;

/// What is assumed of the spread before it is measured.
const INITIAL_SPREAD: Duration = Duration::from_millis(25);

/// A gap never waits longer, whatever was measured.
const MAX_SPREAD: Duration = Duration::from_millis(400);

/// The spread of the paths is looked at anew this often, not with every packet.
const SPREAD_REFRESH: Duration = Duration::from_millis(1);

/// Two packets that leave in this order on different paths may be sealed the other way round by this much.
const SEALING_SKEW_US: u32 = 1_000;

/// Where a datagram came from.
#[derive(Clone, Copy, Debug)]
pub struct DatagramOrigin {
    /// The socket it arrived at.
    pub socket: SocketId,
    /// The address it was sent to, where the socket has several.
    pub local_ip: Option<IpAddr>,
    /// The address it came from.
    pub remote: SocketAddr,
    /// The ECN codepoint that it arrived with.
    pub ecn: Ecn,
}

impl DatagramOrigin {
    /// Where an answer goes.
    fn address(&self) -> PathAddress {
        PathAddress { socket: self.socket, local_ip: self.local_ip, remote: self.remote }
    }
}

/// An inner packet of the peer.
#[derive(Debug)]
pub(super) struct Inner {
    pub(super) bucket: Bucket,
    pub(super) seq: FlowSeq,
    pub(super) ordered: bool,
    pub(super) packet: PacketBuf,
    /// How much longer than for the slowest path it is worth waiting for what is missing before it.
    pub(super) patience: Duration,
    /// Whether it was lost and computed from repairs.
    pub(super) is_recovered: bool,
}

/// Why a datagram, something in it, or a control message was not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Refusal {
    /// It is no datagram of this protocol, or a frame in it is not well-formed or can't be true.
    Malformed,
    /// No session has its label.
    UnknownLabel,
    /// It was not sealed with the session's keys.
    Unauthenticated,
    /// It was received before, or is too old to tell.
    Replayed,
    /// Its path has been closed, has an id that is not the peer's to give, or is one too many.
    NoSuchPath,
    /// The inner packet is not a well-formed IP packet.
    BadPacket,
    /// The inner packet's source does not belong to the peer.
    ForeignSource,
    /// The inner packet's destination belongs to no peer.
    NoRoute,
    /// The control message should not have come, on this connection or at this time.
    OutOfTurn,
    /// This site is hidden, and the datagram did not come through one of its relays, or the message would have it use
    /// another one.
    Elsewhere,
}

impl Refusal {
    /// Whether nobody has proved to have sent it.
    pub(crate) fn is_of_strangers(self) -> bool {
        matches!(
            self,
            Self::Malformed | Self::UnknownLabel | Self::Unauthenticated | Self::Replayed | Self::Elsewhere
        )
    }

    /// All of them, in order.
    pub const ALL: [Self; 10] = [
        Self::Malformed,
        Self::UnknownLabel,
        Self::Unauthenticated,
        Self::Replayed,
        Self::NoSuchPath,
        Self::BadPacket,
        Self::ForeignSource,
        Self::NoRoute,
        Self::OutOfTurn,
        Self::Elsewhere,
    ];

    /// The name in the status and in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Malformed => "malformed",
            Self::UnknownLabel => "unknown_label",
            Self::Unauthenticated => "unauthenticated",
            Self::Replayed => "replayed",
            Self::NoSuchPath => "no_such_path",
            Self::BadPacket => "bad_packet",
            Self::ForeignSource => "foreign_source",
            Self::NoRoute => "no_route",
            Self::OutOfTurn => "out_of_turn",
            Self::Elsewhere => "elsewhere",
        }
    }
}

impl Session {
    /// Takes a datagram with one of this session's labels; opens it in place.
    pub(crate) fn handle_datagram(
        &mut self,
        header: &Header,
        datagram: &mut [u8],
        origin: &DatagramOrigin,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let known = self.paths.find(header.path);
        if !self.may_come_from(known, origin, shared) {
            return Err(Refusal::Elsewhere);
        }
        let packet_number = self.check_number(header, known)?;
        let bytes = datagram.len();
        let sealed = &mut datagram[HEADER_LEN..];
        self.keys.open(header, packet_number, sealed, now).map_err(|_| Refusal::Unauthenticated)?;
        let opened = &sealed[..bytes - HEADER_LEN - TAG_LEN];
        let (sent_at_us, frames) = split_timestamp(opened).map_err(|_| Refusal::Malformed)?;

        let index = match known {
            Some(index) => index,
            None => self.meet_path(header.path, origin, shared, now).ok_or(Refusal::NoSuchPath)?,
        };
        let (mut ack_eliciting, mut carries_data) = (false, false);
        for frame in Frames::new(frames).flatten() {
            ack_eliciting |= frame.is_ack_eliciting();
            carries_data |= matches!(frame, Frame::Data(_) | Frame::Repair(_) | Frame::Stream(_));
        }
        // A relay says so by a mark of its own.
        let ecn = if header.marks.congestion_experienced { Ecn::Ce } else { origin.ecn };
        let marks = header.marks;
        let arrival = Arrival { packet_number, bytes, sent_at_us, ecn, ack_eliciting, carries_data, marks };
        self.follow_peer(index, (packet_number, bytes), origin, shared.hidden, now);
        self.paths[index].received.on_datagram(arrival, &self.clock, now);
        self.handle_frames(index, Frames::new(frames), sent_at_us, origin, shared, now)
    }

    /// Answers a challenge of the relay of a path, which asks whether this site is where its datagrams come from: by the next
    /// datagram of the path, from where it would leave anyway.
    pub(crate) fn handle_hop_challenge(
        &mut self,
        challenge: &HopChallenge,
        datagram: &[u8],
        origin: &DatagramOrigin,
        shared: &Shared,
    ) -> Result<(), Refusal> {
        let known = self.paths.find(challenge.path);
        if !self.may_come_from(known, origin, shared) {
            return Err(Refusal::Elsewhere);
        }
        let path = &mut self.paths[known.ok_or(Refusal::NoSuchPath)?];
        if !path.first_hop.has_sent(datagram) {
            return Err(Refusal::Unauthenticated);
        }
        if !origin.address().leads_to(path.address) {
            return Err(Refusal::Elsewhere);
        }
        path.hop_response = Some(challenge.token);
        Ok(())
    }

    /// Opens the path of an authentic datagram of which nothing has been heard before; says where it stands.
    fn meet_path(
        &mut self,
        id: PathId,
        origin: &DatagramOrigin,
        shared: &mut Shared,
        now: Instant,
    ) -> Option<usize> {
        let address = origin.address();
        self.open_peer_path(id, address, shared, now);
        shared.events.push_back(Event::PathOpened { peer: self.peer, path: id });
        self.path_index(id)
    }

    /// The full number of a datagram that may be worth opening.
    fn check_number(&self, header: &Header, known: Option<usize>) -> Result<PacketNumber, Refusal> {
        let Some(index) = known else {
            let openable = self.is_openable(header.path);
            return openable.then_some(PacketNumber(header.packet_number.into())).ok_or(Refusal::NoSuchPath);
        };
        let window = &self.paths[index].received.window;
        let packet_number = PacketNumber::expand(header.packet_number, window.expected());
        window.is_new(packet_number).then_some(packet_number).ok_or(Refusal::Replayed)
    }

    /// The newest authentic datagram of a path says where the peer is. If that is elsewhere than before, it has to answer there first;
    /// at a hidden site it stays where it is.
    fn follow_peer(
        &mut self,
        index: usize,
        (packet_number, bytes): (PacketNumber, usize),
        origin: &DatagramOrigin,
        is_hidden: bool,
        now: Instant,
    ) {
        let path = &mut self.paths[index];
        // What arrives at a socket that the path has left was sent before it did; unless the path is silent, and the peer has
        // moved: then that is all that is heard of it.
        let is_silent = matches!(path.state(), PathState::Probing | PathState::Dead);
        let left_behind = path.opened_here && origin.socket != path.address.socket && !is_silent;
        let stays = is_hidden || !path.follows_peer();
        let left_behind = left_behind || (stays && origin.remote != path.address.remote);
        if packet_number < path.received.window.expected() || left_behind {
            return;
        }
        // The kernel tells late of a link that is back; a datagram that has crossed it tells at once.
        path.liveness.on_link(true, now);
        let address = origin.address();
        if address.leads_to(path.address) {
            path.roaming.forget();
            path.address.local_ip = address.local_ip;
        } else {
            path.roaming.note(address, bytes, now);
        }
        if path.heard_from != Some(address.remote) {
            path.heard_from = Some(address.remote);
            self.sightings.note(now);
        }
    }

    fn handle_frames(
        &mut self,
        index: usize,
        frames: Frames<'_>,
        sent_at_us: u32,
        origin: &DatagramOrigin,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let mut result = Ok(());
        for frame in frames {
            let Ok(frame) = frame else {
                return Err(Refusal::Malformed);
            };
            match frame {
                Frame::Padding | Frame::Ping => {}
                Frame::Ack(ack) => result = result.and(self.on_ack(&ack, shared, now)),
                Frame::PathStats(id, stats) => result = result.and(self.on_stats(id, stats)),
                Frame::PathChallenge(token) => self.paths[index].on_challenge(token),
                Frame::PathResponse(token) => self.on_response(index, token, origin, shared, now),
                Frame::PathUse(wish) => result = result.and(self.on_path_use(wish, now)),
                Frame::Rekey(asked) => result = result.and(self.on_rekey(index, &asked, shared, now)),
                Frame::Rekeyed(told) => result = result.and(self.on_rekeyed(&told, shared, now)),
                Frame::Data(data) => result = result.and(self.on_data(index, &data, sent_at_us, shared, now)),
                Frame::Repair(repair) => {
                    result = result.and(self.on_repair(index, &repair, sent_at_us, shared, now));
                }
                Frame::Stream(bytes) => self.on_stream(&bytes, shared, now),
                Frame::StreamControl(control) => {
                    result = result.and(self.on_stream_control(&control, shared, now));
                }
            }
        }
        if self.reorder.counters().held > 0 {
            let horizon = self.horizon();
            self.reorder.release_before(horizon, &mut shared.delivered);
        }
        result
    }

    fn on_stats(&mut self, id: PathId, stats: PathStats) -> Result<(), Refusal> {
        self.path_mut(id).ok_or(Refusal::NoSuchPath)?.peer_stats = stats;
        Ok(())
    }

    fn on_ack(&mut self, ack: &AckFrame<'_>, shared: &mut Shared, now: Instant) -> Result<(), Refusal> {
        let index = self.path_index(ack.header.path).ok_or(Refusal::NoSuchPath)?;
        let before = self.paths[index].state();
        self.paths[index]
            .on_ack(ack, &mut self.scratch.acked, &mut self.scratch.lost, &self.clock, now)
            .map_err(|_| Refusal::Malformed)?;
        self.coupling.on_ack(&mut self.paths, index, now);
        if let Some(newest) = self.scratch.acked.datagrams.first() {
            self.keys.on_acknowledged(newest.sent_at);
        }
        for mut datagram in self.scratch.acked.datagrams.drain(..) {
            for packet in datagram.packets.drain(..) {
                police::note_arrival(&mut self.police, &packet);
                shared.pool.put(packet.packet);
            }
            self.paths[index].sent.recycle(datagram.packets);
            if let Some(wish) = datagram.path_use
                && let Some(wished) = self.paths.index_of(wish.path)
            {
                self.paths[wished].usage.on_confirmed(wish);
            }
        }
        self.settle_lost(index, shared);
        self.note_state(index, before, shared, now);
        Ok(())
    }

    /// Sends again what was in lost datagrams, or gives its buffers back.
    pub(super) fn settle_lost(&mut self, index: usize, shared: &mut Shared) {
        let path = &mut self.paths[index];
        if path.offload.take_news() {
            shared.events.push_back(Event::BatchesLost { peer: self.peer, path: path.id });
        }
        for mut datagram in self.scratch.lost.datagrams.drain(..).rev() {
            let resent = datagram.packets.iter().filter(|packet| packet.role.is_resent()).count();
            self.paths[index].counters.resent_packets += resent as u64;
            for packet in datagram.packets.extract_if(.., |packet| !packet.role.is_resent()) {
                self.egress.note_loss(&packet);
                shared.pool.put(packet.packet);
            }
            self.egress.put_back_sent(datagram.packets.drain(..));
            self.paths[index].sent.recycle(datagram.packets);
        }
    }

    fn on_response(
        &mut self,
        index: usize,
        token: [u8; 8],
        origin: &DatagramOrigin,
        shared: &mut Shared,
        now: Instant,
    ) {
        let (before, path) = (self.paths[index].state(), &mut self.paths[index]);
        if let Some((address, round_trip)) = path.roaming.on_answer(token, origin.address(), now) {
            path.move_to(address, round_trip, now);
            shared.events.push_back(Event::PathMoved { peer: self.peer, path: path.id });
        } else {
            path.on_response(token, now);
        }
        for (number, round_trip) in path.take_measured(token, now) {
            shared.events.push_back(Event::Measured { peer: self.peer, path: path.id, number, round_trip });
        }
        self.note_state(index, before, shared, now);
    }

    fn on_data(
        &mut self,
        index: usize,
        data: &DataFrame<'_>,
        sent_at_us: u32,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let Some(part) = data.part else {
            let mut packet = shared.pool.take();
            packet.fill(data.packet);
            return self.on_packet(index, data, packet, sent_at_us, shared, now);
        };
        // Parts of a packet that is complete would wait for the others in vain.
        if self.reorder.has_seen(data.bucket, data.seq) {
            return Ok(());
        }
        let Some(whole) = self.assembly.insert(data, part, now, &mut shared.pool) else {
            return Ok(());
        };
        self.on_packet(index, data, whole, sent_at_us, shared, now)
    }

    /// Takes a whole packet that has come in a frame, or in several, the last of which is `data`.
    fn on_packet(
        &mut self,
        index: usize,
        data: &DataFrame<'_>,
        mut packet: PacketBuf,
        sent_at_us: u32,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        let patience = self.patience(data.repaired, now);
        let DataFrame { bucket, seq, ordered, checksum, .. } = *data;
        packet.set_checksum(checksum);
        let inner = Inner { bucket, seq, ordered, packet, patience, is_recovered: false };
        let inner = self.check(inner, shared)?;
        self.remember(&inner, shared, now);
        self.accept(index, inner, sent_at_us, shared, now);
        self.deliver_recovered(index, sent_at_us, shared, now);
        Ok(())
    }

    /// Refuses a packet that the peer should not have sent.
    pub(super) fn check(&self, inner: Inner, shared: &mut Shared) -> Result<Inner, Refusal> {
        match self.fault_of(&inner.packet, shared) {
            None => Ok(inner),
            Some(refusal) => {
                shared.pool.put(inner.packet);
                Err(refusal)
            }
        }
    }

    fn fault_of(&self, packet: &PacketBuf, shared: &Shared) -> Option<Refusal> {
        let Ok(source) = classify::source(packet.packet()) else {
            return Some(Refusal::BadPacket);
        };
        // Nobody could complete a checksum that is in no known place.
        let is_partial = packet.checksum() == Checksum::Partial;
        if is_partial && ChecksumPlace::find(packet.packet()).is_none() {
            return Some(Refusal::BadPacket);
        }
        (!shared.routes.may_be_from(source, self.peer)).then_some(Refusal::ForeignSource)
    }

    /// Takes an inner packet, which has been checked, that has come on the path at `index`, in whatever way.
    pub(super) fn accept(
        &mut self,
        index: usize,
        mut inner: Inner,
        sent_at_us: u32,
        shared: &mut Shared,
        now: Instant,
    ) {
        self.last_traffic = Some(now);
        self.assembly.forget(inner.bucket, inner.seq, &mut shared.pool);
        if inner.ordered {
            self.peer_patience = inner.patience;
        }
        self.counters.rx_packets += 1;
        self.counters.rx_bytes += inner.packet.len() as u64;
        self.clamp_mss(&mut inner.packet, shared);
        if let Some(flows) = &mut shared.flows {
            let (bucket, packet) = (inner.bucket, inner.packet.packet());
            let more = (!inner.is_recovered).then(|| flows.on_more(self.peer, bucket, packet, now)).flatten();
            let class = more.unwrap_or_else(|| {
                let arrived = Arrived { packet, bucket, is_recovered: inner.is_recovered };
                flows.on_received(self.peer, &arrived, &shared.classes, shared.flow_key, now)
            });
            self.paths.shares_mut(index).on_received(class, inner.packet.len());
        }
        if shared.is_watched() {
            let passage = Passage { peer: self.peer, path: self.paths[index].id, is_sent: false };
            shared.show(passage, &inner.packet, now);
        }
        if shared.conditioners.reads_tcp() {
            shared.note_reply(inner.packet.packet(), now);
        }
        let delay_us = self.clock.one_way_delay(sent_at_us, now);
        let arrival = reorder::Arrival {
            bucket: inner.bucket,
            seq: inner.seq,
            ordered: inner.ordered,
            packet: inner.packet,
            sent_at_us,
            spread: self.spread(delay_us, now),
            patience: inner.patience,
            path: self.paths[index].id,
            delay_us,
        };
        self.sample_paths(now);
        self.reorder.insert(arrival, now, &mut shared.pool, &mut shared.delivered);
    }

    /// How much longer a packet may be on its way than one that has just arrived after `own` microseconds on the relative
    /// scale.
    fn spread(&mut self, own: i32, now: Instant) -> Duration {
        let slowest = self.slowest_delay(now);
        if self.paths.len() == 1 {
            return REORDER_SLACK;
        }
        let Some(slowest) = slowest else {
            return INITIAL_SPREAD;
        };
        let spread = u64::try_from(i64::from(slowest) - i64::from(own)).unwrap_or(0);
        (Duration::from_micros(spread + spread / SPREAD_GROWTH) + REORDER_SLACK).min(MAX_SPREAD)
    }

    /// Begins a new sampling period of reordering if one is due.
    fn sample_paths(&mut self, now: Instant) {
        if self.reorder.is_sample_due(now) {
            let slowest = self.paths.slowest();
            self.reorder.sample(slowest.paths, slowest.round_trip, now);
        }
    }

    /// The largest one-way delay of late of any path that delivers, microseconds on the relative scale.
    fn slowest_delay(&mut self, now: Instant) -> Option<i32> {
        if self.waiting.looked_at.is_none_or(|at| now >= at + SPREAD_REFRESH) {
            let slowest = self.paths.slowest();
            let repair = repair_time(slowest.round_trip);
            self.waiting = Waiting { slowest: slowest.delay_us, repair, looked_at: Some(now) };
        }
        self.waiting.slowest
    }

    /// The moment, by the peer's clock, from before which nothing is on its way any more: every path has
    /// delivered something sent later.
    fn horizon(&mut self) -> u32 {
        self.paths.horizon().unwrap_or(0).wrapping_sub(SEALING_SKEW_US)
    }
}
