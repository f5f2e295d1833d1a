//! What a guard tells about itself.

mod metrics;
mod model;

pub use metrics::metrics;
pub use model::{Attack, Counts, Engine, MitigationStatus, RelayStatus, Service, Status, Watch};

use std::path::Path;

use psmc_service::status::StatusError;

/// Asks the guard whose socket is at `path`.
///
/// # Errors
/// [`StatusError`].
pub fn ask(path: &Path) -> Result<Status, StatusError> {
    psmc_service::status::ask("psmc-guard", path)
}
