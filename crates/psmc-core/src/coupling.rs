//! Paths that share a bottleneck, and what they may send there together.
//!
//! Each path has a congestion controller of its own, so that several of them over one link would take several shares
//! there. RFC 6356 and RFC 8382 ask that they take one flow's. So paths whose queues are [alike](likeness) form a
//! [`Group`], for which one further controller finds what one flow would get; its members divide that between them.
//!
//! What is configured (one uplink, one relay) proves nothing: behind one uplink there may be two bottlenecks, and one
//! behind two. It only makes the proof shorter.

mod group;
mod likeness;

use std::collections::BTreeMap;
use std::time::Instant;

use psmc_wire::PathId;

use crate::path::{Path, PathState};
use crate::roster::Roster;
use group::Group;
use likeness::{Length, Likeness, Queue, SLOT};

/// Which paths of a session share bottlenecks.
///
/// Tell it of each acknowledgement by [`on_ack`](Self::on_ack), once the path has taken it; that is all it needs.
#[derive(Debug, Default)]
pub(crate) struct Coupling {
    queues: BTreeMap<PathId, Queue>,
    /// By the smaller id and the larger one.
    pairs: BTreeMap<(PathId, PathId), Likeness>,
    groups: Vec<Group>,
    /// The number of the present slot, and when it ends.
    slot: u64,
    slot_ends: Option<Instant>,
}

impl Coupling {
    /// The path at `index` has been acknowledged something.
    pub(crate) fn on_ack(&mut self, paths: &mut Roster, index: usize, now: Instant) {
        let id = paths[index].id;
        let feedback = paths[index].take_feedback();
        let slot_ends = *self.slot_ends.get_or_insert(now + SLOT);
        let queue = self.queues.entry(id).or_default();
        queue.on_acked(feedback.sample.acked_bytes);
        if let Some((delay, left)) = feedback.delay {
            queue.on_sample(delay, self.slot, slot_ends.saturating_duration_since(left));
        }
        if let Some(group) = self.groups.iter_mut().find(|group| group.has(id)) {
            group.on_feedback(paths, id, &feedback, now);
        }
        if slot_ends <= now {
            self.end_slot(paths, now);
        }
    }

    /// The number of the group that a path belongs to.
    pub(crate) fn group_of(&self, id: PathId) -> Option<usize> {
        self.groups.iter().position(|group| group.has(id))
    }

    /// Draws the conclusions from a slot. While nothing is acknowledged none ends.
    fn end_slot(&mut self, paths: &mut Roster, now: Instant) {
        self.slot += 1;
        self.slot_ends = Some(now + SLOT);
        // What a dead path has shared it may not share when it is back: that is to be shown anew.
        self.queues.retain(|id, _| find(paths, *id).is_some_and(|path| path.state() != PathState::Dead));
        self.pairs.retain(|(a, b), _| self.queues.contains_key(a) && self.queues.contains_key(b));
        for queue in self.queues.values_mut() {
            queue.begin_slot(self.slot);
        }
        let mut changed = self.groups.iter().any(|group| !group.is_whole(paths)) || self.leaves_out(paths);
        let settled = |path: &Path| self.queues.get(&path.id)?.settled(self.slot);
        let settled: Vec<_> = paths.iter().filter_map(|path| Some((path, settled(path)?))).collect();
        for (at, a) in settled.iter().enumerate() {
            for b in &settled[at + 1..] {
                changed |= self.compare(*a, *b);
            }
        }
        if changed {
            self.regroup(paths, now);
        }
        for group in &mut self.groups {
            group.divide(&self.queues);
        }
    }

    /// Whether a path that belongs to a group is in none: it was silent for a moment, and what is thought of its queue has
    /// not changed meanwhile.
    fn leaves_out(&self, paths: &[Path]) -> bool {
        let working = |id| find(paths, id).filter(|path| may_join(path));
        let is_alone = |id| self.group_of(id).is_none();
        let mut shared =
            self.pairs.iter().filter(|(_, likeness)| likeness.is_shared()).map(|(pair, _)| *pair);
        shared.any(|(a, b)| {
            (is_alone(a) || is_alone(b))
                && working(a).is_some()
                && working(b).is_some_and(|path| self.are_together(paths, a, path))
        })
    }

    /// Compares the queues of two paths; says whether that changes what is thought of them.
    fn compare(&mut self, (a, length_a): (&Path, Length), (b, length_b): (&Path, Length)) -> bool {
        let relay = a.first_hop.relay();
        let hinted =
            a.address.socket == b.address.socket || (relay.is_some() && relay == b.first_hop.relay());
        self.pairs.entry((a.id, b.id)).or_default().on_slot((length_a, length_b), hinted)
    }

    /// Forms the groups anew. One that keeps most of its members goes on.
    fn regroup(&mut self, paths: &mut Roster, now: Instant) {
        let mut before = std::mem::take(&mut self.groups);
        for members in self.components(paths) {
            let kept = before.iter().position(|group| group.is_mostly(&members));
            let group = match kept {
                Some(at) => before.swap_remove(at).with_members(members),
                None => Group::new(members, paths, &self.queues, now),
            };
            self.groups.push(group);
        }
        for index in 0..paths.len() {
            if paths[index].is_coupled() && self.group_of(paths[index].id).is_none() {
                paths[index].uncouple(now);
            }
        }
    }

    /// Sets of paths that are connected by being alike, of two paths at least.
    fn components(&self, paths: &[Path]) -> Vec<Vec<PathId>> {
        let mut components: Vec<Vec<PathId>> = Vec::new();
        for path in paths.iter().filter(|path| may_join(path)) {
            let joins = |members: &Vec<PathId>| members.iter().any(|id| self.are_together(paths, *id, path));
            let (joined, mut others): (Vec<_>, Vec<_>) = components.into_iter().partition(joins);
            others.push(joined.into_iter().flatten().chain([path.id]).collect());
            components = others;
        }
        components.retain(|members| members.len() > 1);
        components
    }

    fn are_together(&self, paths: &[Path], id: PathId, path: &Path) -> bool {
        let same_kind =
            find(paths, id).is_some_and(|other| other.config.congestion == path.config.congestion);
        same_kind && self.pairs.get(&(id.min(path.id), id.max(path.id))).is_some_and(Likeness::is_shared)
    }
}

/// Only what works is worth dividing, and a rate that a person has set is not to be changed.
fn may_join(path: &Path) -> bool {
    path.state() == PathState::Active && !path.config.congestion.is_fixed()
}

/// The place of a path among those of a session, which are sorted by id.
fn find(paths: &[Path], id: PathId) -> Option<&Path> {
    paths.binary_search_by_key(&id, |path| path.id).ok().map(|index| &paths[index])
}
