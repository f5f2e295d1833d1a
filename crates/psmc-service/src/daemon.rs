//! A daemon from its start to its end: its runtime, signals, the file that it reads again, and what its supervisor is told.

use std::future::pending;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_toml::ConfigError;
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::{JoinSet, spawn_blocking};
use tokio::time::timeout;

use crate::supervisor::Supervisor;

/// Files that take longer to read are on a disk that does not answer: ten thousand sections take half a second of CPU time, on a
/// busy machine some seconds.
const READ_TIME: Duration = Duration::from_secs(20);

/// The operating system refused something basic.
#[derive(Debug, Error)]
#[error("cannot start: {what}")]
pub struct SystemError {
    /// What was refused.
    pub what: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl SystemError {
    /// For `map_err`: what was refused.
    pub fn of(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self { what, source }
    }
}

/// Runs a daemon, or a part of one, on a runtime of the calling thread. What still blocks another thread when it ends is not
/// waited for.
///
/// # Errors
/// Those of `main`, and [`SystemError`] without a runtime.
pub fn run<T, E: From<SystemError>>(main: impl Future<Output = Result<T, E>>) -> Result<T, E> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(SystemError::of("the asynchronous runtime"))?;
    let outcome = runtime.block_on(main);
    runtime.shutdown_background();
    outcome
}

/// The signals that daemons obey. Without somebody who listens they end the process, so this is what a daemon makes first.
#[derive(Debug)]
pub struct Signals {
    hangup: Signal,
    stop: [Signal; 2],
}

impl Signals {
    /// Begins to listen.
    ///
    /// # Errors
    /// [`SystemError`] if the system does not let it.
    pub fn listen() -> Result<Self, SystemError> {
        let on = |kind| signal(kind).map_err(SystemError::of("signal handlers"));
        let stop = [on(SignalKind::terminate())?, on(SignalKind::interrupt())?];
        Ok(Self { hangup: on(SignalKind::hangup())?, stop })
    }

    /// The next one. May be cancelled without loss.
    pub async fn next(&mut self) -> Told {
        tokio::select! {
            () = stopped(&mut self.stop) => Told::Stop,
            () = hung_up(&mut self.hangup) => Told::Reload,
        }
    }
}

/// What signals tell a daemon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// To end: SIGTERM or SIGINT.
    Stop,
    /// To read its file again: SIGHUP.
    Reload,
}

async fn stopped([terminate, interrupt]: &mut [Signal; 2]) {
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
}

async fn hung_up(hangup: &mut Signal) {
    if hangup.recv().await.is_none() {
        pending::<()>().await;
    }
}

/// Why a daemon's file could not be read again.
#[derive(Debug, Error)]
pub enum ReadError {
    /// It is wrong.
    #[error("{0}")]
    Wrong(#[from] ConfigError),
    /// It does not come.
    #[error("timed out after {} s reading the configuration: is its disk responding?", READ_TIME.as_secs())]
    TimedOut,
    /// A bug.
    #[error("reading the configuration has failed; the log says why")]
    Died,
}

/// What `load` makes of a file, which is read beside all else.
///
/// # Errors
/// [`ReadError`].
pub async fn read<C: Send + 'static>(file: PathBuf, load: Load<C>) -> Result<C, ReadError> {
    match timeout(READ_TIME, spawn_blocking(move || load(&file))).await {
        Ok(Ok(read)) => Ok(read?),
        Ok(Err(_)) => Err(ReadError::Died),
        Err(_) => Err(ReadError::TimedOut),
    }
}

/// How a configuration is read.
pub type Load<C> = fn(&Path) -> Result<C, ConfigError>;

/// What a daemon that runs has to do.
#[derive(Debug)]
pub enum Order<C> {
    /// Go by this configuration.
    Reload(C),
    /// End.
    Stop,
}

/// What tells a daemon what to do: signals, and its file, which is read beside all else.
#[derive(Debug)]
pub struct Daemon<C> {
    signals: Signals,
    supervisor: Supervisor,
    file: PathBuf,
    load: Load<C>,
    reading: JoinSet<Result<C, ReadError>>,
    is_reloading: bool,
}

impl<C: Send + 'static> Daemon<C> {
    /// Of the daemon whose `file` was read by `load`.
    ///
    /// # Errors
    /// [`SystemError`] if the system does not let it hear signals.
    pub fn new(file: &Path, load: Load<C>) -> Result<Self, SystemError> {
        Ok(Self {
            signals: Signals::listen()?,
            supervisor: Supervisor::from_environment(),
            file: file.to_owned(),
            load,
            reading: JoinSet::new(),
            is_reloading: false,
        })
    }

    /// The daemon runs. To be called once.
    pub fn is_up(&self) {
        self.supervisor.ready();
    }

    /// What to do next. A file that is wrong, or does not come, is said in the log and changes nothing. Whoever asks again has done
    /// what was ordered before. May be cancelled without loss.
    pub async fn next(&mut self) -> Order<C> {
        if std::mem::take(&mut self.is_reloading) {
            self.supervisor.ready();
        }
        loop {
            tokio::select! {
                () = stopped(&mut self.signals.stop) => {
                    self.supervisor.stopping();
                    return Order::Stop;
                }
                () = hung_up(&mut self.signals.hangup), if self.reading.is_empty() => self.read(),
                Some(read) = self.reading.join_next() => match read.unwrap_or(Err(ReadError::Died)) {
                    Ok(config) => {
                        self.is_reloading = true;
                        return Order::Reload(config);
                    }
                    Err(error) => {
                        let gap = if matches!(error, ReadError::Wrong(_)) { '\n' } else { ' ' };
                        tracing::error!("configuration not reloaded; the current one stays in force:{gap}{error}");
                        self.supervisor.ready();
                    }
                },
            }
        }
    }

    fn read(&mut self) {
        self.supervisor.reloading();
        self.reading.spawn(read(self.file.clone(), self.load));
    }
}
