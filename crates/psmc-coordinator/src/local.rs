//! The local socket: a request as a line of JSON, an answer as JSON, and the end.

use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream as BlockingStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use psmc_net::local::{BindError, SocketFile, bind};
use psmc_signal::{Alert, AlertKind, Measured};
use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::time::{sleep, timeout};

use crate::engine::{Input, Order, OrderError};
use crate::status::Status;
use crate::store::{Event, Store};

/// Clients that are served at a time.
const MAX_CLIENTS: usize = 16;

/// Clients that wait to be served.
const MAX_WAITING: u32 = 16;

/// The longest request, in bytes: an alert's.
const MAX_REQUEST: u64 = 16 * 1024;

/// How long a client may take in all.
const TIMEOUT: Duration = Duration::from_secs(10);

/// How long a tool waits for an answer: longer than the coordinator lets itself take.
const READ_TIMEOUT: Duration = Duration::from_secs(15);

/// How long to wait after `accept` failed, which it does for want of descriptors: they do not come back at once.
const ACCEPT_BACK_OFF: Duration = Duration::from_millis(200);

/// The longest answer, in bytes: ten thousand events, or clients.
const MAX_ANSWER: u64 = 1 << 26;

/// What alerts of the local socket are called where nothing else is said.
pub const BY_HAND: &str = "person";

/// What somebody on this machine wants.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "request", rename_all = "kebab-case")]
pub enum Request {
    /// To know how things are.
    Status,
    /// To know what has happened.
    Events {
        /// How many events at most.
        count: u32,
    },
    /// To raise an alert.
    Alert {
        /// Who raises it.
        source: String,
        /// Its identifier.
        id: String,
        /// The service.
        service: String,
        /// What it is about.
        kind: AlertKind,
        /// What was measured.
        measured: Measured,
        /// For how many seconds it counts unless it is renewed; as the configuration says, if that is `None`.
        #[serde(default)]
        lasts: Option<u64>,
    },
    /// To have one go on.
    Renew {
        /// Who has raised it.
        source: String,
        /// Its identifier.
        id: String,
        /// The service.
        service: String,
        /// For how many seconds it counts unless it is renewed again, as above.
        lasts: Option<u64>,
    },
    /// To clear one.
    Clear {
        /// Who has raised it.
        source: String,
        /// Its identifier.
        id: String,
        /// The service.
        service: String,
    },
    /// To have relays kept ready.
    Prepare {
        /// The service.
        service: String,
    },
    /// To end whatever is done.
    Withdraw {
        /// The service.
        service: String,
    },
    /// To have a client told nothing any more, or again.
    Block {
        /// The client.
        client: String,
        /// Whether it is told nothing.
        blocked: bool,
    },
}

/// What is answered.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(tag = "answer", rename_all = "kebab-case")]
pub enum Answer {
    /// How things are.
    Status(Box<Status>),
    /// What has happened, the latest first.
    Events {
        /// The events.
        events: Vec<Event>,
    },
    /// It is done, and kept.
    Done,
    /// There is no such alert that could go on: it was cleared, or has lapsed.
    NotOpen,
    /// It is not done, and why.
    Refused {
        /// Why, for people.
        reason: String,
    },
}

/// The coordinator's end of the socket.
pub(crate) struct ControlSocket {
    listener: UnixListener,
    engine: mpsc::Sender<Input>,
    store: Arc<dyn Store>,
    _file: SocketFile,
}

impl ControlSocket {
    /// Makes the socket, which only the coordinator's user may connect to.
    pub(crate) fn bind(
        path: &Path,
        engine: mpsc::Sender<Input>,
        store: Arc<dyn Store>,
    ) -> Result<Self, BindError> {
        let (listener, file) = bind(path, MAX_WAITING)?;
        Ok(Self { listener, engine, store, _file: file })
    }

    /// Answers all who come.
    pub(crate) async fn serve(self) {
        let room = Arc::new(Semaphore::new(MAX_CLIENTS));
        loop {
            // The semaphore is never closed.
            let Ok(permit) = room.clone().acquire_owned().await else { return };
            match self.listener.accept().await {
                Ok((client, _)) => {
                    let (engine, store) = (self.engine.clone(), self.store.clone());
                    tokio::spawn(async move {
                        let _permit = permit;
                        // A client that goes away or says nothing has only itself to blame.
                        let _ = timeout(TIMEOUT, answer(client, &engine, &*store)).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept on the control socket");
                    sleep(ACCEPT_BACK_OFF).await;
                }
            }
        }
    }
}

async fn answer(mut client: UnixStream, engine: &mpsc::Sender<Input>, store: &dyn Store) -> io::Result<()> {
    let mut text = Vec::new();
    (&mut client).take(MAX_REQUEST).read_to_end(&mut text).await?;
    let answer = match serde_json::from_slice::<Request>(&text) {
        Ok(request) => carry_out(request, engine, store).await,
        Err(error) => Answer::Refused { reason: format!("this is no request: {error}") },
    };
    client.write_all(&serde_json::to_vec(&answer)?).await?;
    client.shutdown().await
}

async fn carry_out(request: Request, engine: &mpsc::Sender<Input>, store: &dyn Store) -> Answer {
    match request {
        Request::Status => {
            let (asker, status) = oneshot::channel();
            match engine.send(Input::Status(asker)).await {
                Ok(()) => status.await.map_or_else(|_| ended(), |status| Answer::Status(Box::new(status))),
                Err(_) => ended(),
            }
        }
        Request::Events { count } => match store.events(count).await {
            Ok(events) => Answer::Events { events },
            Err(error) => Answer::Refused { reason: crate::error_chain(&error) },
        },
        Request::Alert { source, id, service, kind, measured, lasts } => {
            let alert = Alert { id, service, target: None, kind, measured, usual: Measured::default() };
            let lasts = lasts.map(Duration::from_secs);
            order(Order::Alert { source, alert: Box::new(alert), lasts }, engine).await
        }
        Request::Renew { source, id, service, lasts } => {
            let lasts = lasts.map(Duration::from_secs);
            order(Order::Renew { source, id, service, lasts }, engine).await
        }
        Request::Clear { source, id, service } => order(Order::Clear { source, id, service }, engine).await,
        Request::Prepare { service } => order(Order::Prepare { service }, engine).await,
        Request::Withdraw { service } => order(Order::Withdraw { service }, engine).await,
        Request::Block { client, blocked } => order(Order::Block { client, blocked }, engine).await,
    }
}

async fn order(order: Order, engine: &mpsc::Sender<Input>) -> Answer {
    let (done, result) = oneshot::channel();
    if engine.send(Input::Order { order, done }).await.is_err() {
        return ended();
    }
    match result.await {
        Ok(Ok(())) => Answer::Done,
        Ok(Err(OrderError::NotOpen(_))) => Answer::NotOpen,
        Ok(Err(error)) => Answer::Refused { reason: error.to_string() },
        Err(_) => ended(),
    }
}

fn ended() -> Answer {
    Answer::Refused { reason: "the coordinator is about to end".to_owned() }
}

/// Why a request was not met.
#[derive(Debug, Error)]
pub enum AskError {
    /// Nobody answers at the socket.
    #[error("no psmc-coordinator answers on {}: does it run, and as this user?", path.display())]
    NotRunning {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The conversation failed.
    #[error("the coordinator has not answered: look at its log")]
    NoAnswer(#[from] io::Error),
    /// The answer says something else than it should.
    #[error("this is not the answer of a coordinator: install the same release on both sides")]
    Malformed(#[from] serde_json::Error),
    /// It is not done.
    #[error("{0}")]
    Refused(String),
}

/// Asks the coordinator whose socket is at `path`.
///
/// # Errors
/// [`AskError`].
pub fn ask(path: &Path, request: &Request) -> Result<Answer, AskError> {
    let mut stream = BlockingStream::connect(path)
        .map_err(|source| AskError::NotRunning { path: path.to_owned(), source })?;
    stream.set_read_timeout(Some(READ_TIMEOUT))?;
    stream.write_all(&serde_json::to_vec(request)?)?;
    stream.shutdown(Shutdown::Write)?;
    let mut answer = Vec::new();
    stream.take(MAX_ANSWER).read_to_end(&mut answer)?;
    match serde_json::from_slice(&answer)? {
        Answer::Refused { reason } => Err(AskError::Refused(reason)),
        answer @ (Answer::Status(_) | Answer::Events { .. } | Answer::Done | Answer::NotOpen) => Ok(answer),
    }
}
