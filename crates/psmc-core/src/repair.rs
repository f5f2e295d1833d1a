//! What happens to inner packets that a path has lost.

use std::str::FromStr;
use std::time::Duration;

use thiserror::Error;

/// How a session makes good what its paths lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RepairKind {
    /// What is lost is sent again, on the path where it arrives first.
    #[default]
    Auto,
    /// What is lost stays lost.
    Off,
}

/// A name that no kind of repair has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("no kind of repair is called `{0}`: use auto or off")]
pub struct UnknownRepair(String);

impl RepairKind {
    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Auto => "auto",
            Self::Off => "off",
        }
    }
}

impl FromStr for RepairKind {
    type Err = UnknownRepair;

    fn from_str(name: &str) -> Result<Self, UnknownRepair> {
        let found = [Self::Auto, Self::Off].into_iter().find(|kind| kind.name() == name);
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
