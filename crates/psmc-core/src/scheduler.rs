//! Which path takes the next packet.

mod backup;
mod bad_paths;
mod earliest;
mod field;
mod flow;
mod receive_ratio;
mod wrr;

use std::time::Instant;

use crate::egress::Queued;
use crate::roster::{Places, Roster};

/// The schedulers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SchedulerKind {
    /// The path on which the packet arrives first.
    #[default]
    Earliest,
    /// Weighted round robin: bytes in proportion to the paths' weights.
    Wrr,
    /// Weighted round robin, with the paths' weights following what each of them delivers.
    WrrAdaptive,
    /// Every flow stays on one path.
    Flow,
    /// Every packet on every path.
    Redundant,
    /// One path as long as it works, then the next by weight.
    Backup,
}

impl SchedulerKind {
    /// All of them, the default first.
    pub const ALL: [Self; 6] =
        [Self::Earliest, Self::Wrr, Self::WrrAdaptive, Self::Flow, Self::Redundant, Self::Backup];

    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Wrr => "wrr",
            Self::WrrAdaptive => "wrr-adaptive",
            Self::Flow => "flow",
            Self::Redundant => "redundant",
            Self::Backup => "backup",
        }
    }

    /// Whether packets of one flow may take several paths, each of them for itself.
    pub(crate) fn spreads_flows(self) -> bool {
        match self {
            Self::Earliest | Self::Wrr | Self::WrrAdaptive => true,
            Self::Flow | Self::Redundant | Self::Backup => false,
        }
    }

    /// Whether bad paths can be told from what this scheduler makes of them: it must fill every path when there
    /// is a backlog. With strict turns all paths look like the slowest; others use some paths little or not at all.
    #[must_use]
    pub fn heeds_bad_path_rule(self) -> bool {
        match self {
            Self::Earliest | Self::WrrAdaptive => true,
            Self::Wrr | Self::Flow | Self::Redundant | Self::Backup => false,
        }
    }

    /// The scheduler; one that sets bad paths aside if `bad_path_rule` says so and it can.
    pub(crate) fn build(self, bad_path_rule: bool) -> Box<dyn Scheduler> {
        let scheduler: Box<dyn Scheduler> = match self {
            Self::Earliest => Box::<earliest::Earliest>::default(),
            Self::Wrr => Box::new(wrr::Wrr::default()),
            Self::WrrAdaptive => Box::new(wrr::AdaptiveWrr::default()),
            Self::Flow => Box::new(flow::Flow),
            Self::Redundant => Box::new(Redundant),
            Self::Backup => Box::new(backup::Backup),
        };
        if bad_path_rule && self.heeds_bad_path_rule() {
            return Box::new(bad_paths::WithoutBadPaths::new(scheduler));
        }
        scheduler
    }
}

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

    /// Paths were added or removed, or have changed their rank or weight.
    fn on_change(&mut self) {}
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
