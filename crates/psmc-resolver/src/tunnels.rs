//! What the resolver asks of psmcd. The program implements it over psmcd's control socket; the calls wait for the answer.

use std::fmt::Debug;
use std::path::PathBuf;
use std::time::Duration;

use psmc_toml::{Kind, Name, choose};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use psmc_routes::Relay;

/// Which of psmcd's paths carry data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Policy {
    /// The direct ones while they are well, the alternate routes otherwise.
    PreferDirect,
    /// The alternate routes while there are any.
    PreferIndirect,
    /// The same as the first, and the alternate routes are not even set up before they are needed.
    OnFailure,
}

impl Policy {
    /// How files and psmcd spell it.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreferDirect => "prefer-direct",
            Self::PreferIndirect => "prefer-indirect",
            Self::OnFailure => "on-failure",
        }
    }
}

/// A [`Policy`].
pub(super) const POLICY: Kind<Policy> = Kind::text("\"prefer-direct\"", |text| {
    let all = [Policy::PreferDirect, Policy::PreferIndirect, Policy::OnFailure];
    choose("policy", all, Policy::as_str, text)
});

/// A peer of a psmcd.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tunnel {
    /// The control socket.
    pub socket: PathBuf,
    /// What the peer is called there.
    pub peer: Name,
}

/// Routes that psmcd shall set up, in the place of those that it was given before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelRoutes {
    /// The relays, the preferred one first.
    pub relays: Vec<Relay>,
    /// When they end, in seconds since 1970 (UTC).
    pub expires_s: u64,
    /// Rises with each change.
    pub serial: u64,
    /// Which paths carry data; as psmcd's configuration says where it is absent.
    pub policy: Option<Policy>,
    /// What is shown to the relays, as `psmc grant` prints it.
    pub grants: Vec<String>,
}

/// How a peer is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TunnelState {
    /// Whether there is a path that can carry data.
    pub usable: bool,
    /// Whether the direct paths are well.
    pub direct_well: bool,
    /// Whether a path over the alternate routes can carry data.
    pub learned_up: bool,
    /// The serial number of the last alternate routes that psmcd was given.
    pub serial: Option<u64>,
    /// When the present ones end, in seconds since 1970; absent if there are none.
    pub expires_s: Option<u64>,
}

/// A relay of the alternate routes that does not do its work.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedRelay {
    /// Its public key, base64.
    pub key: String,
    /// What is wrong, for people.
    pub reason: String,
}

/// What to wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// There is a path that can carry data.
    Usable,
    /// The direct paths are not well.
    Trouble,
}

/// Why psmcd has not done what it was asked.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{0}")]
pub struct TunnelError(pub String);

/// psmcd, or several.
pub trait Tunnels: Debug + Send + Sync + 'static {
    /// Sets routes to a peer.
    ///
    /// # Errors
    /// [`TunnelError`] if psmcd does not answer, or refuses.
    fn set(&self, tunnel: &Tunnel, routes: &TunnelRoutes) -> Result<(), TunnelError>;

    /// Takes them back.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    fn clear(&self, tunnel: &Tunnel) -> Result<(), TunnelError>;

    /// How the peer is reached as soon as it is so, or after `patience`.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    fn wait(&self, tunnel: &Tunnel, until: Until, patience: Duration) -> Result<TunnelState, TunnelError>;

    /// The relays of the present routes through which nothing comes, while something comes by another way.
    ///
    /// # Errors
    /// As for [`set`](Self::set).
    fn failed(&self, tunnel: &Tunnel) -> Result<Vec<FailedRelay>, TunnelError>;
}
