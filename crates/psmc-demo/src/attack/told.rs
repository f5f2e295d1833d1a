//! What the guard and the coordinator tell of themselves, as far as it is looked at.

use std::collections::BTreeMap;
use std::io::Write;
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

use psmc_service::status::ask;
use psmc_signal::Stage;
use serde::Deserialize;
use serde::de::IgnoredAny;

/// How long an answer is waited for: longer than a coordinator lets itself take.
const PATIENCE: Duration = Duration::from_secs(15);

/// A guard's status.
#[derive(Debug, Deserialize)]
pub(super) struct GuardStatus {
    services: Vec<GuardedService>,
}

#[derive(Debug, Deserialize)]
struct GuardedService {
    attack: Option<IgnoredAny>,
}

/// A coordinator's status.
#[derive(Debug, Deserialize)]
pub(super) struct CoordinatorStatus {
    /// Gateways that are connected.
    pub(super) gateways: usize,
    /// Clients that are connected.
    pub(super) clients: usize,
    pub(super) services: Vec<ServiceStatus>,
}

/// A service of a coordinator's.
#[derive(Debug, Deserialize)]
pub(super) struct ServiceStatus {
    pub(super) stage: Stage,
    /// The relays of each group of clients, by their names.
    pub(super) routes: BTreeMap<String, Vec<String>>,
}

impl GuardStatus {
    /// Asks the guard whose socket this is.
    pub(super) fn ask(socket: &Path) -> Option<Self> {
        ask("psmc-guard", socket).ok()
    }

    /// Whether it has found an attack.
    pub(super) fn has_found(&self) -> bool {
        self.services.iter().any(|service| service.attack.is_some())
    }
}

impl CoordinatorStatus {
    /// Asks the coordinator whose socket this is. One that refuses to answer has no status.
    pub(super) fn ask(socket: &Path) -> Option<Self> {
        let mut stream = UnixStream::connect(socket).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        stream.write_all(br#"{"request":"status"}"#).ok()?;
        stream.shutdown(Shutdown::Write).ok()?;
        serde_json::from_reader(stream).ok()
    }
}
