//! The program: it listens, decides, and acts until it is told to stop.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use psmc_net::local;
use psmc_net::tls::tcp::{TcpError, listen_tcp};
use psmc_net::tls::{Acceptor, Counters, Identity, Listener};
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;

use crate::config::Config;
use crate::engine::{End, Engine, Input, MAX_WAITING};
use crate::http::{self, Hook, HttpError, Metrics};
use crate::local::ControlSocket;
use crate::seat::{Seat, Standby, Standing, Term};
use crate::signal::{Door, allowed_keys, serve};
use crate::store::StoreError;
use crate::suricata;

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

/// Runs a coordinator until SIGTERM or SIGINT.
///
/// # Errors
/// [`DaemonError`] if something that it cannot do without is missing.
pub fn run(config: Config) -> Result<(), DaemonError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|source| DaemonError::System { what: "the asynchronous runtime", source })?;
    runtime.block_on(work(Arc::new(config)))
}

async fn work(config: Arc<Config>) -> Result<(), DaemonError> {
    let seat = Seat::open(&config)?;
    let mut tasks = JoinSet::new();
    let (inputs, mut received) = mpsc::channel(MAX_WAITING);
    let handshakes = Arc::new(Counters::default());
    let (standing, watched) = watch::channel(Standing::StandsBy { leader: None });

    let address = config.listen.socket_addr();
    let acceptor =
        Acceptor::for_protocol(&Identity::new(&config.private_key), allowed_keys(&config), psmc_signal::ALPN);
    let (ready, accepted) = mpsc::channel(MAX_ACCEPTED);
    tasks.spawn(Listener::run(listen_tcp(address)?, acceptor, ready, handshakes.clone()));
    let door = Door { config: config.clone(), standing: watched.clone(), engine: inputs.clone() };
    tasks.spawn(serve(door, accepted));
    let socket = ControlSocket::bind(config.control_socket.as_path(), inputs.clone(), seat.store())?;
    tasks.spawn(socket.serve());
    listen_to_others(&config, &inputs, &mut tasks).await?;
    tracing::info!(name = %config.name, %address, "the coordinator is up");
    let program = Program { config, seat, standing, watched, handshakes, inputs, started: Instant::now() };
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
    config: Arc<Config>,
    seat: Seat,
    standing: watch::Sender<Standing>,
    watched: watch::Receiver<Standing>,
    handshakes: Arc<Counters>,
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
            name: self.config.name.to_string(),
            started: self.started,
            handshakes: &self.handshakes,
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
            self.standing.send_replace(Standing::StandsBy { leader: None });
            if let Some(term) = term.take() {
                term.resign().await;
            }
        }
    }

    /// Decides until others may.
    async fn lead(&self, received: &mut mpsc::Receiver<Input>) -> Result<End, StoreError> {
        tracing::info!(name = %self.config.name, "leads");
        let (config, store, handshakes) = (self.config.clone(), self.seat.store(), self.handshakes.clone());
        match Engine::start(config, store, handshakes, self.started, &self.inputs).await {
            Ok(engine) => Ok(engine.run(received).await),
            Err(StoreError::Deposed) => Ok(End::Deposed),
            Err(error) => Err(error),
        }
    }
}

/// Takes alerts by HTTP and from Suricata, and tells metrics, as far as the configuration says.
async fn listen_to_others(
    config: &Arc<Config>,
    engine: &mpsc::Sender<Input>,
    tasks: &mut JoinSet<()>,
) -> Result<(), HttpError> {
    if let Some(hook) = &config.hook {
        let handler = Hook { token: hook.token.clone(), engine: engine.clone() };
        tasks.spawn(http::serve(hook.address, handler).await?);
    }
    if let Some(address) = config.metrics {
        tasks.spawn(http::serve(address, Metrics { engine: engine.clone() }).await?);
    }
    if let Some(path) = &config.eve_file {
        tasks.spawn(suricata::follow(path.clone(), config.clone(), engine.clone()));
    }
    Ok(())
}

/// Ready when the coordinator is told to stop.
async fn stopped() -> Result<(), DaemonError> {
    let on = |kind| signal(kind).map_err(|source| DaemonError::System { what: "signal handlers", source });
    let (mut terminate, mut interrupt) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
