//! What the server tells about itself.

use std::path::Path;

use psmc_service::socket::{Client, ClientError, Report, StatusOf};
use serde::{Deserialize, Serialize};

use crate::server::{Counts, Role, Server};

/// What there is to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The server's name.
    pub name: String,
    /// How long it has been up, in seconds.
    pub uptime_s: u64,
    /// What it has done.
    pub counts: Counts,
    /// Its zones.
    pub zones: Vec<ZoneStatus>,
}

/// What there is to know of a zone.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ZoneStatus {
    /// Its name.
    pub name: String,
    /// Its serial number; `None` where it is not served, for its primary was never reached, or not for too long.
    pub serial: Option<u32>,
    /// Its records, signatures included.
    pub records: usize,
    /// Whether it is signed.
    pub signed: bool,
    /// Where it is fetched, if it is another server's.
    pub primary: Option<String>,
}

impl Report for Status {
    const PROGRAM: &'static str = "psmc-dns";
    const DIRECTORY: &'static str = psmc_routes::setting::RUN_DIR;
}

impl Status {
    /// That of a server of this name, which has been up for so many seconds.
    pub(crate) fn of(server: &Server, name: String, uptime_s: u64) -> Self {
        let contents = server.contents();
        let zones = contents.zones().map(|hosted| {
            let zone = hosted.served();
            let zone = zone.as_deref();
            ZoneStatus {
                name: hosted.origin().to_string(),
                serial: zone.map(crate::zone::Zone::serial),
                records: zone.map_or(0, crate::zone::Zone::len),
                signed: zone.is_some_and(crate::zone::Zone::is_signed),
                primary: match &hosted.role {
                    Role::Primary { .. } => None,
                    Role::Secondary { primary, .. } => Some(primary.to_string()),
                },
            }
        });
        let zones = zones.collect();
        Self { name, uptime_s, counts: server.counters.read(), zones }
    }
}

/// Asks the server whose socket is at `path`.
///
/// # Errors
/// [`ClientError`].
pub fn ask(path: &Path) -> Result<Status, ClientError> {
    Client::<StatusOf<Status>>::connect(path)?.status()
}
