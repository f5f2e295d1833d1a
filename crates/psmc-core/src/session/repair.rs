//! What a session sends beside its packets, so that losses can be made good, and what it makes of that at the far end.

use std::time::{Duration, Instant};

use psmc_wire::PathId;
use psmc_wire::frame::RepairFrame;
use psmc_wire::ip::transport::Checksum;

use super::Session;
use super::receive::{Inner, Refusal};
use crate::classify::{ClassId, RepairKind};
use crate::egress::{Queued, Role};
use crate::flows::FlowRef;
use crate::path::{Path, nanos};
use crate::police::Marked;
use crate::repair::{Demand, Extra, PathReport, Place, RECOVERY_TIME};
use crate::roster::Places;
use crate::shared::Shared;

/// A packet that has waited for a quarter of a round trip shows that the paths have no room to spare. Bursts of inner
/// senders wait, too, but not for so long where paths could carry more.
const WAITS_PER_ROUND_TRIP: u32 = 4;

/// A path that is so many times slower than another one carries no copies of what goes there.
const COPIED_SHARE: u64 = 8;

/// Whether a packet of `bytes` is of use on `path` as a copy.
fn meets(path: &Path, demand: Demand, bytes: usize, now: Instant) -> bool {
    path.expected_rate() >= demand.least && path.arrival(bytes, now) <= demand.longest
}

impl Session {
    /// Prepares what repairs `packet`, which is sent for the first time, if the path at `index`, which takes it, loses it.
    /// That is done before the packet is cut for its path: its parts have been protected as a whole.
    pub(super) fn protect(
        &mut self,
        index: usize,
        packet: &Queued,
        alone: bool,
        shared: &mut Shared,
        now: Instant,
    ) {
        let Role::Packet(kind) = packet.role else { return };
        let avoid = self.paths[index].id;
        if matches!(kind, RepairKind::Auto | RepairKind::Fec) {
            self.note_losses(now);
        }
        if alone && kind == RepairKind::Auto && self.follow_by_early_copy(index, packet, shared, now) {
            return;
        }
        match kind {
            RepairKind::Duplicate if self.paths.way(packet.class).all().len() > 1 => {
                self.follow_by_copy(packet, avoid, None, shared, now);
            }
            RepairKind::Fec => self.follow_by_repairs(packet, avoid, shared, now),
            RepairKind::Auto
                if !shared.classes.is_strict(packet.class) && self.is_worth_repairs(index, packet, now) =>
            {
                self.follow_by_repairs(packet, avoid, shared, now);
            }
            RepairKind::Auto | RepairKind::Resend | RepairKind::Duplicate | RepairKind::Off => {}
        }
    }

    /// Whether a packet should be followed by repairs although it is sent again if it is lost: they are there a round trip
    /// earlier, for which an ordered flow need not wait then. They are for what paths have room for beside the packets
    /// themselves, and those that have waited long show that there is none.
    fn is_worth_repairs(&self, index: usize, packet: &Queued, now: Instant) -> bool {
        let path = &self.paths[index];
        let waited = now.saturating_duration_since(packet.queued_at);
        self.coder.is_lossy(path.id)
            && packet.packet.checksum() == Checksum::Complete
            && waited < path.smoothed_rtt() / WAITS_PER_ROUND_TRIP
    }

    /// Has a packet alone, for which nothing waits, leave on a second path as well, if it arrives there before it could be sent
    /// again; says whether it does. Paths that lose some, or whose delays vary, seldom do so at the same moment.
    fn follow_by_early_copy(
        &mut self,
        index: usize,
        packet: &Queued,
        shared: &mut Shared,
        now: Instant,
    ) -> bool {
        if packet.ordered || !self.config.scheduler.spreads_flows() {
            return false;
        }
        let (path, bytes) = (&self.paths[index], packet.packet.len());
        let (avoid, again) = (path.id, nanos(path.smoothed_rtt()));
        let longest = path.arrival(bytes, now).saturating_add(again);
        let demand = Demand { longest, least: path.expected_rate() / COPIED_SHARE };
        let rate = self.paths.service(now).rate;
        let suits = |other: usize| other != index && meets(&self.paths[other], demand, bytes, now);
        let candidates = self.paths.way(packet.class).candidates;
        let is_worth = candidates.iter().any(suits) && self.copies.admits(bytes, rate, now);
        if is_worth {
            self.follow_by_copy(packet, avoid, Some(demand), shared, now);
        }
        is_worth
    }

    fn follow_by_copy(
        &mut self,
        packet: &Queued,
        avoid: PathId,
        demand: Option<Demand>,
        shared: &mut Shared,
        now: Instant,
    ) {
        let queued = packet.copy(packet.role.is_resent(), &mut shared.pool);
        self.extras.push(Extra { queued, avoid, demand, since: now }, &mut shared.pool);
    }

    fn follow_by_repairs(&mut self, packet: &Queued, path: PathId, shared: &mut Shared, now: Instant) {
        if self.coder.add(packet, path, now) {
            self.close_group(shared, now);
        }
    }

    /// Looks at what paths lose, from time to time.
    fn note_losses(&mut self, now: Instant) {
        if self.coder.is_outdated(now) {
            let usable = self.paths.iter().filter(|path| path.rank().is_some());
            let reports = usable.map(|path| {
                let (lost, acked) = (path.counters.lost_packets, path.counters.acked_packets);
                let round_trip = path.smoothed_rtt();
                PathReport { path: path.id, lost, settled: lost + acked, round_trip }
            });
            self.coder.learn(reports, now);
        }
    }

    /// Ends the group of packets that is being sent, and lets its repairs wait for paths.
    pub(super) fn close_group(&mut self, shared: &mut Shared, now: Instant) {
        let usable = || self.paths.iter().filter(|path| path.rank().is_some());
        let fits = |body| usable().all(|path| path.fits(body));
        // A packet that completes its group has its turn next.
        let (extras, turn) = (&mut self.extras, self.turns + 1);
        let precedence = shared.conditioners.precedence_of_repairs();
        let send = |repair: crate::repair::Repair<'_>| {
            let mut packet = shared.pool.take();
            packet.fill(repair.body);
            let (bucket, seq) = (repair.place.bucket, repair.place.seq());
            let queued = Queued {
                packet,
                part: None,
                bucket,
                class: ClassId::default(),
                seq: Some(seq),
                ordered: false,
                role: Role::Repair,
                marked: Marked::default(),
                precedence,
                queued_at: now,
                turn: 0,
                flow: FlowRef::default(),
            };
            let extra = Extra { queued, avoid: repair.avoid, demand: None, since: now };
            extras.hold(extra, turn, &mut shared.pool);
        };
        self.coder.close(fits, send);
    }

    /// Gives extras to paths that have room, each to the one where it arrives first, if it can not to the one to avoid.
    ///
    /// Copies of what one path carries keep their order, however short: the peer takes what it misses for lost once something
    /// sent later has come by each path, and the packets themselves may still wait in theirs. For the same reason repairs leave after
    /// the packets that they repair.
    pub(super) fn place_extras(&mut self, shared: &mut Shared, now: Instant) {
        let (mut at, mut waited_for) = (0, Places::default());
        self.extras.release(|| self.paths.first_turn(), now);
        while let Some(extra) = self.extras.get(at) {
            let (paths, bytes) = (&self.paths, extra.queued.packet.len());
            let original = paths.index_of(extra.avoid).filter(|_| extra.queued.role != Role::Repair);
            if original.is_some_and(|index| waited_for.contains(index)) {
                at += 1;
                continue;
            }
            let suits = |index: &usize| {
                let path = &paths[*index];
                let fits = extra.queued.role != Role::Repair || path.fits(bytes);
                let is_of_use = || extra.demand.is_none_or(|demand| meets(path, demand, bytes, now));
                extra.may_take(path.id) && fits && path.has_room(bytes, now) && is_of_use()
            };
            // What is copied in case it is lost is no reason to use what is spared.
            let is_precaution = extra.demand.is_some();
            let usable = match extra.queued.role {
                // Of packets of several classes.
                Role::Repair => paths.menders(),
                Role::Packet(_) | Role::Copy { .. } if is_precaution => {
                    paths.way(extra.queued.class).candidates
                }
                Role::Packet(_) | Role::Copy { .. } | Role::Stream(_) | Role::StreamControl(_) => {
                    paths.way(extra.queued.class).all()
                }
            };
            let suitable = usable.iter().filter(suits);
            let merit = |&index: &usize| (paths[index].id == extra.avoid, paths[index].arrival(bytes, now));
            let Some(index) = suitable.min_by_key(merit) else {
                if let Some(original) = original {
                    waited_for.insert(original);
                }
                at += 1;
                continue;
            };
            let Some(Extra { queued, .. }) = self.extras.take(at) else { return };
            let counters = &mut self.counters.repair;
            let sent =
                if queued.role == Role::Repair { &mut counters.tx_repairs } else { &mut counters.tx_copies };
            *sent += 1;
            self.enqueue_cut(index, queued, shared, now);
        }
    }

    /// Forgets all that names places in the order of buckets.
    pub(super) fn forget_repairs(&mut self, shared: &mut Shared) {
        self.extras.clear(&mut shared.pool);
        self.coder.clear();
        self.decoder.clear(&mut shared.pool);
    }

    /// A packet of the peer has arrived; with it others may be recovered.
    pub(super) fn remember(&mut self, inner: &Inner, shared: &mut Shared, now: Instant) {
        if self.decoder.is_active(now) {
            let packet = (Place::new((inner.bucket, inner.seq)), inner.ordered, inner.packet.packet());
            self.decoder.on_packet(packet, &mut self.scratch.recovered, &mut shared.pool, now);
        }
    }

    pub(super) fn on_repair(
        &mut self,
        index: usize,
        frame: &RepairFrame<'_>,
        sent_at_us: u32,
        shared: &mut Shared,
        now: Instant,
    ) -> Result<(), Refusal> {
        self.counters.repair.rx_repairs += 1;
        let fits = self.decoder.on_repair(frame, &mut self.scratch.recovered, &mut shared.pool, now);
        self.deliver_recovered(index, sent_at_us, shared, now);
        if fits { Ok(()) } else { Err(Refusal::Malformed) }
    }

    /// Takes what has been recovered as if it had come on the path at `index`.
    pub(super) fn deliver_recovered(
        &mut self,
        index: usize,
        sent_at_us: u32,
        shared: &mut Shared,
        now: Instant,
    ) {
        if self.scratch.recovered.is_empty() {
            return;
        }
        let mut recovered = std::mem::take(&mut self.scratch.recovered);
        for found in recovered.drain(..) {
            let (bucket, seq) = (found.place.bucket, found.place.seq());
            let (ordered, packet) = (found.ordered, found.packet);
            // It was sent like the packets around it.
            let patience = self.peer_patience;
            let inner = Inner { bucket, seq, ordered, packet, patience, is_recovered: true };
            // The packets of a peer that computes with false ones are refused like any others.
            if let Ok(inner) = self.check(inner, shared) {
                self.accept(index, inner, sent_at_us, shared, now);
                self.counters.repair.recovered += 1;
            }
        }
        self.scratch.recovered = recovered;
    }

    /// How much longer than for the slowest path it is worth waiting for what is missing.
    pub(super) fn patience(&self, is_resent: bool, now: Instant) -> Duration {
        if is_resent {
            self.waiting.repair
        } else if self.decoder.is_active(now) {
            RECOVERY_TIME
        } else {
            Duration::ZERO
        }
    }
}
