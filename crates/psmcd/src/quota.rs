//! How many bytes a link may carry in a day, a week or a month, and what becomes of it then.
//!
//! | module | what it has |
//! |---|---|
//! | [`period`] | when a period begins and ends, by local time |
//! | [`ledger`] | what was used of a quota |
//! | [`store`] | the file in which that is kept |
//!
//! Times are arguments here; nothing but the store touches the system.

pub mod ledger;
pub mod period;
pub mod store;

use std::fmt;

use psmc_core::Tier;
use psmc_toml::{Rate, choice};

choice! {
    /// How long a period is.
    pub enum Every: "period", such as "month" {
        /// From midnight to midnight.
        Day = "day",
        /// From one day of the week on.
        Week = "week",
        /// From one day of the month on.
        Month = "month",
    }
}

/// What becomes of a path whose quota is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It carries data only when no other path can.
    Backup,
    /// It carries none.
    Never,
    /// It goes on, no faster than this in either direction.
    Slow(Rate),
}

impl Then {
    /// The highest tier that the path has then.
    #[must_use]
    pub fn tier(self) -> Tier {
        match self {
            Self::Backup => Tier::Backup,
            Self::Never => Tier::Never,
            Self::Slow(_) => Tier::Primary,
        }
    }

    /// The most that it may send then, if that is limited.
    #[must_use]
    pub fn rate(self) -> Option<Rate> {
        match self {
            Self::Backup | Self::Never => None,
            Self::Slow(rate) => Some(rate),
        }
    }
}

/// As files spell it.
impl fmt::Display for Then {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Backup => f.write_str("backup"),
            Self::Never => f.write_str("never"),
            Self::Slow(rate) => write!(f, "slow:{rate}"),
        }
    }
}

/// What an uplink may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quota {
    /// Bytes in a period: IP packets on the wire, both directions together; at least one.
    pub bytes: u64,
    /// How long a period is.
    pub every: Every,
    /// The day on which a week (1 is Monday, ISO 8601) or a month begins; 1 for days. A month without that day begins on its last
    /// one.
    pub day: i8,
    /// What becomes of its paths then.
    pub then: Then,
}

impl fmt::Display for Quota {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { bytes, every, day, then } = self;
        let bytes = in_words(*bytes);
        match every {
            Every::Day => write!(f, "{bytes} a day, then {then}"),
            Every::Week => write!(f, "{bytes} a week from day {day} of it, then {then}"),
            Every::Month => write!(f, "{bytes} a month from day {day} of it, then {then}"),
        }
    }
}

/// Bytes in the largest decimal unit that leaves a number before the point: `12.3 GB`.
#[must_use]
#[expect(clippy::cast_precision_loss, reason = "three digits are shown")]
pub fn in_words(bytes: u64) -> String {
    const UNITS: [(u64, &str); 4] =
        [(1_000_000_000_000, "TB"), (1_000_000_000, "GB"), (1_000_000, "MB"), (1000, "kB")];
    let unit = UNITS.into_iter().find(|(unit, _)| bytes >= *unit);
    match unit {
        Some((unit, name)) if bytes.is_multiple_of(unit) => format!("{} {name}", bytes / unit),
        Some((unit, name)) => format!("{:.1} {name}", bytes as f64 / unit as f64),
        None => format!("{bytes} B"),
    }
}
