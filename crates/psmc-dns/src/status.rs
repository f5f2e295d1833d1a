//! What the server tells about itself: whoever connects to the local socket gets it as JSON, and the end.

use std::io::{self, Read};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_net::local::{BindError, SocketFile, bind};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

use crate::server::{Counts, Role, Server};

/// Clients that wait to be served; one is served at a time.
const MAX_WAITING: u32 = 16;

/// How long a client may take to read its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a tool waits for an answer: longer than the server lets another one take.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// How long to wait after `accept` failed, which it does for want of descriptors: they do not come back at once.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(200);

/// The longest answer, in bytes: a million zones with 256 bytes each.
const MAX_ANSWER: u64 = 1 << 28;

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

impl Status {
    /// That of a server of this name, which has been up for so many seconds.
    pub(crate) fn of(server: &Server, name: String, uptime_s: u64) -> Self {
        let zones = server.zones().map(|hosted| {
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
        Self { name, uptime_s, counts: server.counters.read(), zones: zones.collect() }
    }
}

/// The program's end of the socket.
pub(crate) struct StatusSocket {
    listener: UnixListener,
    report: Box<dyn Fn() -> serde_json::Result<Vec<u8>> + Send + Sync>,
    _file: SocketFile,
}

impl StatusSocket {
    /// Makes the socket, which only the program's user may connect to; whoever does gets a report.
    pub(crate) fn bind(
        path: &Path,
        report: impl Fn() -> serde_json::Result<Vec<u8>> + Send + Sync + 'static,
    ) -> Result<Self, BindError> {
        let (listener, file) = bind(path, MAX_WAITING)?;
        Ok(Self { listener, report: Box::new(report), _file: file })
    }

    /// Answers one client after the other.
    pub(crate) async fn serve(self) {
        loop {
            match self.listener.accept().await {
                Ok((client, _)) => {
                    // A client that goes away or does not read has only itself to blame.
                    let _ = timeout(WRITE_TIMEOUT, self.answer(client)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept on the control socket");
                    sleep(ACCEPT_BACK_OFF).await;
                }
            }
        }
    }

    async fn answer(&self, mut client: UnixStream) -> io::Result<()> {
        client.write_all(&(self.report)()?).await?;
        client.shutdown().await
    }
}

/// Why a server's status is not known.
#[derive(Debug, Error)]
pub enum StatusError {
    /// Nobody answers at the socket.
    #[error("no psmc-dns answers on {}: does it run, and as this user?", path.display())]
    NotRunning {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("the server has not answered: look at its log")]
    NoAnswer(#[from] io::Error),
    /// The answer says something else than it should.
    #[error("this is not the answer of a psmc-dns: install the same release on both sides")]
    Malformed(#[from] serde_json::Error),
}

/// Asks the program whose socket is at `path` for its status.
///
/// # Errors
/// [`StatusError`].
pub fn ask<T: DeserializeOwned>(path: &Path) -> Result<T, StatusError> {
    let stream = BlockingStream::connect(path)
        .map_err(|source| StatusError::NotRunning { path: path.to_owned(), source })?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}
