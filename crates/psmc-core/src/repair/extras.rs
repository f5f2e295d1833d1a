//! What is sent beside the packets themselves: it leaves soon, on another path, or not at all.
//!
//! Which packets have copies although they are sent again if they are lost.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use psmc_wire::{BufPool, PathId};

use crate::clock::TokenBucket;
use crate::egress::{Queued, Role};

/// What finds no room on another path in this time comes too late to be worth its bytes.
const PATIENCE: Duration = Duration::from_millis(20);

/// The most that waits: what paths of 1 Gb/s take within [`PATIENCE`] would be six times as much, but with a queue
/// that long no copy leaves in time.
const MAX_WAITING: usize = 256;

/// What a path must do for a copy to be of use there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Demand {
    /// The longest that it may take to arrive, in nanoseconds.
    pub(crate) longest: u64,
    /// The least rate, bytes per second.
    pub(crate) least: u64,
}

/// Something that repairs what is lost.
#[derive(Debug)]
pub(crate) struct Extra {
    pub(crate) queued: Queued,
    /// The path that carries what this repairs; losses there must not hit this, too.
    pub(crate) avoid: PathId,
    /// What a path must do for it, if not any will do.
    pub(crate) demand: Option<Demand>,
    pub(crate) since: Instant,
}

impl Extra {
    /// Whether it may leave on the path with this id: a repair helps against losses there, too, a copy does not.
    pub(crate) fn may_take(&self, path: PathId) -> bool {
        path != self.avoid || self.queued.role == Role::Repair
    }
}

/// Extras that wait for their path, bounded in number and time.
#[derive(Debug, Default)]
pub(crate) struct Extras {
    waiting: VecDeque<Extra>,
    /// Repairs of packets that may not have left, each with the last turn of those.
    held: VecDeque<(u64, Extra)>,
    dropped: u64,
}

impl Extras {
    /// Adds one; if too many wait, the oldest gives way.
    pub(crate) fn push(&mut self, extra: Extra, pool: &mut BufPool) {
        if self.waiting.len() >= MAX_WAITING {
            self.drop_first(pool);
        }
        self.waiting.push_back(extra);
    }

    /// Adds a repair that may leave once all have left that have their turn before, or with, this one.
    pub(crate) fn hold(&mut self, extra: Extra, turn: u64, pool: &mut BufPool) {
        if self.held.len() >= MAX_WAITING
            && let Some((_, oldest)) = self.held.pop_front()
        {
            self.give_up(oldest, pool);
        }
        self.held.push_back((turn, extra));
    }

    /// Lets repairs wait for a path whose packets have left: those with a turn before `first`, the first that has not.
    pub(crate) fn release(&mut self, first: impl FnOnce() -> Option<u64>, now: Instant) {
        if self.held.is_empty() {
            return;
        }
        let first = first().unwrap_or(u64::MAX);
        while self.waiting.len() < MAX_WAITING
            && let Some((_, extra)) = self.held.pop_front_if(|(turn, _)| *turn < first)
        {
            self.waiting.push_back(Extra { since: now, ..extra });
        }
    }

    /// What has not left gets another turn: its repairs would come before it. Their buffers are freed, for paths seldom change.
    pub(crate) fn forget_held(&mut self) {
        self.dropped += self.held.len() as u64;
        self.held.clear();
    }

    /// Changes all that wait.
    pub(crate) fn for_each_packet(&mut self, change: impl FnMut(&mut Queued)) {
        let held = self.held.iter_mut().map(|(_, extra)| extra);
        self.waiting.iter_mut().chain(held).map(|extra| &mut extra.queued).for_each(change);
    }

    /// How many wait.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// The one at `index`, in the order of their coming.
    pub(crate) fn get(&self, index: usize) -> Option<&Extra> {
        self.waiting.get(index)
    }

    /// Takes out the one at `index`.
    pub(crate) fn take(&mut self, index: usize) -> Option<Extra> {
        self.waiting.remove(index)
    }

    /// Bytes of the first.
    pub(crate) fn first_len(&self) -> Option<usize> {
        self.waiting.front().map(|extra| extra.queued.packet.len())
    }

    /// Gives what has waited too long back to `pool`.
    pub(crate) fn drop_stale(&mut self, now: Instant, pool: &mut BufPool) {
        while self.stale_at().is_some_and(|at| at <= now) {
            self.drop_first(pool);
        }
    }

    /// When the first will have waited too long.
    pub(crate) fn stale_at(&self) -> Option<Instant> {
        self.waiting.front().map(|extra| extra.since + PATIENCE)
    }

    /// Gives everything back to `pool`.
    pub(crate) fn clear(&mut self, pool: &mut BufPool) {
        while !self.waiting.is_empty() {
            self.drop_first(pool);
        }
        while let Some((_, extra)) = self.held.pop_front() {
            self.give_up(extra, pool);
        }
    }

    /// How many have found no path in time.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped
    }

    fn drop_first(&mut self, pool: &mut BufPool) {
        if let Some(extra) = self.waiting.pop_front() {
            self.give_up(extra, pool);
        }
    }

    fn give_up(&mut self, extra: Extra, pool: &mut BufPool) {
        self.dropped += 1;
        pool.put(extra.queued.packet);
    }
}

/// The longest that have: a question, a frame of voice, a step of a game. What is longer is rather part of something that takes
/// its time.
const MAX_LEN: usize = 600;

/// Copies take at most this part of what the paths carry, or [`LEAST`] bytes per second where that is no more than a quarter
/// of it: little is known of paths that carry little.
const SHARE: u64 = 20;
const LEAST: u64 = 20_000;
const LEAST_SHARE: u64 = 4;

/// So many bytes may go at once.
const BURST: u64 = 8 << 10;

/// What copies have taken of late.
#[derive(Debug, Default)]
pub(crate) struct Copies {
    taken: TokenBucket,
}

impl Copies {
    /// Whether a packet of `len` bytes may have a copy, the paths carrying `rate` bytes per second together.
    pub(crate) fn admits(&mut self, len: usize, rate: u64, now: Instant) -> bool {
        let budget = (rate / SHARE).max(LEAST.min(rate / LEAST_SHARE)).max(1);
        let time_of = |bytes: u64| Duration::from_secs_f64(bytes as f64 / budget as f64);
        len <= MAX_LEN && self.taken.admits(time_of(len as u64), time_of(BURST), now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes of copies in ten seconds, beside packets of `len` bytes each millisecond.
    fn copied(len: usize, rate: u64) -> u64 {
        let (mut copies, start) = (Copies::default(), Instant::now());
        let admitted = |at| copies.admits(len, rate, start + Duration::from_millis(at));
        (0..10_000).map(admitted).filter(|admitted| *admitted).count() as u64 * len as u64
    }

    #[test]
    fn copies_take_a_small_part_of_the_paths() {
        for (rate, budget) in [(10_000_000, 500_000), (300_000, 20_000), (8_000, 2_000)] {
            for len in [60, 600] {
                let bytes = copied(len, rate);
                let least = (10 * budget).min(10_000 * len as u64);
                assert!((least..=least + BURST).contains(&bytes), "{bytes} of {rate} bytes/s");
            }
        }
    }

    #[test]
    fn long_packets_have_none() {
        assert_eq!(copied(MAX_LEN + 1, 10_000_000), 0);
    }
}
