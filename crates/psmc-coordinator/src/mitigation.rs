//! The life of a mitigation: what is done for a service from the first alert until its routes are withdrawn.
//!
//! | type | what it is |
//! |---|---|
//! | [`Life`] | the state machine of one service: alerts, relays and reports in, [`Action`]s out |
//! | [`State`] | what of it outlives the program |
//! | [`Relays`] | the relays there are, which of them work, and who has them |
//!
//! Nothing here reads a clock or a socket. Time is an argument, and a time of the world, for the state is read by
//! another process after this one has died.
//!
//! ```text
//!              alert                  ready, or 500 ms        reports
//! Withdrawn ───────────▶ Requested ─────────────────▶ Active ◀──────▶ Effective, Ineffective
//!     ▲  ▲ prepare          ▲  ▲                         │               (other relays)
//!     │  └─▶ Prepared ──────┘  └───── alert ───┐         │ no alert for the hold time
//!     │         ▲                              │         ▼
//!     └─────────┴──────────────────────────── Expiring ◀─┘
//!                        expired
//! ```

mod life;
mod relays;
mod state;
#[cfg(test)]
mod tests;

use std::time::Duration;

use serde::{Deserialize, Serialize};

pub use life::{Action, Life, Policy, RelaySet};
pub use relays::{RelayInfo, Relays};
pub use state::{OpenAlert, State};

/// A time, in milliseconds since 1970 (UTC).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Moment(pub u64);

impl Moment {
    /// In seconds since 1970.
    #[must_use]
    pub fn seconds(self) -> u64 {
        self.0 / 1000
    }

    /// How long it is until `later`; nothing if that is earlier.
    #[must_use]
    pub fn until(self, later: Self) -> Duration {
        Duration::from_millis(later.0.saturating_sub(self.0))
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;

    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)))
    }
}
