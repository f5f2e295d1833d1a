//! The local socket: whoever connects gets the status as JSON, and the end.

use std::io::{self, Read};
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_net::local::{BindError, SocketFile, bind};
use thiserror::Error;
use tokio::io::AsyncWriteExt;
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::time::{sleep, timeout};

use super::Status;

/// Clients that wait to be served; one is served at a time.
const MAX_WAITING: u32 = 16;

/// How long a client may take to read its answer.
const WRITE_TIMEOUT: Duration = Duration::from_secs(5);

/// How long a tool waits for an answer: longer than the guard lets another one take.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// How long to wait after `accept` failed, which it does for want of descriptors: they do not come back at once.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(200);

/// The longest answer, in bytes: far more than all services and clients have.
const MAX_ANSWER: u64 = 16 << 20;

/// The guard's end of the socket.
pub(crate) struct StatusSocket {
    listener: UnixListener,
    questions: mpsc::Sender<oneshot::Sender<Status>>,
    _file: SocketFile,
}

impl StatusSocket {
    /// Makes the socket, which only the guard's user may connect to. Whoever takes `questions` answers them.
    pub(crate) fn bind(
        path: &Path,
        questions: mpsc::Sender<oneshot::Sender<Status>>,
    ) -> Result<Self, BindError> {
        let (listener, file) = bind(path, MAX_WAITING)?;
        Ok(Self { listener, questions, _file: file })
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
        let (question, answer) = oneshot::channel();
        self.questions.send(question).await.map_err(io::Error::other)?;
        let status = answer.await.map_err(io::Error::other)?;
        client.write_all(&serde_json::to_vec(&status)?).await?;
        client.shutdown().await
    }
}

/// Why a guard's status is not known.
#[derive(Debug, Error)]
pub enum StatusError {
    /// Nobody answers at the socket.
    #[error("no psmc-guard answers on {}: does it run, and as this user?", path.display())]
    NotRunning {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("the guard has not answered: look at its log")]
    NoAnswer(#[from] io::Error),
    /// The answer says something else than it should.
    #[error("this is not the answer of a guard: install the same release on both sides")]
    Malformed(#[from] serde_json::Error),
}

/// Asks the guard whose socket is at `path`.
///
/// # Errors
/// [`StatusError`].
pub fn ask(path: &Path) -> Result<Status, StatusError> {
    let stream = BlockingStream::connect(path)
        .map_err(|source| StatusError::NotRunning { path: path.to_owned(), source })?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    Ok(serde_json::from_slice(&answer)?)
}
