//! Which path takes the next packet.

mod earliest;
mod flow;
mod wrr;

use std::str::FromStr;
use std::time::Instant;

use thiserror::Error;

use crate::egress::Queued;
use crate::path::Path;

/// The schedulers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SchedulerKind {
    /// The path on which the packet arrives first.
    #[default]
    Earliest,
    /// Weighted round robin: bytes in proportion to the paths' weights.
    Wrr,
    /// Every flow stays on one path.
    Flow,
    /// Every packet on every path.
    Redundant,
}

/// A name that no scheduler has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no scheduler is called `{0}`: use earliest, wrr, flow or redundant")]
pub struct UnknownScheduler(String);

impl SchedulerKind {
    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Wrr => "wrr",
            Self::Flow => "flow",
            Self::Redundant => "redundant",
        }
    }

    pub(crate) fn build(self) -> Box<dyn Scheduler> {
        match self {
            Self::Earliest => Box::new(earliest::Earliest),
            Self::Wrr => Box::new(wrr::Wrr::default()),
            Self::Flow => Box::new(flow::Flow),
            Self::Redundant => Box::new(Redundant),
        }
    }
}

impl FromStr for SchedulerKind {
    type Err = UnknownScheduler;

    fn from_str(name: &str) -> Result<Self, UnknownScheduler> {
        [Self::Earliest, Self::Wrr, Self::Flow, Self::Redundant]
            .into_iter()
            .find(|kind| kind.name() == name)
            .ok_or_else(|| UnknownScheduler(name.to_owned()))
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

/// Chooses paths for packets, one by one.
///
/// `candidates` are the indices into `paths` of those that may carry data, all of the same rank, at least one.
/// A scheduler may give a packet to a path that has no room; it then waits in that path's own queue.
pub(crate) trait Scheduler: Send + std::fmt::Debug {
    /// The path for `packet`.
    fn choose(&mut self, paths: &[Path], candidates: &[usize], packet: &Queued, now: Instant) -> Choice;

    /// Paths were added or removed, or have changed their rank or weight.
    fn on_change(&mut self) {}
}

/// Every packet on every path, as soon as one of them has room.
#[derive(Debug)]
struct Redundant;

impl Scheduler for Redundant {
    fn choose(&mut self, paths: &[Path], candidates: &[usize], packet: &Queued, now: Instant) -> Choice {
        let bytes = packet.packet.len();
        if candidates.iter().any(|&index| paths[index].has_room(bytes, now)) {
            Choice::All
        } else {
            Choice::Wait
        }
    }
}
