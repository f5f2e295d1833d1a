//! The program: it listens, decides, and acts until it is told to stop.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use psmc_net::local;
use psmc_net::tls::tcp::{TcpError, listen_tcp};
use psmc_net::tls::{Acceptor, AllowedKeys, Counters, Identity, Listener};
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::engine::{End, Engine, Input, MAX_WAITING};
use crate::http::{self, Hook, HttpError, Metrics};
use crate::local::ControlSocket;
use crate::seat::{Seat, Standby, Standing, Term};
use crate::signal::{Door, known_keys, serve};
use crate::store::StoreError;
use crate::suricata::{self, Eve};

/// Connections whose handshakes are done and that wait to be served.
const MAX_ACCEPTED: usize = 64;

/// Why the coordinator could not start, or ended.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// The port cannot be had.
    #[error("cannot accept gateways and clients")]
    Tcp(#[from] TcpError),
    /// State cannot be kept.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The local control socket cannot be had.
    #[error("cannot make the control socket")]
    ControlSocket(#[from] local::BindError),
    /// The address for alerts or metrics cannot be had.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The operating system refused something basic.
    #[error("cannot start: {what}")]
    System {
        /// What was refused.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Runs a coordinator until SIGTERM or SIGINT. At SIGHUP `file` is read anew.
///
/// # Errors
/// [`DaemonError`] if something that it cannot do without is missing.
pub fn run(config: Config, file: &Path) -> Result<(), DaemonError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|source| DaemonError::System { what: "the asynchronous runtime", source })?;
    runtime.block_on(work(Arc::new(config), file))
}

async fn work(config: Arc<Config>, file: &Path) -> Result<(), DaemonError> {
    let seat = Seat::open(&config)?;
    let mut tasks = JoinSet::new();
    let (inputs, mut received) = mpsc::channel(MAX_WAITING);
    let handshakes = Arc::new(Counters::default());
    let (standing, watched) = watch::channel(Standing::StandsBy { leader: None, trouble: None });

    let address = config.listen.socket_addr();
    let allowed = AllowedKeys::default();
    allowed.replace(known_keys(&config));
    let identity = Identity::new(&config.private_key);
    let acceptor = Acceptor::for_protocol(&identity, allowed.clone(), psmc_signal::ALPN);
    let (ready, accepted) = mpsc::channel(MAX_ACCEPTED);
    tasks.spawn(Listener::run(listen_tcp(address)?, acceptor, ready, handshakes.clone()));
    let (current, configs) = watch::channel(config.clone());
    let door = Door { config: configs.clone(), standing: watched.clone(), engine: inputs.clone() };
    tasks.spawn(serve(door, accepted));
    let socket = ControlSocket::bind(config.control_socket.as_path(), inputs.clone(), seat.store())?;
    tasks.spawn(socket.serve());
    let eve = Eve::of(&config);
    listen_to_others(&configs, &inputs, &eve, &mut tasks).await?;
    let hangups = on_signal(SignalKind::hangup())?;
    tasks.spawn(reload_at(hangups, file.to_owned(), current, allowed, inputs.clone()));
    tracing::info!(name = %config.name, %address, "the coordinator is up");
    let program = Program {
        config: configs,
        seat,
        standing,
        watched,
        handshakes,
        eve,
        inputs,
        started: Instant::now(),
    };
    let mut term = None;
    tokio::select! {
        ended = program.run(&mut received, &mut term) => ended?,
        ended = stopped() => ended?,
    }
    if let Some(term) = term {
        term.resign().await;
    }
    tracing::info!("the coordinator stops");
    Ok(())
}

/// What lasts from one term to the next.
struct Program {
    config: watch::Receiver<Arc<Config>>,
    seat: Seat,
    standing: watch::Sender<Standing>,
    watched: watch::Receiver<Standing>,
    handshakes: Arc<Counters>,
    eve: Eve,
    inputs: mpsc::Sender<Input>,
    started: Instant,
}

impl Program {
    /// Decides whenever nobody else does. `term` has the term that goes on when this is dropped.
    async fn run(
        &self,
        received: &mut mpsc::Receiver<Input>,
        term: &mut Option<Term>,
    ) -> Result<(), DaemonError> {
        let standby = Standby {
            name: self.config.borrow().name.to_string(),
            started: self.started,
            handshakes: &self.handshakes,
            eve: &self.eve,
            standing: self.watched.clone(),
        };
        loop {
            let taken = tokio::select! {
                taken = self.seat.take(&self.standing) => term.insert(taken),
                () = standby.run(received) => return Ok(()),
            };
            tokio::select! {
                // Before anything else is done.
                biased;
                () = taken.is_over() => tracing::warn!("the lease was not renewed: others may lead"),
                ended = self.lead(received) => match ended? {
                    End::Unheard => return Ok(()),
                    End::Deposed => tracing::warn!("another coordinator leads"),
                }
            }
            self.standing.send_replace(Standing::StandsBy { leader: None, trouble: None });
            if let Some(term) = term.take() {
                term.resign().await;
            }
        }
    }

    /// Decides until others may.
    async fn lead(&self, received: &mut mpsc::Receiver<Input>) -> Result<End, StoreError> {
        let config = self.config.borrow().clone();
        tracing::info!(name = %config.name, "leads");
        let (store, observed) = (self.seat.store(), (self.handshakes.clone(), self.eve.clone()));
        match Engine::start(config, store, observed, self.started, &self.inputs).await {
            Ok(engine) => Ok(engine.run(received).await),
            Err(StoreError::Deposed) => Ok(End::Deposed),
            Err(error) => Err(error),
        }
    }
}

/// Takes alerts by HTTP and from Suricata, and tells metrics, as far as the configuration says.
async fn listen_to_others(
    configs: &watch::Receiver<Arc<Config>>,
    engine: &mpsc::Sender<Input>,
    eve: &Eve,
    tasks: &mut JoinSet<()>,
) -> Result<(), HttpError> {
    let config = configs.borrow().clone();
    if let Some(hook) = &config.hook {
        let handler = Hook { token: hook.token.clone(), engine: engine.clone() };
        tasks.spawn(http::serve(hook.address, handler).await?);
    }
    if let Some(address) = config.metrics {
        tasks.spawn(http::serve(address, Metrics { engine: engine.clone() }).await?);
    }
    if let Some(path) = &config.eve_file {
        tasks.spawn(suricata::follow(path.clone(), eve.clone(), configs.clone(), engine.clone()));
    }
    Ok(())
}

/// Ready when the coordinator is told to stop.
async fn stopped() -> Result<(), DaemonError> {
    let mut terminate = on_signal(SignalKind::terminate())?;
    let mut interrupt = on_signal(SignalKind::interrupt())?;
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}

fn on_signal(kind: SignalKind) -> Result<Signal, DaemonError> {
    signal(kind).map_err(|source| DaemonError::System { what: "signal handlers", source })
}

/// Goes by the file as it is at each SIGHUP, if it is right.
async fn reload_at(
    mut hangups: Signal,
    file: PathBuf,
    current: watch::Sender<Arc<Config>>,
    allowed: AllowedKeys,
    engine: mpsc::Sender<Input>,
) {
    while hangups.recv().await.is_some() {
        let config = match Config::load(&file) {
            Ok(config) => config,
            Err(error) => {
                tracing::error!("the file cannot be used, all stays as it is:\n{error}");
                continue;
            }
        };
        let (config, differs) = config.within(&current.borrow());
        for setting in differs {
            tracing::warn!(setting, "is as it was: it takes a restart to change it");
        }
        let config = Arc::new(config);
        allowed.replace(known_keys(&config));
        current.send_replace(config.clone());
        tracing::info!(relays = config.relays.len(), services = config.services.len(), "read the file anew");
        if engine.send(Input::Configured(config)).await.is_err() {
            return;
        }
    }
}
