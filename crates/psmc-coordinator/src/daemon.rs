//! The program: it listens, decides, and acts until it is told to stop.

use std::io;
use std::sync::Arc;

use psmc_net::local;
use psmc_net::tls::tcp::{TcpError, listen_tcp};
use psmc_net::tls::{Acceptor, Counters, Identity, Listener};
use thiserror::Error;
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::config::{Config, StoreAddress};
use crate::engine::{Engine, Input, MAX_WAITING};
use crate::http::{self, Hook, HttpError, Metrics};
use crate::local::ControlSocket;
use crate::signal::{allowed_keys, serve};
use crate::store::{Sqlite, Store, StoreError};
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
    let store: Arc<dyn Store> = match &config.store {
        StoreAddress::Sqlite(path) => Arc::new(Sqlite::open(path)?),
    };
    let mut tasks = JoinSet::new();
    let (inputs, mut received) = mpsc::channel(MAX_WAITING);
    let handshakes = Arc::new(Counters::default());
    let engine = Engine::start(config.clone(), store.clone(), handshakes.clone(), &inputs).await?;

    let address = config.listen.socket_addr();
    let acceptor =
        Acceptor::for_protocol(&Identity::new(&config.private_key), allowed_keys(&config), psmc_signal::ALPN);
    let (ready, accepted) = mpsc::channel(MAX_ACCEPTED);
    tasks.spawn(Listener::run(listen_tcp(address)?, acceptor, ready, handshakes));
    tasks.spawn(serve(config.clone(), accepted, inputs.clone()));
    let socket = ControlSocket::bind(config.control_socket.as_path(), inputs.clone(), store)?;
    tasks.spawn(socket.serve());
    listen_to_others(&config, &inputs, &mut tasks).await?;
    tracing::info!(name = %config.name, %address, "the coordinator is up");
    tokio::select! {
        () = engine.run(&mut received) => {}
        ended = stopped() => ended?,
    }
    tracing::info!("the coordinator stops");
    Ok(())
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
