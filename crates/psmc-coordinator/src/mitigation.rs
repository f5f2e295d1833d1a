//! The life of a mitigation: what is done for a service from the first alert until its routes are withdrawn.
//!
//! | type | what it is |
//! |---|---|
//! | [`Life`] | the state machine of one service: alerts, relays and reports in, [`Action`]s out |
//! | [`State`] | what of it outlives the program |
//! | [`RelayPool`] | the relays there are, which of them work, and who has them |
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
mod pool;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use psmc_signal::{Alert, Stage};
use serde::{Deserialize, Deserializer, Serialize};

pub use life::{Action, Life, Policy, RelaySet};
pub use pool::{RelayInfo, RelayPool};

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

/// An alert that was not cleared yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenAlert {
    /// Who has raised it; its identifier is that source's.
    pub source: String,
    /// What it says.
    pub alert: Alert,
    /// When it came first.
    pub since: Moment,
    /// When it counts no more unless it is renewed. Earlier releases kept alerts without an end.
    #[serde(deserialize_with = "or_the_past")]
    pub until: Moment,
    /// For how long it counts after each renewal, in seconds.
    #[serde(default)]
    pub lasts_s: u64,
    /// Whether its source has been away since it was raised, and has to say it again.
    #[serde(default)]
    pub unconfirmed: bool,
}

/// A time, or one that has passed if there is none.
fn or_the_past<'de, D: Deserializer<'de>>(from: D) -> Result<Moment, D::Error> {
    Ok(Option::deserialize(from)?.unwrap_or_default())
}

/// Where the mitigation of a service stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Names this mitigation among those that the service has had; 0 if there was none yet.
    pub id: u64,
    /// Where it stands; [`Stage::Withdrawn`] is rest.
    pub stage: Stage,
    /// What is wrong.
    pub alerts: Vec<OpenAlert>,
    /// The relays that each group has, the nearest first.
    pub relays: BTreeMap<String, Vec<String>>,
    /// Relays at which the gateway is registered.
    pub ready: BTreeSet<String>,
    /// The relays that each group is told of.
    pub routes: BTreeMap<String, Vec<String>>,
    /// The serial number of these routes.
    pub serial: u64,
    /// When all of it ends unless it is renewed.
    pub expires: Moment,
    /// When the first alert came.
    pub requested: Option<Moment>,
    /// When routes were published first, in this mitigation.
    pub published: Option<Moment>,
    /// Since when there is no alert.
    pub cleared: Option<Moment>,
    /// Whether somebody wants it to be prepared, whatever the configuration says.
    pub prepared_by_hand: bool,
}

/// By how much an alert may have been renewed without that being kept.
const NOT_KEPT: Duration = Duration::from_secs(30);

impl Default for State {
    fn default() -> Self {
        Self {
            id: 0,
            stage: Stage::Withdrawn,
            alerts: Vec::new(),
            relays: BTreeMap::new(),
            ready: BTreeSet::new(),
            routes: BTreeMap::new(),
            serial: 0,
            expires: Moment::default(),
            requested: None,
            published: None,
            cleared: None,
            prepared_by_hand: false,
        }
    }
}

impl State {
    /// Whether what is kept is as good as this: renewals of alerts need not be kept one by one, for after each start there
    /// is more time than that to renew them.
    #[must_use]
    pub fn is_as_good_as(&self, kept: &Self) -> bool {
        let mut renewed = kept.clone();
        for (open, now) in renewed.alerts.iter_mut().zip(&self.alerts) {
            if open.until.until(now.until) < NOT_KEPT {
                open.until = now.until;
            }
        }
        renewed == *self
    }

    /// All relays that it has.
    pub fn all_relays(&self) -> impl Iterator<Item = &String> {
        self.relays.values().flatten()
    }

    /// Whether clients are told of routes.
    #[must_use]
    pub fn is_published(&self) -> bool {
        self.routes.values().any(|relays| !relays.is_empty())
    }

    /// Whether relays are at work, or about to be.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        match self.stage {
            Stage::Requested | Stage::Active | Stage::Effective | Stage::Ineffective => true,
            Stage::Prepared | Stage::Expiring | Stage::Withdrawn => false,
        }
    }
}
