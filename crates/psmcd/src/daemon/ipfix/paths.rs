//! What paths have carried since they were last told.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_core::{ClassShare, PathStatus, PeerId, PeerStatus};
use psmc_wire::PathId;

use super::elements::{Carried, PathRow, ShareRow};
use super::encoder::Record;
use crate::daemon::status::path_state;

/// Peers of which the data plane tells at once: with 64 paths each, and classes on those, some 1500 records.
const PEERS_AT_A_TIME: usize = 4;

/// All paths of all peers, told in turn.
#[derive(Debug)]
pub(super) struct Paths {
    interval: Duration,
    next_round: Instant,
    /// Those that are still to be told in this round.
    round: VecDeque<PeerId>,
    before: BTreeMap<(PeerId, PathId), Before>,
}

/// What was told last.
#[derive(Debug, Default)]
struct Before {
    sent: Carried,
    received: Carried,
    lost_packets: u64,
    resent_packets: u64,
    dropped_packets: u64,
    classes: Vec<ClassShare>,
}

impl Paths {
    /// All paths are told once in this time.
    pub(super) fn new(interval: Duration, now: Instant) -> Self {
        Self { interval, next_round: now + interval, round: VecDeque::new(), before: BTreeMap::new() }
    }

    /// The peers that are next to be told of, of all that there are.
    pub(super) fn due(&mut self, all: impl FnOnce() -> Vec<PeerId>, now: Instant) -> Vec<PeerId> {
        if self.round.is_empty() && self.next_round <= now {
            self.next_round = now + self.interval;
            self.round = all().into();
            self.before.retain(|(peer, _), _| self.round.contains(peer));
        }
        self.round.drain(..self.round.len().min(PEERS_AT_A_TIME)).collect()
    }

    /// The records of the paths of a peer.
    pub(super) fn records(&mut self, id: PeerId, status: &PeerStatus, at_ms: u64) -> Vec<Record> {
        let peer: Arc<str> = Arc::from(status.name.as_str());
        let is_there = |path: PathId| status.paths.iter().any(|other| other.id == path);
        self.before.retain(|(peer, path), _| *peer != id || is_there(*path));
        let mut records = Vec::new();
        for path in &status.paths {
            let before = self.before.entry((id, path.id)).or_default();
            let row = row_of(path, before, &peer, at_ms);
            let shares =
                status.classes.iter().zip(&path.classes).zip(before.classes.iter().copied().chain(empty()));
            let of_class = shares.map(|((class, share), before)| share_of(&row, &class.name, *share, before));
            let is_carried = |row: &ShareRow| row.sent.packets + row.received.packets > 0;
            records.extend(of_class.filter(is_carried).map(Record::Share));
            records.push(Record::Path(row));
            *before = Before::of(path);
        }
        records
    }
}

impl Before {
    fn of(path: &PathStatus) -> Self {
        let (sent, received) = carried(path);
        Self {
            sent,
            received,
            lost_packets: path.counters.lost_packets,
            resent_packets: path.counters.resent_packets,
            dropped_packets: path.counters.dropped_packets,
            classes: path.classes.clone(),
        }
    }
}

fn empty() -> impl Iterator<Item = ClassShare> {
    std::iter::repeat(ClassShare::default())
}

fn carried(path: &PathStatus) -> (Carried, Carried) {
    let sent = Carried { packets: path.counters.tx_packets, bytes: path.counters.tx_bytes };
    (sent, Carried { packets: path.received.packets, bytes: path.received.bytes })
}

/// How much a counter has grown: all that it says, if it has begun anew.
fn grown(now: u64, before: u64) -> u64 {
    now.checked_sub(before).unwrap_or(now)
}

fn grown_by(now: Carried, before: Carried) -> Carried {
    Carried { packets: grown(now.packets, before.packets), bytes: grown(now.bytes, before.bytes) }
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a share of 1 has a million millionths"
)]
fn row_of(path: &PathStatus, before: &Before, peer: &Arc<str>, at_ms: u64) -> PathRow {
    let (sent, received) = carried(path);
    let round_trip = path.rtt.map_or(Duration::ZERO, |(smoothed, _)| smoothed);
    PathRow {
        peer: Arc::clone(peer),
        path: Arc::from(path.name.as_str()),
        is_opened_here: path.opened_here,
        at_ms,
        state: path_state(path).to_string(),
        sent: grown_by(sent, before.sent),
        received: grown_by(received, before.received),
        lost_packets: grown(path.counters.lost_packets, before.lost_packets),
        resent_packets: grown(path.counters.resent_packets, before.resent_packets),
        dropped_packets: grown(path.counters.dropped_packets, before.dropped_packets),
        round_trip_us: u32::try_from(round_trip.as_micros()).unwrap_or(u32::MAX),
        loss_ppm: (path.loss.clamp(0.0, 1.0) * 1e6) as u32,
        rate: path.rate.unwrap_or_default(),
    }
}

fn share_of(path: &PathRow, class: &str, share: ClassShare, before: ClassShare) -> ShareRow {
    let sent = |share: ClassShare| Carried { packets: share.sent_packets, bytes: share.sent_bytes };
    let received =
        |share: ClassShare| Carried { packets: share.received_packets, bytes: share.received_bytes };
    ShareRow {
        path: path.clone(),
        class: Arc::from(class),
        sent: grown_by(sent(share), sent(before)),
        received: grown_by(received(share), received(before)),
    }
}
