//! What a guard tells about itself: as JSON has it, with plain numbers, and texts with their units in their names, and to
//! Prometheus.

mod metrics;

use std::collections::BTreeMap;
use std::path::Path;

use psmc_service::socket::{Client, ClientError, Report, StatusOf};
use psmc_signal::{AlertKind, Measured, Stage};
use serde::{Deserialize, Serialize};

pub use metrics::METRICS;

impl Report for Status {
    const PROGRAM: &'static str = "psmc-guard";
    const DIRECTORY: &'static str = crate::config::RUN_DIR;
}

/// Asks the guard whose socket is at `path`.
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
    /// What the guard is called.
    pub name: String,
    /// Its key, under which coordinators know it.
    pub public_key: String,
    /// For how long it has run.
    pub uptime_s: u64,
    /// The watching of interfaces.
    pub watch: Watch,
    /// What it knows and does.
    #[serde(flatten)]
    pub engine: Engine,
    /// Packets on the hidden lines: `from_relays`, `replies`, `dropped`. Absent where they are not defended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub defence: Option<BTreeMap<String, u64>>,
}

/// The watching of interfaces.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watch {
    /// Packets that were looked at.
    pub packets: u64,
    /// Packets that came too fast to be looked at, and were counted.
    pub packets_estimated: u64,
    /// Interfaces that cannot be watched at present.
    pub blind: Vec<String>,
    /// Samples that nobody took, because the guard had too much to do.
    pub samples_lost: u64,
}

/// What a guard knows and does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Engine {
    /// The coordinator that listens, if one does.
    pub coordinator: Option<String>,
    /// Why none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub coordinator_error: Option<String>,
    /// The services.
    pub services: Vec<Service>,
    /// What the coordinator has asked for.
    pub mitigations: Vec<MitigationStatus>,
    /// Who is let in.
    pub clients: Vec<String>,
    /// Why psmcd cannot be configured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway_error: Option<String>,
    /// What arrives through relays.
    pub through_relays: Measured,
    /// What has happened.
    pub counts: Counts,
}

/// A service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Service {
    /// Its name.
    pub name: String,
    /// What goes on.
    pub attack: Option<Attack>,
    /// What arrives straight, averaged over a second.
    pub measured: Measured,
    /// What is usual, where that is known.
    pub usual: Measured,
    /// From where on it is an attack, where that is known.
    pub limits: Measured,
}

/// An attack that goes on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Attack {
    /// Its name.
    pub id: String,
    /// The kind of attack.
    pub kind: AlertKind,
    /// How long it has been known.
    pub age_s: f64,
    /// Whether the coordinator has noted it.
    pub noted: bool,
}

/// What a coordinator has asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MitigationStatus {
    /// Its number.
    pub id: u64,
    /// The service's name.
    pub service: String,
    /// Where it stands.
    pub stage: Stage,
    /// When it ends.
    pub expires_in_s: u64,
    /// Its relays.
    pub relays: Vec<RelayStatus>,
}

/// A relay of a mitigation.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RelayStatus {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: String,
    /// Whether it leads clients here.
    pub registered: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// What has happened since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Samples that were judged.
    pub samples: u64,
    /// Attacks that have begun.
    pub attacks: u64,
    /// Attacks that are over.
    pub attacks_over: u64,
    /// Relays that did not do their work.
    pub relay_failures: u64,
    /// Connections to coordinators.
    pub connections: u64,
    /// Things that a coordinator asked for and did not get.
    pub refused_messages: u64,
}
