//! What a guard tells about itself.

mod metrics;
mod model;

pub use metrics::metrics;
pub use model::{Attack, Counts, Engine, MitigationStatus, RelayStatus, Service, Status, Watch};

use std::path::Path;

use psmc_service::socket::{Client, ClientError, Report, StatusOf};

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
