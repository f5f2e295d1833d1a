//! What a session sends: packets to paths, frames to the paths that carry them.

use std::time::Instant;

use psmc_wire::frame::FrameWriter;
use psmc_wire::{Bucket, PacketBuf};

use super::Session;
use crate::batch::{Batch, PathAddress, Transmit};
use crate::classify::{Classified, RepairKind};
use crate::congestion::bytes_in;
use crate::egress::{Queued, Role, Service};
use crate::flows::Fate;
use crate::path::{PathRank, PathState};
use crate::roster::{Places, Roster, Way};
use crate::scheduler::{Choice, Scheduler, Waiting};
use crate::shared::Shared;
use crate::split;
use crate::tap::Passage;

/// Room for the frames that one path carries for others: a few acknowledgements.
const MAX_CARRIED: usize = 600;

/// The path for a packet: one of the candidates, or beyond them once it has waited for long enough and none of them has room.
fn choose(
    scheduler: &mut dyn Scheduler,
    paths: &mut Roster,
    Way { candidates, reserve }: Way,
    packet: &Waiting<'_>,
    now: Instant,
) -> Choice {
    if candidates.is_empty() {
        return Choice::Wait;
    }
    let (bytes, since) = (packet.queued.packet.len(), packet.queued.queued_at);
    let has_room = |index: usize| paths[index].has_room(bytes, now);
    if reserve.is_empty() || !paths.is_overdue(since, now) || candidates.iter().any(has_room) {
        return scheduler.choose(paths, candidates, packet, now);
    }
    scheduler.choose_beyond(paths, candidates, reserve, packet, now)
}

/// What the scheduler has left to wait, and when. As long as that is the same it would say the same of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Unplaced {
    queued: usize,
    extras: usize,
    /// Of the paths.
    changes: u64,
    at: Instant,
}

impl Session {
    /// Queues an inner packet for the peer.
    pub(crate) fn handle_packet(
        &mut self,
        mut packet: PacketBuf,
        headers: &Classified,
        shared: &mut Shared,
        now: Instant,
    ) {
        if !self.shedding.passes(headers, packet.len(), now) {
            self.counters.shed += 1;
            return shared.pool.put(packet);
        }
        let quic = self.quic.contain(headers.bucket, headers.quic, now);
        let responsive = headers.ordered || quic || !headers.is_udp();
        if !responsive && !self.udp_limit.admits(packet.len(), now) {
            self.counters.udp_limited += 1;
            return shared.pool.put(packet);
        }
        let class = shared.classes.of(headers);
        let Some(marked) = self.offer(headers, quic, class, packet.len(), now) else {
            self.counters.unresponsive += 1;
            return shared.pool.put(packet);
        };
        self.clamp_mss(&mut packet, shared);
        self.last_traffic = Some(now);
        self.counters.tx_packets += 1;
        self.counters.tx_bytes += packet.len() as u64;
        let bucket = headers.bucket;
        let ordered = headers.ordered || quic || (self.config.ordered_udp && headers.is_udp());
        // Copies and repairs would leave on other paths.
        let is_pinned = self.pins.path_of(bucket, now).is_some();
        let repair = shared.classes.repair(class).unwrap_or(self.config.repair);
        // Nor is a repair made of packets that must not go there.
        let is_kept = is_pinned || repair == RepairKind::Fec && shared.classes.is_strict(class);
        let repair = if is_kept { RepairKind::Resend } else { repair };
        if repair == RepairKind::Fec || (repair == RepairKind::Auto && self.coder.is_any_lossy()) {
            // What is computed from the others comes without a word about its checksum.
            packet.complete_checksum();
        }
        let precedence = shared.conditioners.mark(class, headers, &mut packet, &mut shared.rng, now);
        let role = Role::Packet(repair);
        let flow =
            shared.flows.as_mut().map(|flows| flows.on_sent(self.peer, packet.packet(), headers, class, now));
        let flow = flow.unwrap_or_default();
        let queued = Queued {
            packet,
            part: None,
            bucket,
            class,
            seq: None,
            ordered,
            role,
            marked,
            precedence,
            queued_at: now,
            turn: 0,
            flow,
        };
        self.egress.push(queued, &mut shared.pool);
        self.note_drops(now);
        self.tell_fates(shared);
    }

    /// Fills `batch` with what one path has to send now.
    pub(crate) fn poll_transmit(
        &mut self,
        batch: &mut Batch,
        shared: &mut Shared,
        now: Instant,
    ) -> Option<Transmit> {
        self.keys.sealing(now)?;
        self.paths.refresh(now);
        self.recut();
        self.schedule(shared, now);
        self.carry_for_others(now);
        let mut unable = Places::default();
        loop {
            self.paths.refresh(now);
            let index = self.paths.next_sender(self.emission_turn, now)?;
            if unable.contains(index) {
                return None;
            }
            self.emission_turn = index + 1;
            batch.clear();
            let path = &mut self.paths[index];
            let before = path.state();
            let address = path.emit(self.keys.sealing(now)?, &self.clock, batch, now);
            // One probe too many makes a suspect dead.
            self.note_state(index, before, shared, now);
            if batch.segments() > 0 {
                self.keys.on_sealed(batch.segments() as u64);
                return Some(self.transmit(index, address, batch));
            }
            unable.insert(index);
        }
    }

    /// What waits in paths whose datagrams have become smaller waits for its turn again, to be cut for them.
    fn recut(&mut self) {
        for index in self.paths.shrunk().iter() {
            if self.paths[index].mtu.take_shrunk() {
                self.take_back(index);
            }
        }
    }

    /// What waits in a path waits for another turn.
    pub(super) fn take_back(&mut self, index: usize) {
        self.egress.put_back(self.paths[index].take_outbox());
        self.extras.forget_held();
    }

    fn transmit(&self, index: usize, address: PathAddress, batch: &Batch) -> Transmit {
        let path = &self.paths[index];
        Transmit {
            socket: address.socket,
            remote: address.remote,
            // The peer must hear from the address it has called. What this site opens leaves from whatever address its
            // link has at the moment: to insist on the former one would silence a site that moves.
            local_ip: address.local_ip.filter(|_| !path.opened_here),
            ecn: batch.ecn(),
            segment_size: batch.segment_size(),
            segments: batch.segments(),
            apart: batch.is_apart(),
        }
    }

    /// Gives waiting packets to paths until the scheduler lets one wait.
    fn schedule(&mut self, shared: &mut Shared, now: Instant) {
        if self.paths.candidates().is_empty() {
            return;
        }
        if self.unplaced == Some(self.unplaced(now)) {
            return self.paths.note_idle(now);
        }
        self.paths.note_late(now);
        let service = self.service(now);
        self.egress.set_service(&service, now);
        if self.open_streams() > 0 {
            self.streams.look_ahead(bytes_in(service.rate, service.round_trip));
        }
        self.place_extras(shared, now);
        loop {
            if self.egress.front(&mut shared.pool, now).is_none() {
                break;
            }
            let alone = self.egress.is_alone();
            let Some(queued) = self.egress.shown() else { break };
            if self.is_void(queued) {
                self.egress.pop().into_iter().for_each(|void| shared.pool.put(void.packet));
                continue;
            }
            let backlog = self.egress.backlog() + self.stream_backlog(queued);
            let front = Waiting { queued, backlog, alone };
            let pinned = self.pinned_to(queued.bucket, now);
            let way = self.paths.way(queued.class);
            let choice = pinned.map_or_else(
                || choose(self.scheduler.as_mut(), &mut self.paths, way, &front, now),
                Choice::Path,
            );
            let is_of_stream = queued.role.is_of_stream();
            match self.placed(choice, way, is_of_stream) {
                Choice::Wait if self.egress.step_aside() => continue,
                Choice::Wait => break,
                Choice::Path(index) => {
                    if self.paths.reserve().contains(index) {
                        self.paths.note_relief(now);
                    }
                    self.give(index, alone, shared, now);
                }
                Choice::All => self.give_to_all(way, shared, now),
            }
            self.place_extras(shared, now);
        }
        self.egress.step_back();
        self.tell_fates(shared);
        self.paths.note_idle(now);
        self.unplaced = Some(self.unplaced(now));
    }

    /// Tells whoever counts flows what became of their packets.
    pub(super) fn tell_fates(&mut self, shared: &mut Shared) {
        // Twice for each packet, and nothing nearly always.
        if !self.egress.has_fates() {
            return;
        }
        for (flow, fate) in self.egress.take_fates() {
            if let Some(flows) = &mut shared.flows {
                flows.on_fate(flow, fate);
            }
        }
    }

    /// The path on which the flows of a bucket stay, as long as that answers.
    fn pinned_to(&self, bucket: Bucket, now: Instant) -> Option<usize> {
        let index = self.path_index(self.pins.path_of(bucket, now)?)?;
        self.paths[index].rank().filter(|rank| rank.is_active()).map(|_| index)
    }

    /// What the queue drains into, as flows see it: where packets are lost by chance, what comes after them waits a round trip
    /// at the far end, until they are sent again.
    fn service(&mut self, now: Instant) -> Service {
        let mut service = self.paths.service(now);
        if self.coder.is_any_lossy() {
            service.hold = service.hold.max(service.round_trip);
        }
        service
    }

    fn unplaced(&self, now: Instant) -> Unplaced {
        let (queued, extras) = (self.egress.len(), self.extras.len());
        Unplaced { queued, extras, changes: self.paths.changes(), at: now }
    }

    /// Takes the first packet from the queue, with its place in the order of its bucket.
    fn take_first(&mut self, shared: &mut Shared, now: Instant) -> Option<Queued> {
        let mut packet = self.egress.pop()?;
        if !self.note_stream_left(&mut packet, shared, now) {
            let sequences = &mut self.sequences;
            packet.seq.get_or_insert_with(|| sequences.take(packet.bucket));
        }
        Some(packet)
    }

    /// What is made of the scheduler's choice. Bytes of a stream arrive in any case: they take one path, and wait for its room.
    fn placed(&self, choice: Choice, way: Way, is_of_stream: bool) -> Choice {
        if !is_of_stream {
            return choice;
        }
        match choice {
            Choice::Path(index) if self.paths[index].is_full() => Choice::Wait,
            Choice::All => {
                let open = way.all().iter().filter(|&index| !self.paths[index].is_full());
                let first = open.min_by_key(|&index| self.paths[index].smoothed_rtt());
                first.map_or(Choice::Wait, Choice::Path)
            }
            Choice::Path(_) | Choice::Wait => choice,
        }
    }

    fn give(&mut self, index: usize, alone: bool, shared: &mut Shared, now: Instant) {
        if self.paths[index].is_full() {
            return self.refuse_first(index, shared);
        }
        let is_new = self.egress.shown().is_some_and(|packet| packet.seq.is_none());
        let Some(mut packet) = self.take_first(shared, now) else { return };
        if is_new {
            self.protect(index, &packet, alone, shared, now);
        }
        self.show(index, &packet, shared, now);
        // What is too much for this path waits for its own turn, and may go to another one.
        let was_whole = packet.part.is_none();
        if let Some(rest) = split::cut(&mut packet, self.paths[index].room(), &mut shared.pool) {
            self.counters.split += u64::from(was_whole && rest.part.is_some());
            self.egress.put_back(std::iter::once(rest));
        }
        self.enqueue(index, packet, shared);
    }

    /// Gives a path something to send, in its turn.
    fn enqueue(&mut self, index: usize, mut queued: Queued, shared: &mut Shared) {
        self.count_share(index, &queued, shared);
        self.turns += 1;
        queued.turn = self.turns;
        if let Some(refused) = self.paths[index].enqueue(queued) {
            shared.pool.put(refused.packet);
        }
    }

    /// Shows a packet that a path takes to whoever looks on: once, however many parts it has, and no repairs, which are none.
    fn show(&self, index: usize, queued: &Queued, shared: &mut Shared, now: Instant) {
        if !shared.is_watched() {
            return;
        }
        let path = &self.paths[index];
        if queued.part.is_none() && queued.role.is_packet() && !path.is_full() {
            let passage = Passage { peer: self.peer, path: path.id, is_sent: true };
            shared.show(passage, &queued.packet, now);
        }
    }

    /// Counts what a path is given of a class, if somebody exports that.
    fn count_share(&mut self, index: usize, queued: &Queued, shared: &Shared) {
        if shared.flows.is_some() && queued.role.is_packet() {
            let is_first = queued.part.is_none_or(|part| part.offset == 0);
            self.paths.shares_mut(index).on_sent(queued.class, is_first, queued.packet.len());
        }
    }

    /// Drops the first packet, for which a path has no place. It gets none in the order of its bucket: the far end would wait for it.
    fn refuse_first(&mut self, index: usize, shared: &mut Shared) {
        if let Some(packet) = self.egress.pop() {
            self.paths[index].counters.dropped_packets += 1;
            if let Some(flows) = &mut shared.flows {
                flows.on_fate(packet.flow, Fate::Dropped(packet.len()));
            }
            shared.pool.put(packet.packet);
        }
    }

    fn give_to_all(&mut self, way: Way, shared: &mut Shared, now: Instant) {
        let Some(packet) = self.take_first(shared, now) else { return };
        for index in way.all().iter() {
            // The copies are what repairs it.
            let copy = packet.copy(false, &mut shared.pool);
            self.enqueue_cut(index, copy, shared, now);
        }
        shared.pool.put(packet.packet);
    }

    /// Gives a copy or a repair to a path, in as many parts as it takes there.
    pub(super) fn enqueue_cut(&mut self, index: usize, copy: Queued, shared: &mut Shared, now: Instant) {
        self.show(index, &copy, shared, now);
        let was_whole = copy.part.is_none();
        let mut next = Some(copy);
        while let Some(mut part) = next {
            next = split::cut(&mut part, self.paths[index].room(), &mut shared.pool);
            let is_first = part.part.is_some_and(|part| part.offset == 0);
            self.counters.split += u64::from(was_whole && is_first);
            self.enqueue(index, part, shared);
        }
    }

    /// Finds carriers for frames about paths that should not, or can not, carry them themselves:
    /// acknowledgements of paths that don't work in our direction, and wishes about the use of paths.
    fn carry_for_others(&mut self, now: Instant) {
        let carried = self.paths.carried(now);
        if carried.is_empty() {
            return;
        }
        let carrier = self.carrier();
        for index in carried.iter() {
            let path = &mut self.paths[index];
            path.ack_travels_elsewhere = carrier.is_some() && path.state() != PathState::Active;
            let Some(carrier) = carrier else { continue };
            let round_trip = path.smoothed_rtt();
            let wish = path.usage.take_due(path.id, round_trip, now);
            if wish.is_some() && self.paths[carrier].carried_use.is_none() {
                self.paths[carrier].carried_use = wish;
            }
            if index != carrier {
                self.carry_ack(index, carrier, now);
            }
        }
    }

    /// The path that is best to carry frames of others.
    pub(super) fn carrier(&self) -> Option<usize> {
        let active = |index: &usize| self.paths[*index].rank().is_some_and(PathRank::is_active);
        let best = (0..self.paths.len()).filter(active).min_by_key(|&index| self.paths[index].smoothed_rtt());
        best.or_else(|| self.paths.iter().position(|path| path.state() == PathState::Active))
    }

    fn carry_ack(&mut self, index: usize, carrier: usize, now: Instant) {
        let path = &self.paths[index];
        let due = path.received.ack_due().is_some_and(|at| at <= now);
        if !path.ack_travels_elsewhere || !due {
            return;
        }
        let id = path.id;
        let mut room = [0; MAX_CARRIED];
        let free = MAX_CARRIED.saturating_sub(self.paths[carrier].carried.len());
        let mut writer = FrameWriter::new(&mut room[..free]);
        // What finds no room is due still, and travels with the next datagram.
        if self.paths[index].received.write_ack(id, &mut writer, &self.clock, now) {
            self.paths[index].received.on_ack_sent();
        }
        let len = writer.len();
        self.paths[carrier].carried.extend_from_slice(&room[..len]);
    }
}
