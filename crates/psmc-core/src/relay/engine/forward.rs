//! What becomes of a datagram.

use std::ops::Range;
use std::time::Instant;

use psmc_wire::PacketBuf;
use psmc_wire::hop::{HopHeader, HopResponse, hop_marks};

use super::Relay;
use crate::counted::count;
use crate::limiter::Limiter;
use crate::relay::queues::{MAX_LEN, Turn, Why};
use crate::relay::rio::precedence;
use crate::relay::session::{Address, Disbelief, Session, Side};

/// What goes to a side of which the relay does not know yet where it is waits for so long: a site tells its peer by which
/// relay it comes, and a gateway shows itself there, each of which takes less than a round trip of most ways.
const HELD_FOR: u64 = 500_000_000;

/// Datagrams of a session that wait for that: a window of data, with which a path may begin.
const MAX_HELD: u16 = 32;

impl Relay {
    /// What a datagram that came `from` there becomes: where it goes, and its bytes. `None` if it goes no further, or
    /// has to wait.
    ///
    /// Before the datagram has proved to be authentic nothing is changed but a counter.
    pub fn handle_datagram<'d>(
        &mut self,
        datagram: &'d mut [u8],
        from: Address,
        now: Instant,
    ) -> Option<(Address, &'d [u8])> {
        let now = self.clock(now);
        if HopResponse::is_one(datagram) {
            self.handle_response(datagram, from);
            return None;
        }
        let Ok(header) = HopHeader::parse(datagram) else {
            self.refusals.malformed += 1;
            return None;
        };
        let entry = self.labels.find(header.label);
        let Some((entry, session)) = entry.and_then(|entry| {
            self.sessions.get_mut(entry.session as usize)?.as_deref_mut().map(|session| (entry, session))
        }) else {
            self.refusals.unknown_label += 1;
            return None;
        };
        let was_known = session.ends[entry.from.index()].address.is_some();
        match session.ends[entry.from.index()].accept(&header, datagram, from, now) {
            Ok(()) => {
                session.used_at = now;
                session.note_received(entry.from.other(), &header, datagram, now);
            }
            Err(Disbelief::Replayed) => {
                self.refusals.replayed += 1;
                return None;
            }
            Err(Disbelief::Forged) => {
                self.refusals.forged += 1;
                return None;
            }
            Err(Disbelief::Misaddressed) => {
                self.refusals.misaddressed += 1;
                return None;
            }
        }
        if !was_known {
            self.release_held(entry.session, entry.from, now);
        }
        self.pass_on(entry.session, entry.from.other(), &header, datagram, now)
    }

    /// The next datagram that need not wait any more: where it goes, its buffer, and which bytes of that are to be
    /// sent.
    pub fn poll_waiting(&mut self, now: Instant) -> Option<(Address, PacketBuf, Range<usize>)> {
        if let Some(challenge) = self.challenges.pop() {
            return Some(challenge);
        }
        let now = self.clock(now);
        while let Some(turn) = self.queues.take_due(now) {
            if let Some(sent) = self.take_turn(turn, now) {
                return Some(sent);
            }
        }
        None
    }

    /// Takes back a buffer of [`poll_waiting`](Self::poll_waiting).
    pub fn recycle(&mut self, buffer: PacketBuf) {
        self.queues.recycle(buffer);
    }

    /// Sends a datagram on, or has it wait.
    fn pass_on<'d>(
        &mut self,
        index: u32,
        to: Side,
        header: &HopHeader,
        datagram: &'d mut [u8],
        now: u64,
    ) -> Option<(Address, &'d [u8])> {
        let session = self.sessions[index as usize].as_deref_mut()?;
        let end = &session.ends[to.index()];
        if end.is_relay() && header.hops_left == 0 {
            self.refusals.too_many_hops += 1;
            return None;
        }
        let mark = header.marks.drop_precedence;
        if !self.shedding.passes(session.owner(to), end.hop.label, mark, datagram.len(), now) {
            self.refusals.shed += 1;
            return None;
        }
        let Some(address) = end.address else {
            self.hold(index, to, mark, datagram, now);
            return None;
        };
        if end.elsewhere.is_some_and(|elsewhere| elsewhere.is_due(now)) {
            self.challenge(index, to, datagram, now);
        }
        let session = self.sessions[index as usize].as_deref_mut()?;
        let due = ready_at(session, to, &self.total, now);
        let lane = &mut session.lanes[to.index()];
        if due <= now && lane.is_empty() {
            take(session, to, &self.total, datagram, now);
            return Some((address, session.ends[to.index()].dress(datagram)));
        }
        if datagram.len() > MAX_LEN {
            self.refusals.too_long += 1;
            return None;
        }
        let was_empty = lane.is_empty();
        if !lane.admits(mark, now, &mut self.rng) {
            self.refusals.dropped[precedence(mark)] += 1;
            return None;
        }
        let Some(copy) = self.queues.copy(datagram) else {
            self.refusals.queue_full += 1;
            return None;
        };
        lane.push(copy, mark, &mut self.queues.slab);
        if was_empty {
            self.queues.schedule(index, session.generation, to, due);
        }
        None
    }

    /// Has a datagram wait until the side to which it goes shows where it is.
    fn hold(&mut self, index: u32, to: Side, mark: u8, datagram: &[u8], now: u64) {
        let Some(session) = self.sessions[index as usize].as_deref_mut() else { return };
        let lane = &mut session.lanes[to.index()];
        let may_wait = lane.len() < MAX_HELD && datagram.len() <= MAX_LEN;
        let Some(copy) = may_wait.then(|| self.queues.copy(datagram)).flatten() else {
            self.refusals.no_address += 1;
            return;
        };
        if lane.is_empty() {
            self.queues.schedule_end(index, session.generation, to, now + HELD_FOR);
        }
        lane.push(copy, mark, &mut self.queues.slab);
    }

    /// A side has shown where it is: what waits for that may go.
    fn release_held(&mut self, index: u32, to: Side, now: u64) {
        let Some(session) = self.sessions[index as usize].as_deref() else { return };
        if !session.lanes[to.index()].is_empty() {
            self.queues.schedule(index, session.generation, to, now);
        }
    }

    /// What waits for a side that does not show where it is goes nowhere.
    fn drop_held(&mut self, index: u32, to: Side, now: u64) {
        let Some(session) = self.sessions[index as usize].as_deref_mut() else { return };
        while let Some(buffer) = session.lanes[to.index()].pop(now, &mut self.queues.slab) {
            self.queues.recycle(buffer);
            self.refusals.no_address += 1;
        }
    }

    /// Sends what is first in a lane, unless it has to wait on.
    fn take_turn(&mut self, turn: Turn, now: u64) -> Option<(Address, PacketBuf, Range<usize>)> {
        let Turn { session: index, generation, to, .. } = turn;
        let session = self.sessions.get_mut(index as usize)?.as_deref_mut()?;
        if session.generation != generation || session.lanes[to.index()].is_empty() {
            return None;
        }
        if turn.why == Why::Held {
            if session.ends[to.index()].address.is_none() {
                self.drop_held(index, to, now);
            }
            return None;
        }
        let due = ready_at(session, to, &self.total, now);
        if due > now {
            self.queues.put_off(turn, due);
            return None;
        }
        let mut buffer = session.lanes[to.index()].pop(now, &mut self.queues.slab)?;
        take(session, to, &self.total, buffer.packet(), now);
        if !session.lanes[to.index()].is_empty() {
            let due = ready_at(session, to, &self.total, now).max(now);
            self.queues.schedule(index, generation, to, due);
        }
        let end = &mut session.ends[to.index()];
        // Known before its first turn to be sent, and an address is never forgotten.
        let address = end.address?;
        let all = buffer.len();
        let sent = end.dress(buffer.packet_mut()).len();
        Some((address, buffer, all - sent..all))
    }
}

/// When the next datagram to that side may go: as the session's rate, the site's and the relay's allow.
fn ready_at(session: &Session, to: Side, total: &Limiter, now: u64) -> u64 {
    let site = &session.ticket.account().limits[to.index()];
    let limiters = [&session.lanes[to.index()].limiter, site, total];
    limiters.into_iter().map(|limiter| limiter.ready_at(now)).max().unwrap_or(now)
}

/// Counts a datagram that goes to that side.
fn take(session: &mut Session, to: Side, total: &Limiter, datagram: &[u8], now: u64) {
    let (lane, bytes) = (&mut session.lanes[to.index()], datagram.len());
    lane.count(bytes);
    count(&mut lane.handed_on, hop_marks(datagram));
    lane.limiter.take(bytes, now);
    session.ticket.account().limits[to.index()].take(bytes, now);
    total.take(bytes, now);
}
