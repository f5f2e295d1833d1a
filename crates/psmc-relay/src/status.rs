//! What a relay tells about itself.

mod metrics;
mod model;
mod observer;
mod tunnels;

pub use model::{Datagrams, Refused, Session, Site, Status, Tunnel, TunnelPackets, TunnelWay, Way};

pub(crate) use metrics::metrics;
pub(crate) use observer::Observer;

use std::path::Path;

use psmc_service::status::StatusError;

/// Asks the relay whose socket is at `path`.
///
/// # Errors
/// [`StatusError`].
pub fn ask(path: &Path) -> Result<Status, StatusError> {
    psmc_service::status::ask("psmc-relay", path)
}
