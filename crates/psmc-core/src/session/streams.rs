//! Streams of a session: what they send takes its turn among packets, and what the peer says of them.

use std::time::Instant;

use psmc_wire::control::CloseReason;
use psmc_wire::frame::{
    DATA_OVERHEAD, STREAM_OVERHEAD, StreamControl, StreamFrame, StreamOpening, StreamOutcome,
};
use psmc_wire::{FlowSeq, PacketBuf, StreamId};
use thiserror::Error;

use super::Session;
use super::receive::Refusal;
use crate::classify::{Classified, of_tcp};
use crate::condition::Precedence;
use crate::egress::{Queued, Role, StreamPart};
use crate::event::{Event, StreamEvent};
use crate::flows::FlowRef;
use crate::police::Marked;
use crate::shared::Shared;
use crate::streams::{Lot, Staged, StreamCounters, StreamStatus, Taken};

/// Why a stream can't be had.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// There is none of this id, or it has ended.
    #[error("the peer has no such stream")]
    Unknown,
    /// This site and the peer do not both end connections.
    #[error("the peer carries no streams")]
    Unsupported,
    /// There are as many as there can be.
    #[error("the peer has as many streams as there can be")]
    TooMany,
}

impl Session {
    /// Whether the connection of these packets is to be ended here, and carried as a stream.
    pub(crate) fn splits(&self, headers: &Classified, shared: &Shared) -> bool {
        self.peer_takes_streams
            && shared.classes.splits(shared.classes.of(headers)).unwrap_or(self.config.split)
    }

    /// Whether this site carries streams of this peer.
    pub(super) fn takes_streams(&self, shared: &Shared) -> bool {
        self.config.split || shared.classes.split_any()
    }

    /// Tells the peer by a new connection if this site carries streams from here on, or no more.
    pub(super) fn tell_if_streams_changed(&mut self, shared: &mut Shared) {
        if let Some((connection, ..)) = self.control.current()
            && self.said_streams != self.takes_streams(shared)
        {
            self.hang_up((connection, CloseReason::Superseded), shared);
        }
    }

    /// Opens a stream. The peer's answer is an event.
    pub(super) fn open_stream(
        &mut self,
        opening: StreamOpening,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<StreamId, StreamError> {
        if !self.peer_takes_streams {
            return Err(StreamError::Unsupported);
        }
        let lot = lot(&opening, false, shared);
        let (id, credit) = self.streams.open(opening, lot, now).ok_or(StreamError::TooMany)?;
        self.say(&StreamControl::Open { id, credit, opening }, shared, now);
        Ok(id)
    }

    /// Answers a stream that the peer has opened.
    pub(super) fn answer_stream(
        &mut self,
        id: StreamId,
        outcome: StreamOutcome,
        shared: &mut Shared,
        now: Instant,
    ) {
        let credit = if outcome == StreamOutcome::Open {
            let Some(credit) = self.streams.stand(id) else { return };
            credit
        } else {
            self.streams.reset(id, &mut shared.pool);
            self.streams.counters.refused += 1;
            0
        };
        self.say(&StreamControl::Answer { id, outcome, credit }, shared, now);
        self.feed(id, shared, now);
    }

    /// How many bytes of a stream fill a datagram.
    pub(super) fn stream_chunk(&self, shared: &Shared) -> usize {
        let room = self.least_room().unwrap_or_default();
        let least = usize::from(shared.mtu) / 2;
        room.saturating_sub(STREAM_OVERHEAD - DATA_OVERHEAD).clamp(least, shared.pool.packet_capacity())
    }

    /// Appends bytes to a stream.
    pub(super) fn write_stream(&mut self, id: StreamId, bytes: PacketBuf, shared: &mut Shared, now: Instant) {
        self.last_traffic = Some(now);
        let is_short = 2 * bytes.len() < shared.pool.packet_capacity();
        let most = if is_short { self.stream_chunk(shared) } else { 0 };
        self.streams.write(id, bytes, most, &mut shared.pool);
        self.feed(id, shared, now);
    }

    /// Nothing follows what was written.
    pub(super) fn finish_stream(&mut self, id: StreamId, shared: &mut Shared, now: Instant) {
        self.streams.finish(id);
        self.feed(id, shared, now);
    }

    /// The driver has taken bytes of a stream.
    pub(super) fn consume_stream(&mut self, id: StreamId, bytes: usize, shared: &mut Shared, now: Instant) {
        let round_trip = self.paths.slowest().round_trip;
        if let Some(limit) = self.streams.consume(id, bytes, round_trip, &mut shared.pool, now) {
            self.say(&StreamControl::Credit { id, limit: low(limit) }, shared, now);
        }
    }

    /// The driver wants to know whether everything was taken that will ever come.
    pub(super) fn take_end(&mut self, id: StreamId, shared: &mut Shared) -> bool {
        let is_taken = self.streams.take_end(id);
        self.streams.forget_ended(id, &mut shared.pool);
        is_taken
    }

    /// Ends a stream before its time.
    pub(super) fn reset_stream(&mut self, id: StreamId, shared: &mut Shared, now: Instant) {
        if self.streams.reset(id, &mut shared.pool) {
            self.say(&StreamControl::Reset { id }, shared, now);
        }
    }

    /// Has parts of a stream wait in the queue, as many as should.
    pub(super) fn feed(&mut self, id: StreamId, shared: &mut Shared, now: Instant) {
        while let Some(Staged { lot, offset, bytes, fin }) = self.streams.stage(id, &mut shared.pool) {
            let part = StreamPart { id, offset: low(offset), fin, serial: self.streams.serial() };
            let queued = queued(bytes, lot, Role::Stream(part), now);
            self.egress.push(queued, &mut shared.pool);
        }
        self.streams.forget_ended(id, &mut shared.pool);
    }

    /// A buffer leaves the queue for a path. Whether it is of a stream, for the first time or again.
    pub(super) fn note_stream_left(
        &mut self,
        queued: &mut Queued,
        shared: &mut Shared,
        now: Instant,
    ) -> bool {
        if !queued.role.is_of_stream() {
            return false;
        }
        // It has no place in the order of a bucket, and has been on a path from now on.
        let is_new = queued.seq.replace(FlowSeq::default()).is_none();
        let Role::Stream(part) = queued.role else { return true };
        if !is_new {
            self.streams.on_resent(part.id, queued.packet.len());
            return true;
        }
        if self.streams.on_left(part.id) {
            self.tell(part.id, StreamEvent::Writable, shared);
        }
        self.feed(part.id, shared, now);
        true
    }

    /// Whether a buffer is of a stream that the peer does not know any more.
    pub(super) fn is_void(&self, queued: &Queued) -> bool {
        match queued.role {
            Role::Stream(StreamPart { serial, .. }) | Role::StreamControl(serial) => {
                serial != self.streams.serial()
            }
            Role::Packet(_) | Role::Copy { .. } | Role::Repair => false,
        }
    }

    /// Packets that a buffer's stream has beyond those in the queue.
    pub(super) fn stream_backlog(&self, queued: &Queued) -> usize {
        match queued.role {
            Role::Stream(part) => self.streams.backlog(part.id) / queued.packet.len().max(1),
            Role::Packet(_) | Role::Copy { .. } | Role::Repair | Role::StreamControl(_) => 0,
        }
    }

    /// The peer has sent bytes of a stream.
    pub(super) fn on_stream(&mut self, frame: &StreamFrame<'_>, shared: &mut Shared, now: Instant) {
        self.last_traffic = Some(now);
        match self.streams.on_bytes(frame, &mut shared.pool, now) {
            Taken::Quietly => {}
            Taken::MoreWanted(limit) => {
                self.say(&StreamControl::Credit { id: frame.id, limit: low(limit) }, shared, now);
            }
            Taken::Readable => self.tell(frame.id, StreamEvent::Readable, shared),
            Taken::Broken => {
                self.reset_stream(frame.id, shared, now);
                self.tell(frame.id, StreamEvent::Reset, shared);
            }
        }
    }

    /// The peer says something of a stream.
    pub(super) fn on_stream_control(
        &mut self,
        control: &StreamControl,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        match *control {
            StreamControl::Open { id, credit, opening } => {
                return self.on_stream_open(id, credit, opening, shared, now);
            }
            StreamControl::Answer { id, outcome, credit } => {
                if outcome == StreamOutcome::Open {
                    self.streams.set_first_limit(id, credit);
                    if self.streams.stand(id).is_some() {
                        self.tell(id, StreamEvent::Answered(outcome), shared);
                    }
                    self.feed(id, shared, now);
                } else if self.streams.reset(id, &mut shared.pool) {
                    self.tell(id, StreamEvent::Answered(outcome), shared);
                }
            }
            StreamControl::Credit { id, limit } => {
                self.streams.raise_limit(id, limit);
                self.feed(id, shared, now);
            }
            StreamControl::Reset { id } => {
                if self.streams.reset(id, &mut shared.pool) {
                    self.tell(id, StreamEvent::Reset, shared);
                }
            }
        }
        Ok(())
    }

    /// The peer opens a stream.
    fn on_stream_open(
        &mut self,
        id: StreamId,
        credit: u32,
        opening: StreamOpening,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        // It was sent twice, perhaps, and has been answered.
        if !self.streams.is_new(id) {
            return Ok(());
        }
        self.streams.see(id);
        let is_foreign = !shared.routes.may_be_from(opening.client.ip(), self.peer);
        let outcome = if is_foreign || !self.takes_streams(shared) {
            StreamOutcome::Prohibited
        } else if self.streams.accept(id, credit, opening, lot(&opening, true, shared), now) {
            self.tell(id, StreamEvent::Opened(opening), shared);
            return Ok(());
        } else {
            StreamOutcome::Full
        };
        self.streams.counters.refused += 1;
        self.say(&StreamControl::Answer { id, outcome, credit: 0 }, shared, now);
        if is_foreign { Err(Refusal::ForeignSource) } else { Ok(()) }
    }

    /// The peer has lost its state, or the session ends: so do all streams.
    pub(super) fn end_streams(&mut self, shared: &mut Shared) {
        for id in self.streams.clear(&mut shared.pool) {
            self.tell(id, StreamEvent::Reset, shared);
        }
    }

    /// What streams have done, if both sites carry them.
    pub(crate) fn stream_counters(&self) -> Option<StreamCounters> {
        self.peer_takes_streams.then_some(self.streams.counters)
    }

    /// How many streams there are.
    pub(crate) fn open_streams(&self) -> usize {
        self.streams.len()
    }

    /// The streams as they stand.
    pub(crate) fn streams(&self) -> Vec<StreamStatus> {
        self.streams.status().collect()
    }

    fn tell(&self, stream: StreamId, event: StreamEvent, shared: &mut Shared) {
        shared.events.push_back(Event::Stream { peer: self.peer, stream, event });
    }

    /// Sends a frame about a stream before all that waits.
    fn say(&mut self, control: &StreamControl, shared: &mut Shared, now: Instant) {
        let mut frame = std::mem::take(&mut self.scratch.frame);
        control.encode(&mut frame);
        let mut packet = shared.pool.take();
        packet.fill(&frame);
        self.scratch.frame = frame;
        self.last_traffic = Some(now);
        let role = Role::StreamControl(self.streams.serial());
        let lot = Lot::default();
        let queued = Queued { seq: Some(FlowSeq::default()), ..queued(packet, lot, role, now) };
        self.egress.push_urgent(queued);
    }
}

/// The class and the bucket of what a connection's end sends into the tunnel: the client, or the server.
fn lot(opening: &StreamOpening, is_server: bool, shared: &Shared) -> Lot {
    let StreamOpening { client, server, dscp } = *opening;
    let (source, destination) = if is_server { (server, client) } else { (client, server) };
    let headers = of_tcp(source, destination, dscp, shared.flow_key);
    Lot { class: shared.classes.of(&headers), bucket: headers.bucket }
}

fn queued(packet: PacketBuf, lot: Lot, role: Role, now: Instant) -> Queued {
    Queued {
        packet,
        part: None,
        bucket: lot.bucket,
        class: lot.class,
        seq: None,
        ordered: false,
        role,
        marked: Marked::default(),
        precedence: Precedence::default(),
        queued_at: now,
        turn: 0,
        flow: FlowRef::default(),
    }
}

/// The low 32 bits of an offset, which are all that a frame carries.
#[expect(clippy::cast_possible_truncation, reason = "truncation is its purpose")]
fn low(offset: u64) -> u32 {
    offset as u32
}
