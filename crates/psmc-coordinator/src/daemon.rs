//! The program: it listens, decides, and acts until it is told to stop.

use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use psmc_net::local::BindError;
use psmc_net::tls::tcp::{TcpError, listen_tcp};
use psmc_net::tls::{Acceptor, AllowedKeys, Counters, Identity, Listener};
use psmc_service::daemon::{self, Daemon, Order, SystemError};
use psmc_service::http::{self, HttpError};
use psmc_service::metrics as prometheus;
use psmc_service::socket::Server;
use thiserror::Error;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::engine::{End, Engine, Input, MAX_WAITING};
use crate::http::Hook;
use crate::local;
use crate::seat::{Seat, Standby, Standing, Term};
use crate::signal::{Door, known_keys, serve};
use crate::status::{METRICS, Status};
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
    #[error("cannot create the control socket")]
    ControlSocket(#[from] BindError),
    /// The address for alerts or metrics cannot be had.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The operating system refused something basic.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Runs a coordinator until SIGTERM or SIGINT. At SIGHUP `file` is read anew.
///
/// # Errors
/// [`DaemonError`] if something that it cannot do without is missing.
pub fn run(config: Config, file: &Path) -> Result<(), DaemonError> {
    daemon::run(work(Arc::new(config), file))
}

async fn work(config: Arc<Config>, file: &Path) -> Result<(), DaemonError> {
    let daemon = Daemon::new(file, Config::load)?;
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
    let socket = Server::bind(config.control_socket.as_path())?;
    tasks.spawn(local::serve(socket, inputs.clone(), seat.store()));
    let eve = Eve::of(&config);
    listen_to_others(&configs, &inputs, &eve, &mut tasks).await?;
    daemon.is_up();
    let reloads = Reloads { current, allowed, engine: inputs.clone() };
    tracing::info!(name = %config.name, %address, "coordinator started");
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
        () = reloads.obey(daemon) => {}
    }
    if let Some(term) = term {
        term.resign().await;
    }
    tracing::info!("coordinator stopping");
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
                () = taken.is_over() => tracing::warn!("leadership lost: the lease was not renewed in time"),
                ended = self.lead(received) => match ended? {
                    End::Unheard => return Ok(()),
                    End::Deposed => tracing::warn!("another coordinator is leading"),
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
        let engine = engine.clone();
        let ask = move || {
            let engine = engine.clone();
            async move { status(&engine).await }
        };
        tasks.spawn(prometheus::serve(address, METRICS, ask).await?);
    }
    if let Some(path) = &config.eve_file {
        tasks.spawn(suricata::follow(path.clone(), eve.clone(), configs.clone(), engine.clone()));
    }
    Ok(())
}

/// What the engine says of itself, unless it has ended.
async fn status(engine: &mpsc::Sender<Input>) -> Option<Status> {
    let (asker, status) = oneshot::channel();
    engine.send(Input::Status(asker)).await.ok()?;
    status.await.ok()
}

/// What goes by another file.
struct Reloads {
    current: watch::Sender<Arc<Config>>,
    allowed: AllowedKeys,
    engine: mpsc::Sender<Input>,
}

impl Reloads {
    /// Goes by the file whenever it has changed, until the coordinator is told to end.
    async fn obey(self, mut daemon: Daemon<Config>) {
        while let Order::Reload(config) = daemon.next().await {
            let (config, differs) = config.within(&self.current.borrow());
            for setting in differs {
                tracing::warn!(setting, "changed setting needs a restart");
            }
            let config = Arc::new(config);
            self.allowed.replace(known_keys(&config));
            self.current.send_replace(config.clone());
            let (relays, services) = (config.relays.len(), config.services.len());
            tracing::info!(relays, services, "configuration reloaded");
            // An engine that has ended needs no file.
            let _ = self.engine.send(Input::Configured(config)).await;
        }
    }
}
