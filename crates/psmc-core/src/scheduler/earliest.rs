//! `earliest`: the path on which the packet arrives first.

use std::time::Instant;

use super::{Choice, Scheduler};
use crate::egress::Queued;
use crate::path::Path;

/// Of the paths that have room, the one with the earliest arrival.
///
/// Paths are paced and windowed, so that a path with room has next to no queue of ours: while there is little
/// to send, everything takes the nearest path, and a backlog fills one path after the other to its rate.
#[derive(Debug)]
pub(super) struct Earliest;

impl Scheduler for Earliest {
    fn choose(&mut self, paths: &[Path], candidates: &[usize], packet: &Queued, now: Instant) -> Choice {
        let bytes = packet.packet.len();
        let with_room = candidates.iter().copied().filter(|&index| paths[index].has_room(bytes, now));
        with_room.min_by_key(|&index| paths[index].arrival(bytes, now)).map_or(Choice::Wait, Choice::Path)
    }
}
