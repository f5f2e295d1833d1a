//! The sender's side of `fec`: groups of packets, and what repairs them.

use std::time::{Duration, Instant};

use psmc_wire::PathId;
use psmc_wire::frame::{MAX_CELLS, MAX_RUNS, RepairFrame, Run};
use reed_solomon_simd::ReedSolomonEncoder;

use super::Place;
use super::plan::{Losses, MAX_GROUP, PathReport, Plan};
use super::trial::Trial;
use crate::egress::Queued;

/// A group ends when its first packet is this old, however few there are: a repair of a thin stream is this late.
pub(crate) const MAX_GROUP_AGE: Duration = Duration::from_millis(10);

/// Losses change slowly, and a plan costs some ten thousand multiplications.
const LEARN_INTERVAL: Duration = Duration::from_millis(100);

/// The mean time between packets is that of some thirty of them.
const INTERVAL_GAIN: u32 = 16;

/// Longer packets are not coded: the highest bit of a record's length says something else.
const MAX_RECORD: usize = 0x7fff;

/// A repair that is ready to be sent.
pub(crate) struct Repair<'a> {
    /// The place of the first packet of its group.
    pub(crate) place: Place,
    /// The frame behind that.
    pub(crate) body: &'a [u8],
    /// The path that has carried the most of the group.
    pub(crate) avoid: PathId,
}

/// Collects packets as they leave, and computes their repairs.
#[derive(Default)]
pub(crate) struct Coder {
    /// Made with the first group.
    encoder: Option<ReedSolomonEncoder>,
    members: Vec<Member>,
    /// Their records, one after the other.
    records: Vec<u8>,
    carriers: Vec<(PathId, usize)>,
    opened_at: Option<Instant>,
    next_group: u16,
    last_at: Option<Instant>,
    /// The mean time between two packets.
    interval: Duration,
    /// Of the losses as they were last looked at; made with the first packet since.
    plan: Option<Plan>,
    losses: Losses,
    trial: Trial,
    looked_at: Option<Instant>,
    runs: Vec<Run>,
    shard: Vec<u8>,
    body: Vec<u8>,
}

#[derive(Clone, Copy, Debug)]
struct Member {
    place: Place,
    /// Where its record begins and ends.
    from: usize,
    to: usize,
}

impl Coder {
    /// Adds a packet that leaves on `path`. Says whether the group is complete and should be [closed](Self::close).
    pub(crate) fn add(&mut self, packet: &Queued, path: PathId, now: Instant) -> bool {
        let (Some(seq), bytes) = (packet.seq, packet.packet.packet()) else { return false };
        let Some(len) = u16::try_from(bytes.len()).ok().filter(|len| usize::from(*len) <= MAX_RECORD) else {
            return false;
        };
        let from = self.records.len();
        let unordered = if packet.ordered { 0 } else { super::UNORDERED };
        self.records.extend_from_slice(&(len | unordered).to_be_bytes());
        self.records.extend_from_slice(bytes);
        self.members.push(Member { place: Place::new((packet.bucket, seq)), from, to: self.records.len() });
        match self.carriers.iter_mut().find(|(carrier, _)| *carrier == path) {
            Some((_, count)) => *count += 1,
            None => self.carriers.push((path, 1)),
        }
        self.opened_at.get_or_insert(now);
        self.note_arrival(now);
        let (losses, reach) = (&self.losses, self.reach());
        let plan = self.plan.get_or_insert_with(|| Plan::new(losses.of_packets(), losses.of_repairs()));
        let size = plan.group_size(reach);
        self.members.len() >= size || self.members.len() >= MAX_GROUP
    }

    /// When the group must be closed, if there is one.
    pub(crate) fn due_at(&self) -> Option<Instant> {
        self.opened_at.map(|at| at + MAX_GROUP_AGE)
    }

    /// Ends the group, and hands its repairs to `send`; `fits` tells whether a frame with so long a body fits into a datagram.
    pub(crate) fn close(&mut self, fits: impl Fn(usize) -> bool, mut send: impl FnMut(Repair<'_>)) {
        self.members.sort_unstable_by_key(|member| member.place);
        self.find_runs();
        if let (Some(plan), Some(cells)) = (&self.plan, self.find_cells(fits)) {
            let repairs = self.trial.share(plan.repairs(self.members.len())).saturating_mul(cells);
            let avoid = self.carriers.iter().max_by_key(|(_, count)| *count).map(|(path, _)| *path);
            if let Some(avoid) = avoid {
                self.encode(cells, repairs, |place, body| send(Repair { place, body, avoid }));
                self.next_group = self.next_group.wrapping_add(1);
            }
        }
        self.clear();
    }

    /// Forgets the group.
    pub(crate) fn clear(&mut self) {
        self.members.clear();
        self.records.clear();
        self.carriers.clear();
        self.opened_at = None;
    }

    /// Whether it is time to look at [losses](Self::learn) again.
    pub(crate) fn is_outdated(&self, now: Instant) -> bool {
        self.looked_at.is_none_or(|at| now >= at + LEARN_INTERVAL)
    }

    /// Looks at what paths lose, for the size of groups and the number of their repairs.
    pub(crate) fn learn(&mut self, paths: impl Iterator<Item = PathReport>, now: Instant) {
        self.losses.update(paths);
        self.trial.note(self.losses.news(), now);
        (self.plan, self.looked_at) = (None, Some(now));
    }

    /// Whether a path loses more than a little.
    pub(crate) fn is_lossy(&self, path: PathId) -> bool {
        self.losses.is_lossy(path)
    }

    /// Whether any path does.
    pub(crate) fn is_any_lossy(&self) -> bool {
        self.losses.is_any_lossy()
    }

    /// Measures how fast packets come.
    fn note_arrival(&mut self, now: Instant) {
        let gap = now.saturating_duration_since(self.last_at.unwrap_or(now)).min(2 * MAX_GROUP_AGE);
        self.interval = (self.interval * (INTERVAL_GAIN - 1) + gap) / INTERVAL_GAIN;
        self.last_at = Some(now);
    }

    /// How many packets come in the time that a group may take.
    fn reach(&self) -> usize {
        let more = MAX_GROUP_AGE.as_micros() / self.interval.as_micros().max(1);
        usize::try_from(more).map_or(MAX_GROUP, |more| (more + 1).min(MAX_GROUP))
    }

    fn find_runs(&mut self) {
        self.runs.clear();
        for member in &self.members {
            let (bucket, seq) = (member.place.bucket, member.place.seq());
            match self.runs.last_mut() {
                Some(run) if run.bucket == bucket && run.first.plus(run.count.into()) == seq => {
                    run.count += 1
                }
                Some(_) | None => self.runs.push(Run { bucket, first: seq, count: 1 }),
            }
        }
    }

    /// The fewest shards that a record must be cut into so that a repair fits into a datagram.
    fn find_cells(&self, fits: impl Fn(usize) -> bool) -> Option<u8> {
        if self.runs.is_empty() || self.runs.len() > MAX_RUNS {
            return None;
        }
        (1..=MAX_CELLS).find(|&cells| fits(RepairFrame::body_len(self.runs.len(), self.shard_len(cells))))
    }

    /// Bytes of a shard: even, as the code demands.
    fn shard_len(&self, cells: u8) -> usize {
        let longest = self.members.iter().map(|member| member.to - member.from).max().unwrap_or_default();
        longest.div_ceil(usize::from(cells)).next_multiple_of(2)
    }

    fn encode(&mut self, cells: u8, repairs: u8, mut send: impl FnMut(Place, &[u8])) {
        let len = self.shard_len(cells);
        let originals = self.members.len() * usize::from(cells);
        let Some(encoder) = prepared(&mut self.encoder, originals, repairs.into(), len) else { return };
        for member in &self.members {
            let record = &self.records[member.from..member.to];
            for cell in 0..usize::from(cells) {
                super::cut_cell(record, cell, len, &mut self.shard);
                if encoder.add_original_shard(&self.shard).is_err() {
                    return;
                }
            }
        }
        let (Ok(result), Some(first)) = (encoder.encode(), self.members.first()) else { return };
        for (index, shard) in (0..repairs).zip(result.recovery_iter()) {
            RepairFrame::write_body(
                &mut self.body,
                self.next_group,
                (index, repairs),
                cells,
                &self.runs,
                shard,
            );
            send(first.place, &self.body);
        }
    }
}

/// The encoder, ready for a group of this shape; it takes every shape that there can be.
fn prepared(
    encoder: &mut Option<ReedSolomonEncoder>,
    originals: usize,
    repairs: usize,
    len: usize,
) -> Option<&mut ReedSolomonEncoder> {
    if let Some(encoder) = encoder {
        encoder.reset(originals, repairs, len).ok()?;
    } else {
        *encoder = ReedSolomonEncoder::new(originals, repairs, len).ok();
    }
    encoder.as_mut()
}

impl std::fmt::Debug for Coder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { members, opened_at, next_group, interval, plan, .. } = self;
        f.debug_struct("Coder")
            .field("members", members)
            .field("opened_at", opened_at)
            .field("next_group", next_group)
            .field("interval", interval)
            .field("plan", plan)
            .finish_non_exhaustive()
    }
}
