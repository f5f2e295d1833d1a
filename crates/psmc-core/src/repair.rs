//! How inner packets survive paths that lose some.

mod extras;

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

pub(crate) use extras::{Extra, Extras};

/// How a session makes good what its paths lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RepairKind {
    /// What is lost is sent again, on the path where it arrives first.
    #[default]
    Auto,
    /// Every packet leaves on two paths, if there are two; what both lose stays lost.
    Duplicate,
    /// What is lost stays lost.
    Off,
}

/// What is in a buffer that waits for a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// An inner packet, and how it is made good if it is lost.
    Packet(RepairKind),
    /// One more copy of an inner packet.
    Copy,
}

impl Role {
    /// Whether it is sent again when a path has lost it.
    pub(crate) fn is_resent(self) -> bool {
        self == Self::Packet(RepairKind::Auto)
    }
}

/// What repair has done for the packets of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RepairCounters {
    /// Second copies sent.
    pub tx_copies: u64,
    /// Second copies that found no room on another path in time.
    pub dropped: u64,
}

/// A name that no kind of repair has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no kind of repair is called `{0}`: use auto, duplicate or off")]
pub struct UnknownRepair(String);

impl RepairKind {
    /// All of them, the default first.
    pub const ALL: [Self; 3] = [Self::Auto, Self::Duplicate, Self::Off];

    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Duplicate => "duplicate",
            Self::Off => "off",
        }
    }
}

impl FromStr for RepairKind {
    type Err = UnknownRepair;

    fn from_str(name: &str) -> Result<Self, UnknownRepair> {
        let found = Self::ALL.into_iter().find(|kind| kind.name() == name);
        found.ok_or_else(|| UnknownRepair(name.to_owned()))
    }
}

/// How long a receiver waits for what is sent again, `round_trip` being the longest of the live paths: until its
/// sender knows of the loss (RFC 9002 §6.1.2: 9/8 of a round trip after sending, which is that much after the
/// packet's turn), and, since what is sent again may be lost too, as long again.
pub(crate) fn repair_time(round_trip: Duration) -> Duration {
    (2 * (round_trip + round_trip / 4 + REPAIR_SLACK)).min(MAX_REPAIR_TIME)
}

/// Acknowledgements that are up to 5 ms late, timers, and the queue of the path that carries the repair.
const REPAIR_SLACK: Duration = Duration::from_millis(10);

/// After half a second an inner sender has begun to repair by itself.
const MAX_REPAIR_TIME: Duration = Duration::from_millis(500);
