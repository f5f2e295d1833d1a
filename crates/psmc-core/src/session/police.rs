//! Flows that heed no loss, in a session. The peer's acknowledgements say what of each arrives, and this site's queue and paths
//! what is dropped: the report of each round trip that the seed's far end would send (QoS §5.2) is on its way already, for each
//! packet and not for each aggregate, and no peer can say more or less than what it has acknowledged.

use std::time::Instant;

use rand_core::Rng;

use super::Session;
use crate::classify::{ClassId, Classified};
use crate::egress::{Queued, Role};
use crate::path::Path;
use crate::police::{AggregateStatus, Candidate, Kind, Marked, Police, PoliceCounters, Verdict};
use crate::shared::Shared;

impl Session {
    /// Judges flows as the site is configured, and knows nothing of any.
    pub(crate) fn set_police(&mut self, shared: &Shared) {
        let secret = || shared.rng.clone().next_u64();
        self.police = shared.police.map(|config| Box::new(Police::new(config, secret())));
        self.egress.tell_losses(self.police.is_some());
    }

    /// Those that are watched.
    pub(crate) fn aggregates(&self) -> Vec<AggregateStatus> {
        self.police.iter().flat_map(|police| police.aggregates()).collect()
    }

    /// These are suspected from now on. Nothing comes of it while nobody is to be held down.
    pub(crate) fn suspect(&mut self, candidates: &[Candidate]) {
        if let Some(police) = &mut self.police {
            police.set_candidates(candidates);
        }
    }

    /// What was counted of them; `None` if nobody is judged.
    pub(crate) fn police_counters(&self) -> Option<PoliceCounters> {
        self.police.as_ref().map(|police| police.counters())
    }

    /// What a packet that wants to pass is taken for; `None` if it must not.
    pub(super) fn offer(
        &mut self,
        headers: &Classified,
        quic: bool,
        class: ClassId,
        len: usize,
        now: Instant,
    ) -> Option<Marked> {
        let kind = match (headers.is_udp(), quic || headers.ordered) {
            (false, _) => Kind::Tcp,
            (true, true) => Kind::Quic,
            (true, false) => Kind::Plain,
        };
        let marked = Marked { kind, ..Marked::default() };
        let Some(police) = self.police.as_mut().filter(|police| !police.is_idle()) else {
            return Some(marked);
        };
        match police.offer(&marked.facts(headers, headers.bucket, class), len, now) {
            Verdict::Pass(tag) => Some(Marked { tag, kind }),
            Verdict::Drop => None,
        }
    }

    /// Tells the police what was dropped of late.
    pub(super) fn note_drops(&mut self, now: Instant) {
        let Some(police) = &mut self.police else { return };
        for loss in self.egress.losses() {
            police.on_dropped(&loss.facts, loss.tag, loss.bytes, now);
        }
    }

    /// Judges what the last round trip has shown, if that is due.
    pub(super) fn judge_flows(&mut self, shared: &mut Shared, now: Instant) {
        self.note_drops(now);
        let round_trip = self.paths.iter().filter(|path| path.rank().is_some()).map(Path::smoothed_rtt).min();
        let Some(police) = &mut self.police else { return };
        if !police.end_round(round_trip, now) {
            return;
        }
        let losses: Vec<_> = police.take_losses().collect();
        shared.losses.extend(losses.into_iter().filter_map(|(mut entry, newest)| {
            entry.aggregate.destinations = Some(self.leads_to(&entry.aggregate, &newest)?);
            Some((self.peer, entry))
        }));
    }
}

/// Tells the police of a packet that has arrived.
pub(super) fn note_arrival(police: &mut Option<Box<Police>>, packet: &Queued) {
    if let (Some(police), Role::Packet(_)) = (police, packet.role) {
        police.on_delivered(packet.marked.tag, packet.packet.len());
    }
}
