//! A local socket: whoever connects gets the program's status as JSON, and the end.

use std::io::{self, Read};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_net::local::{BindError, SocketFile, bind};
use serde::Serialize;
use serde::de::DeserializeOwned;
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::{sleep, timeout};

/// Clients that wait to be served; one is served at a time.
const MAX_WAITING: u32 = 16;

/// How long a client may take to read its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a tool waits for an answer: longer than a program lets another one take.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// How long to wait after `accept` failed, which it does for want of descriptors: they do not come back at once.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(200);

/// The longest answer, in bytes: that of a relay with a million sessions, with a kilobyte of text each.
const MAX_ANSWER: u64 = 1 << 30;

/// The program's end of the socket.
#[derive(Debug)]
pub struct StatusSocket {
    listener: UnixListener,
    _file: SocketFile,
}

impl StatusSocket {
    /// Makes the socket, which only the program's user may connect to.
    ///
    /// # Errors
    /// [`BindError`].
    pub fn bind(path: &Path) -> Result<Self, BindError> {
        let (listener, file) = bind(path, MAX_WAITING)?;
        Ok(Self { listener, _file: file })
    }

    /// Answers one client after the other with what `report` says, or with nothing if it says nothing.
    pub async fn serve<T, F>(self, report: impl Fn() -> F)
    where
        T: Serialize,
        F: Future<Output = Option<T>>,
    {
        loop {
            match self.listener.accept().await {
                Ok((client, _)) => {
                    let Some(status) = report().await else { continue };
                    // A client that goes away or does not read has only itself to blame.
                    let _ = timeout(WRITE_TIMEOUT, answer(client, &status)).await;
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept on the control socket");
                    sleep(ACCEPT_BACK_OFF).await;
                }
            }
        }
    }
}

async fn answer(mut client: UnixStream, status: &impl Serialize) -> io::Result<()> {
    client.write_all(&serde_json::to_vec(status)?).await?;
    client.shutdown().await
}

/// Why a program's status is not known.
#[derive(Debug, Error)]
pub enum StatusError {
    /// Nobody answers at the socket.
    #[error("no {program} answers on {}: does it run, and as this user?", path.display())]
    NotRunning {
        /// The program.
        program: &'static str,
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("{program} has not answered: look at its log")]
    NoAnswer {
        /// The program.
        program: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The answer says something else than it should.
    #[error("this is not the answer of {program}: install the same release on both sides")]
    Malformed {
        /// The program.
        program: &'static str,
        /// What is wrong.
        source: serde_json::Error,
    },
}

/// Asks the program of that name, whose socket is at `path`.
///
/// # Errors
/// [`StatusError`].
pub fn ask<T: DeserializeOwned>(program: &'static str, path: &Path) -> Result<T, StatusError> {
    let stream = BlockingStream::connect(path).map_err(|source| StatusError::NotRunning {
        program,
        path: path.to_owned(),
        source,
    })?;
    let answer = read(stream).map_err(|source| StatusError::NoAnswer { program, source })?;
    serde_json::from_slice(&answer).map_err(|source| StatusError::Malformed { program, source })
}

fn read(stream: BlockingStream) -> io::Result<Vec<u8>> {
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(answer)
}

#[cfg(test)]
mod tests {
    use tokio::task::spawn_blocking;

    use super::*;

    #[tokio::test]
    async fn whoever_asks_is_told() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("status.sock");
        let nobody = ask::<u32>("psmc-test", &path).unwrap_err().to_string();
        assert!(nobody.starts_with("no psmc-test answers on "), "{nobody}");
        let socket = StatusSocket::bind(&path).unwrap();
        tokio::spawn(socket.serve(|| async { Some(7) }));
        let asked = path.clone();
        assert_eq!(spawn_blocking(move || ask::<u32>("psmc-test", &asked)).await.unwrap().unwrap(), 7);
        let other = spawn_blocking(move || ask::<String>("psmc-test", &path)).await.unwrap().unwrap_err();
        assert!(other.to_string().contains("not the answer of psmc-test"), "{other}");
    }
}
