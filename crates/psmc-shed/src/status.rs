//! What an agent tells about itself: as JSON has it, with plain numbers whose units stand in their names, and to Prometheus.

mod metrics;

use std::path::Path;

use psmc_service::socket::{Client, ClientError, Report, StatusOf};
use serde::{Deserialize, Serialize};

pub use crate::router::register::Counts;
pub use metrics::METRICS;

impl Report for Status {
    const PROGRAM: &'static str = "psmc-shed";
    const DIRECTORY: &'static str = crate::config::RUN_DIR;
}

/// Asks the agent whose socket is at `path`.
///
/// # Errors
/// [`ClientError`].
pub fn ask(path: &Path) -> Result<Status, ClientError> {
    Client::<StatusOf<Status>>::connect(path)?.status()
}

/// Everything there is to know.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The version of this format.
    pub version: u32,
    /// What the agent is called.
    pub name: String,
    /// Its key, by which the others know it.
    pub public_key: String,
    /// For how long it has run.
    pub uptime_s: u64,
    /// What it does as a server, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub server: Option<ServerStatus>,
    /// What it does as a router, if it is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub router: Option<RouterStatus>,
}

/// What an agent does as a server.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServerStatus {
    /// What it accepts.
    pub classes: Vec<ClassStatus>,
    /// Who drops the rest.
    pub upstreams: Vec<UpstreamStatus>,
    /// Reports of routers that cannot be true, or were not of this time.
    pub refused_reports: u64,
}

/// A class that a server accepts so much of.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// What people call it.
    pub name: String,
    /// Its packets.
    pub class: String,
    /// What is accepted of it, in bytes per second.
    pub accepted_bytes_per_s: f64,
    /// From where that is known: the file, limits in nftables, or a sign of overload.
    pub accepted_by: String,
    /// Why that source says nothing, if it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What upstreams are offered of it, as they say.
    pub offered_bytes_per_s: f64,
    /// What they let pass.
    pub passed_bytes_per_s: f64,
    /// What arrives at this machine, if that is counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub arriving_bytes_per_s: Option<f64>,
    /// How it stands with each upstream, and why.
    pub upstreams: Vec<ShareStatus>,
}

/// What an upstream has of a class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ShareStatus {
    /// The upstream.
    pub upstream: String,
    /// What it may let pass, in bytes per second; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
    /// What it is offered, as it says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered_bytes_per_s: Option<f64>,
    /// Why that is so, for people.
    pub reason: String,
}

/// Who drops what a server does not accept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamStatus {
    /// What people call it.
    pub name: String,
    /// How it is reached.
    pub by: String,
    /// Whether it has what is wanted.
    pub current: bool,
    /// Whether it enforces limits at present, as it says.
    pub enforced: bool,
    /// Rules that are wanted of it.
    pub rules: usize,
    /// Rules that it has refused.
    pub refused: Vec<String>,
    /// Which program was found, where that differs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub found: Option<String>,
    /// Why it has not what is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What an agent does as a router.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RouterStatus {
    /// Whether limits are enforced.
    pub enforced: bool,
    /// Why rules are not in force, or the lines cannot be watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
    /// What has become of messages and rules.
    pub counts: Counts,
    /// Connections that have succeeded.
    pub connections: u64,
    /// Those with keys that nobody knows here.
    pub unknown_keys: u64,
    /// Those that failed otherwise.
    pub failed_handshakes: u64,
    /// Messages that were none, each of which has ended a connection.
    pub malformed: u64,
    /// The servers.
    pub servers: Vec<OwnerStatus>,
}

/// A server, as a router sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OwnerStatus {
    /// What people call it.
    pub name: String,
    /// Whether it is connected.
    pub connected: bool,
    /// When its rules end unless it renews them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires_in_s: Option<f64>,
    /// Its rules.
    pub rules: Vec<RuleStatus>,
}

/// A rule of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleStatus {
    /// What its server calls it.
    pub name: String,
    /// Its packets.
    pub class: String,
    /// What may pass, in bytes per second; all if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit_bytes_per_s: Option<u64>,
    /// What comes.
    pub offered_bytes_per_s: f64,
    /// What of it is dropped.
    pub dropped_bytes_per_s: f64,
    /// What has come since the rule was installed.
    pub offered_bytes: u64,
    /// What of it was dropped.
    pub dropped_bytes: u64,
}
