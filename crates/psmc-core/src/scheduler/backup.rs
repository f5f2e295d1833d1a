//! `backup`: one path carries everything.

use std::cmp::Reverse;
use std::time::Instant;

use super::{Choice, Scheduler, Waiting};
use crate::roster::{Places, Roster};

/// The path of the greatest weight, and of those the one opened first. The others are kept warm; when it falls
/// silent it is no candidate any more, and the next one takes over at once.
#[derive(Debug)]
pub(super) struct Backup;

impl Scheduler for Backup {
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        let preference = |&index: &usize| {
            let path = &paths[index];
            (Reverse(path.config.weight), path.id)
        };
        let first = candidates.iter().min_by_key(preference);
        let first = first.filter(|&index| paths[index].has_room(packet.bytes(), now));
        first.map_or(Choice::Wait, Choice::Path)
    }
}
