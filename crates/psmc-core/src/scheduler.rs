//! Which path takes the next packet.

mod bad_paths;
mod earliest;
mod field;
mod receive_ratio;
mod wrr;

use std::cmp::Reverse;
use std::time::Instant;

use crate::config::SchedulerKind;
use crate::egress::Queued;
use crate::roster::{Places, Roster};

/// What happens to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Choice {
    /// It goes to the path at this index.
    Path(usize),
    /// It goes to every candidate.
    All,
    /// It waits until a path has room.
    Wait,
}

/// The packet whose turn it is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting<'a> {
    pub(crate) queued: &'a Queued,
    /// How many packets wait, this one included.
    pub(crate) backlog: usize,
    /// Whether it came by itself: nothing of its flow before it for some milliseconds, and nothing behind it.
    pub(crate) alone: bool,
}

impl Waiting<'_> {
    fn bytes(&self) -> usize {
        self.queued.packet.len()
    }

    /// Whether the packet has been on a path before: it has its place in its sequence then.
    fn is_again(&self) -> bool {
        self.queued.seq.is_some()
    }
}

/// Chooses paths for packets, one by one.
///
/// `candidates` are the places in `paths` of those that may carry data, all of the same rank, at least one.
/// A scheduler may give a packet to a path that has no room; it then waits in that path's own queue, or
/// is dropped if that is full.
pub(crate) trait Scheduler: Send + std::fmt::Debug {
    /// The path for `packet`.
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice;

    /// The path for `packet` when the candidates have no room and it should not wait for them: one of the `reserve`, at least one path,
    /// too, unless that gains nothing.
    fn choose_beyond(
        &mut self,
        paths: &mut Roster,
        _candidates: Places,
        reserve: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        self.choose(paths, reserve, packet, now)
    }

    /// Paths were added or removed, or have changed their rank or weight.
    fn on_change(&mut self) {}
}

/// The scheduler of that kind; one that sets bad paths aside if `bad_path_rule` says so and it can.
pub(crate) fn build(kind: SchedulerKind, bad_path_rule: bool) -> Box<dyn Scheduler> {
    let scheduler: Box<dyn Scheduler> = match kind {
        SchedulerKind::Earliest => Box::<earliest::Earliest>::default(),
        SchedulerKind::Wrr => Box::new(wrr::Wrr::default()),
        SchedulerKind::WrrAdaptive => Box::new(wrr::AdaptiveWrr::default()),
        SchedulerKind::Flow => Box::new(Flow),
        SchedulerKind::Redundant => Box::new(Redundant),
        SchedulerKind::Backup => Box::new(Backup),
    };
    if bad_path_rule && kind.heeds_bad_path_rule() {
        return Box::new(bad_paths::WithoutBadPaths::new(scheduler));
    }
    scheduler
}

/// Every packet on every path, as soon as one of them has room.
#[derive(Debug)]
struct Redundant;

impl Scheduler for Redundant {
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        now: Instant,
    ) -> Choice {
        let bytes = packet.bytes();
        if candidates.iter().any(|index| paths[index].has_room(bytes, now)) {
            Choice::All
        } else {
            Choice::Wait
        }
    }
}

// `backup`: one path carries everything.

/// The path of the greatest weight, and of those the one opened first. The others are kept warm; when it falls
/// silent it is no candidate any more, and the next one takes over at once.
#[derive(Debug)]
struct Backup;

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

// `flow`: a flow stays on a path.

/// Weighted rendezvous hashing (Thaler and Ravishankar 1998): when a path comes or goes, only the flows move
/// that have to.
#[derive(Debug)]
struct Flow;

impl Scheduler for Flow {
    fn choose(
        &mut self,
        paths: &mut Roster,
        candidates: Places,
        packet: &Waiting<'_>,
        _now: Instant,
    ) -> Choice {
        let score = |&index: &usize| {
            let path = &paths[index];
            let draw = mix(u64::from(packet.queued.bucket.number()) << 16 | u64::from(path.id.0));
            // Uniform in (0, 1), from the 53 bits that a double can hold.
            let uniform = ((draw >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
            -uniform.ln() / f64::from(path.config.weight)
        };
        let best = candidates.iter().min_by(|a, b| score(a).total_cmp(&score(b)));
        best.map_or(Choice::Wait, Choice::Path)
    }
}

/// The finaliser of SplitMix64: every bit of the input decides every bit of the output.
fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}
