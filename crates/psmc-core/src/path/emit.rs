//! Building the datagrams of a path, straight into a batch.

use std::time::{Duration, Instant};

use psmc_wire::crypto::TAG_LEN;
use psmc_wire::datagram::{HEADER_LEN, Marks, TIMESTAMP_LEN};
use psmc_wire::frame::{
    DATA_OVERHEAD, DATA_OVERHEAD_WITH_LENGTH, DataFrame, FrameWriter, PADDING, StreamFrame,
};
use psmc_wire::ip::Ecn;

use super::sent::{SentDatagram, UNKNOWN_QUEUE};
use super::timing::{PING_INTERVAL, QUESTION_LEN};
use super::{Path, PathState, on_wire};
use crate::batch::{Batch, PathAddress};
use crate::clock::{SessionClock, timestamp_of};
use crate::condition::Precedence;
use crate::egress::{Queued, Role, StreamPart};
use crate::keys::{ExchangeFrame, SealingKey};

/// A datagram with room for at least this much behind a packet is worth being shared with the next one: a bare
/// acknowledgement of an inner TCP flow has 40 to 60 bytes.
const WORTH_SHARING: usize = 40;

/// Control frames wait this long at the most for the end of a burst of full-size datagrams.
const CONTROL_PATIENCE: Duration = Duration::from_millis(1);

/// How much longer than two round trips a probe of the datagram size is waited for: acknowledgements that are late, and
/// busy machines.
const PROBE_SLACK: Duration = Duration::from_millis(40);

/// What a datagram under construction turned out to hold.
struct Content {
    frames: usize,
    eliciting: bool,
    packets: Vec<Queued>,
}

impl Path {
    /// Adds datagrams to `batch` until it is complete or nothing may be sent on this path for the moment. Returns where they go.
    pub(crate) fn emit(
        &mut self,
        key: &SealingKey,
        clock: &SessionClock,
        batch: &mut Batch,
        now: Instant,
    ) -> PathAddress {
        if self.asks_elsewhere_at().is_some_and(|at| at <= now)
            && let Some(elsewhere) = self.ask_elsewhere(key, clock, batch, now)
        {
            return elsewhere;
        }
        if let Some(response) = self.hop_response.take().and_then(|token| self.first_hop.response(token)) {
            // Shorter than whatever may follow it.
            batch.takes(Ecn::NotEct);
            if let Some(datagram) = batch.reserve(response.len()) {
                datagram.copy_from_slice(&response);
                batch.commit(response.len());
            }
            return self.address;
        }
        while self.wants_to_send(now) {
            if let Some(size) = self.next_mtu_probe(now) {
                // It travels alone, so that nothing else is lost with it, and is not lost for another reason.
                if batch.segments() == 0 && batch.takes(Ecn::NotEct) {
                    self.emit_mtu_probe(size, key, clock, batch, now);
                }
                break;
            }
            let ecn = self.ecn(now);
            if !batch.takes(ecn) {
                break;
            }
            let (is_first, drawn) = (batch.segments() == 0, self.tokens.drawn());
            let Some(datagram) = batch.reserve(self.mtu.size()) else {
                break;
            };
            let front = self.first_hop.header_len() + HEADER_LEN + TIMESTAMP_LEN;
            let Some((frames, tail)) = datagram
                .get_mut(front..)
                .and_then(|rest| rest.split_at_mut_checked(rest.len().checked_sub(TAG_LEN)?))
            else {
                break;
            };
            debug_assert_eq!(tail.len(), TAG_LEN);
            let mut content = self.fill(frames, clock, now);
            // The last packet reaches to the end of its datagram, and is large by itself.
            let is_probe = self.tokens.drawn() != drawn && content.packets.is_empty();
            if is_first && is_probe && self.is_large(drawn) {
                frames[content.frames..].fill(PADDING);
                content.frames = frames.len();
            }
            if content.frames == 0 {
                self.sent.recycle(content.packets);
                break;
            }
            let len = front + content.frames + TAG_LEN;
            let precedence = content.packets.first().map(|packet| packet.precedence).unwrap_or_default();
            self.seal(&mut datagram[..len], precedence, key, clock, now);
            batch.commit(len);
            self.on_sent(len, content, ecn, now);
        }
        self.join(batch, now);
        self.address
    }

    /// Asks whether the peer is where its newest datagram seems to have come from; answers it there, too, since its challenge has.
    /// Nothing else goes there before it has answered. Returns where the datagram goes.
    fn ask_elsewhere(
        &mut self,
        key: &SealingKey,
        clock: &SessionClock,
        batch: &mut Batch,
        now: Instant,
    ) -> Option<PathAddress> {
        let front = self.first_hop.header_len() + HEADER_LEN + TIMESTAMP_LEN;
        batch.takes(Ecn::NotEct);
        let datagram = batch.reserve(self.first_hop.header_len() + QUESTION_LEN)?;
        let room = datagram.len() - TAG_LEN;
        let mut frames = FrameWriter::new(&mut datagram[front..room]);
        let token = self.tokens.next();
        frames.path_challenge(token);
        self.response.take_if(|token| frames.path_response(*token));
        let len = front + frames.len() + TAG_LEN;
        self.seal(&mut datagram[..len], Precedence::Dp0, key, clock, now);
        batch.commit(len);
        self.tokens.draw();
        self.note_unawaited(u16::try_from(len).unwrap_or(u16::MAX), now);
        self.roaming.on_asked(token, len, now)
    }

    /// Decides whether the kernel gets a batch as one packet.
    fn join(&mut self, batch: &mut Batch, now: Instant) {
        if batch.segments() < 2 {
            return;
        }
        if self.offload.joins(now) {
            let bytes = u16::try_from(batch.contents().len()).unwrap_or(u16::MAX);
            self.sent.note_batch(batch.segments(), bytes);
        } else {
            batch.part();
        }
    }

    /// The ECN codepoint of what leaves now. Only data tries whether the network takes marks: of what nobody acknowledges
    /// nobody would learn that it is gone.
    fn ecn(&self, now: Instant) -> Ecn {
        let marks = self.state() == PathState::Active
            && (self.marking.is_capable() || self.marking.is_trying() && self.may_send_data(now));
        if marks { Ecn::Ect0 } else { Ecn::NotEct }
    }

    fn next_mtu_probe(&mut self, now: Instant) -> Option<u16> {
        if self.is_proven() { self.mtu.next_probe(now) } else { None }
    }

    /// A datagram of `size` bytes that asks for an acknowledgement, and for nothing else.
    fn emit_mtu_probe(
        &mut self,
        size: u16,
        key: &SealingKey,
        clock: &SessionClock,
        batch: &mut Batch,
        now: Instant,
    ) {
        let Some(datagram) = batch.reserve(size.into()) else { return };
        datagram.fill(PADDING);
        let front = self.first_hop.header_len() + HEADER_LEN + TIMESTAMP_LEN;
        FrameWriter::new(&mut datagram[front..]).ping();
        let number = self.sent.next_number();
        self.seal(datagram, Precedence::Dp0, key, clock, now);
        batch.commit(size.into());
        let patience = 2 * self.smoothed_rtt() + PROBE_SLACK;
        self.mtu.on_probe_sent(number, patience, now);
        self.note_unawaited(size, now);
    }

    /// Keeps the books about a datagram of which it says nothing that it is lost, neither of congestion nor of the path's life: nobody
    /// waits for it.
    fn note_unawaited(&mut self, bytes: u16, now: Instant) {
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += u64::from(bytes);
        self.pacer.on_sent(bytes.into(), self.pace(), now);
        let snapshot = self.rates.on_sent(now, self.sent.inflight_bytes());
        self.sent.push(SentDatagram {
            sent_at: now,
            bytes,
            ack_eliciting: false,
            is_ect: false,
            batch: 0,
            queue_us: 0,
            snapshot,
            packets: Vec::new(),
            path_use: None,
        });
    }

    /// Completes a datagram whose frames are written: its timestamp, its header and tag, its marks, and what its first hop
    /// wants to see in front.
    fn seal(
        &mut self,
        datagram: &mut [u8],
        precedence: Precedence,
        key: &SealingKey,
        clock: &SessionClock,
        now: Instant,
    ) {
        let inner = &mut datagram[self.first_hop.header_len()..];
        let at_us = clock.micros(now);
        inner[HEADER_LEN..HEADER_LEN + TIMESTAMP_LEN].copy_from_slice(&timestamp_of(at_us).to_be_bytes());
        key.seal(self.id, self.sent.next_number(), inner);
        let marks = Marks { drop_precedence: precedence.number(), ..self.coloured.stamp(at_us) };
        self.first_hop.mark(datagram, marks);
    }

    /// Writes what waits into the room for frames, the most urgent first.
    fn fill(&mut self, room: &mut [u8], clock: &SessionClock, now: Instant) -> Content {
        let whole = room.len();
        let mut packets = self.sent.packet_list();
        let may_send_data = self.may_send_data(now);
        let next_packet = self.outbox.front().filter(|_| may_send_data).map_or(0, Queued::len_in_frame);
        let mut writer = FrameWriter::new(room);
        // Beside a full-size packet there is no room, and a longer datagram would break the batch: control
        // frames then wait for the datagram that ends it.
        let small = next_packet + DATA_OVERHEAD_WITH_LENGTH + whole / 2 < whole;
        let shared = next_packet == 0 || small || self.control_is_late(now);
        let mut eliciting = false;
        if shared {
            eliciting |= self.write_control(&mut writer, clock, now);
        }
        let mut frames = writer.len();
        if may_send_data {
            frames = fill_data(writer, &mut self.outbox, &mut packets);
            self.outbox_bytes -= packets.iter().map(|queued| on_wire(queued.packet.len())).sum::<u64>();
        }
        eliciting |= !packets.is_empty();
        Content { frames, eliciting, packets }
    }

    fn control_is_late(&self, now: Instant) -> bool {
        let late = |due: Option<Instant>| due.is_some_and(|at| at + CONTROL_PATIENCE <= now);
        let is_wanted_now =
            self.response.is_some() || self.measurements.are_due() || self.carried_exchange.is_some();
        is_wanted_now || late(self.received.ack_due()) || late(self.liveness.next_probe())
    }

    /// Writes all control frames that are due, or that travel along for free. Returns whether one of them
    /// asks for an acknowledgement.
    fn write_control(&mut self, writer: &mut FrameWriter<'_>, clock: &SessionClock, now: Instant) -> bool {
        let mut eliciting = false;
        let responds = self.response.take_if(|token| writer.path_response(*token)).is_some();
        let is_probed = self.liveness.next_probe().is_some_and(|at| at <= now);
        if is_probed || self.measurements.are_due() {
            // The peer answers the newest only: so one serves both.
            let token = self.tokens.next();
            if writer.path_challenge(token) {
                self.tokens.draw();
                self.measurements.on_sent(token, now);
                if is_probed {
                    self.liveness.on_probe_sent(token, now);
                }
                eliciting = true;
            }
        }
        self.write_ack(responds, writer, clock, now);
        if self.received.stats_due().is_some_and(|at| at <= now) {
            self.received.write_stats(self.id, writer);
        }
        if !self.carried.is_empty() && writer.raw(&self.carried) {
            self.carried.clear();
        }
        if let Some(path_use) = self.carried_use.filter(|&path_use| writer.path_use(path_use)) {
            self.carried_use = None;
            self.use_in_datagram = Some(path_use);
            eliciting = true;
        }
        eliciting |= self.carried_exchange.take_if(|frame| write_exchange(frame, writer)).is_some();
        if self.ping_due(now) && writer.ping() {
            self.only_answered_since = None;
            eliciting = true;
        }
        eliciting
    }

    /// Writes an acknowledgement that waits. If acknowledgements travel elsewhere, because the path seems not to
    /// work in this direction, a response takes one along all the same: if it arrives the path works, and its
    /// sender shall not wait for a slower one.
    fn write_ack(
        &mut self,
        responds: bool,
        writer: &mut FrameWriter<'_>,
        clock: &SessionClock,
        now: Instant,
    ) {
        let wanted = self.received.ack_pending() && (responds || !self.ack_travels_elsewhere);
        if wanted && self.received.write_ack(self.id, writer, clock, now) && !self.ack_travels_elsewhere {
            self.received.on_ack_sent();
        }
    }

    /// Keeps the books about a datagram that has been sealed.
    fn on_sent(&mut self, len: usize, content: Content, ecn: Ecn, now: Instant) {
        let inflight = self.sent.inflight_bytes();
        let snapshot = self.rates.on_sent(now, inflight);
        let bytes = u16::try_from(len).unwrap_or(u16::MAX);
        // Nobody waits for the acknowledgement of a probe that may never arrive: only its answer counts.
        let expected = matches!(self.state(), PathState::Active | PathState::Suspect);
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += len as u64;
        let mut queue_us = 0;
        if content.eliciting {
            self.only_answered_since = None;
            let pace = self.pace();
            self.pacer.on_sent(u64::from(bytes), pace, now);
            self.last_eliciting_at = Some(now);
            let standing = self.bottleneck.on_sent(u64::from(bytes), self.forwarding_rate(), now);
            let known = (!self.is_finding_rate()).then_some(standing);
            queue_us = known.and_then(|queue| u32::try_from(queue.as_micros()).ok()).unwrap_or(UNKNOWN_QUEUE);
        } else {
            self.note_answer(now);
        }
        let is_ect = ecn == Ecn::Ect0;
        if is_ect {
            self.marking.on_sent(content.eliciting && expected, now);
        }
        self.sent.push(SentDatagram {
            sent_at: now,
            bytes,
            ack_eliciting: content.eliciting && expected,
            is_ect,
            batch: 0,
            queue_us,
            snapshot,
            packets: content.packets,
            path_use: self.use_in_datagram.take(),
        });
    }

    /// A datagram that nobody acknowledges has been sent. If it answers data, the answers themselves should be
    /// known to arrive; answers to anything else are not worth a question.
    fn note_answer(&mut self, now: Instant) {
        if self.received.data_at().is_some_and(|at| now < at + PING_INTERVAL) {
            self.only_answered_since.get_or_insert(now);
        }
    }
}

fn write_exchange(frame: &ExchangeFrame, writer: &mut FrameWriter<'_>) -> bool {
    match frame {
        ExchangeFrame::Rekey(asked) => writer.rekey(asked),
        ExchangeFrame::Rekeyed(told) => writer.rekeyed(told),
    }
}

/// Moves packets from the outbox into the datagram as long as they fit. Returns its length.
fn fill_data(
    mut writer: FrameWriter<'_>,
    outbox: &mut std::collections::VecDeque<Queued>,
    packets: &mut Vec<Queued>,
) -> usize {
    while let Some(queued) = outbox.pop_front() {
        let Queued { role, precedence, .. } = queued;
        let is_repair = role == Role::Repair;
        let others = || packets.iter().map(|packet| packet.role).chain([role]);
        // All of a datagram is dropped together.
        let joins = |next: &&Queued| next.precedence == precedence && next.role.may_join(others());
        let next = outbox.front().filter(|next| !is_repair && joins(next));
        let next = next.map_or(usize::MAX, Queued::len_in_frame);
        let behind = writer.remaining().checked_sub(DATA_OVERHEAD_WITH_LENGTH + queued.len_in_frame());
        if behind.is_some_and(|behind| next <= behind && next.max(WORTH_SHARING) + DATA_OVERHEAD <= behind) {
            write_data(&queued, &mut writer);
            packets.push(queued);
            continue;
        }
        let before = writer.len();
        return match write_last(&queued, writer) {
            Some(len) => {
                packets.push(queued);
                len
            }
            None => {
                outbox.push_front(queued);
                before
            }
        };
    }
    writer.len()
}

/// The frame of an inner packet, or of a part of one.
fn data_frame(queued: &Queued) -> DataFrame<'_> {
    DataFrame {
        bucket: queued.bucket,
        seq: queued.seq.unwrap_or_default(),
        ordered: queued.ordered,
        repaired: queued.role.promises_more(),
        checksum: queued.packet.checksum(),
        part: queued.part,
        packet: queued.packet.packet(),
    }
}

fn stream_frame(part: StreamPart, queued: &Queued) -> StreamFrame<'_> {
    StreamFrame { id: part.id, offset: part.offset, fin: part.fin, bytes: queued.packet.packet() }
}

/// Writes a packet behind which others follow, for which there is room.
fn write_data(queued: &Queued, writer: &mut FrameWriter<'_>) {
    match queued.role {
        Role::Stream(part) => writer.stream(&stream_frame(part, queued)),
        Role::StreamControl(_) => writer.raw(queued.packet.packet()),
        Role::Packet(_) | Role::Copy { .. } | Role::Repair => writer.data(&data_frame(queued)),
    };
}

/// Writes the last packet of a datagram, if there is room; says how long the datagram is then.
fn write_last(queued: &Queued, mut writer: FrameWriter<'_>) -> Option<usize> {
    let packet = queued.packet.packet();
    match queued.role {
        Role::Stream(part) => writer.last_stream(&stream_frame(part, queued)),
        Role::StreamControl(_) => writer.raw(packet).then(|| writer.len()),
        Role::Repair => writer.last_repair(queued.bucket, queued.seq.unwrap_or_default(), packet),
        Role::Packet(_) | Role::Copy { .. } => writer.last_data(&data_frame(queued)),
    }
}
