//! What the guard and the coordinator tell of themselves, as far as it is looked at.

use std::collections::BTreeMap;
use std::path::Path;

use psmc_service::socket::{Client, Report, StatusOf};
use psmc_signal::Stage;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// A guard's status.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GuardStatus {
    services: Vec<GuardedService>,
}

#[derive(Debug, Serialize, Deserialize)]
struct GuardedService {
    attack: Option<Value>,
}

/// A coordinator's status.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CoordinatorStatus {
    /// Gateways that are connected.
    pub(super) gateways: usize,
    /// Clients that are connected.
    pub(super) clients: usize,
    pub(super) services: Vec<ServiceStatus>,
}

/// A service of a coordinator's.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServiceStatus {
    pub(super) stage: Stage,
    /// The relays of each group of clients, by their names.
    pub(super) routes: BTreeMap<String, Vec<String>>,
}

impl Report for GuardStatus {
    const PROGRAM: &'static str = "psmc-guard";
    const DIRECTORY: &'static str = "/run/psmc-guard";
}

impl Report for CoordinatorStatus {
    const PROGRAM: &'static str = "psmc-coordinator";
    const DIRECTORY: &'static str = "/run/psmc-coordinator";
}

/// Asks the program whose socket this is. One that refuses to answer has no status.
pub(super) fn ask<T: Report>(socket: &Path) -> Option<T> {
    Client::<StatusOf<T>>::connect(socket).ok()?.status().ok()
}

impl GuardStatus {
    /// Whether it has found an attack.
    pub(super) fn has_found(&self) -> bool {
        self.services.iter().any(|service| service.attack.is_some())
    }
}
