//! What a relay tells about itself.

mod metrics;
mod model;
mod observer;
mod tunnels;

pub use model::{Datagrams, Refused, Session, Site, Status, Tunnel, TunnelPackets, TunnelWay, Way};

pub(crate) use metrics::metrics;
pub(crate) use observer::Observer;

use std::path::Path;

use psmc_service::socket::{Client, ClientError, Report, StatusOf};

impl Report for Status {
    const PROGRAM: &'static str = "psmc-relay";
    const DIRECTORY: &'static str = psmc_toml::RELAY_RUN_DIR;
}

/// Asks the relay whose socket is at `path`.
///
/// # Errors
/// [`ClientError`].
pub fn ask(path: &Path) -> Result<Status, ClientError> {
    Client::<StatusOf<Status>>::connect(path)?.status()
}
