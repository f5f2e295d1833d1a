//! The program: it resolves until it is told to stop.

use std::future::pending;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use psmc_net::local;
use thiserror::Error;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use super::cache::Bounds;
use super::config::Config;
use super::counters::Counters;
use super::listen::{MAX_CONNECTIONS, serve_tcp, serve_udp};
use super::lookup::Lookup;
use super::service::{Service, Shared, Turns};
use super::system::{Integration, SystemError};
use super::tunnels::Tunnels;
use super::upstream::{TlsError, Upstreams, client_config};
use super::{Resolver, signal as coordinator};
use psmc_program::status::StatusSocket;

/// Why the resolver could not start.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// An address cannot be had.
    #[error(
        "cannot listen on {address} ({what}): is another resolver there, and may this user have the port?"
    )]
    Listen {
        /// Which.
        address: SocketAddr,
        /// UDP or TCP.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The directory for routes cannot be made.
    #[error("cannot make the directory {} for the routes of services", path.display())]
    Directory {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// DNS over TLS cannot be had.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The machine cannot be made to use it.
    #[error(transparent)]
    System(#[from] SystemError),
    /// The local control socket cannot be had.
    #[error("cannot make the control socket")]
    ControlSocket(#[from] local::BindError),
    /// The operating system refused something basic.
    #[error("cannot start: {what}")]
    Basic {
        /// What was refused.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Runs a resolver until SIGTERM or SIGINT.
///
/// # Errors
/// [`ResolveError`] if something that it cannot do without is missing.
pub fn run(config: Config, tunnels: Arc<dyn Tunnels>) -> Result<(), ResolveError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|source| ResolveError::Basic { what: "the asynchronous runtime", source })?;
    let ended = runtime.block_on(async {
        let on =
            |kind| signal(kind).map_err(|source| ResolveError::Basic { what: "signal handlers", source });
        let (mut terminate, mut interrupt) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
        let stopped = async {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
        };
        serve(config, tunnels, stopped).await
    });
    // Whoever asks psmcd at this moment waits for an answer that nobody needs.
    runtime.shutdown_background();
    ended
}

/// Resolves until `stopped` is ready. It is up as soon as its control socket is there.
///
/// # Errors
/// As for [`run`].
pub async fn serve(
    config: Config,
    tunnels: Arc<dyn Tunnels>,
    stopped: impl Future<Output = ()>,
) -> Result<(), ResolveError> {
    let directory = config.state_directory.clone();
    std::fs::create_dir_all(&directory)
        .map_err(|source| ResolveError::Directory { path: directory.clone(), source })?;
    let upstreams = Upstreams::new(&config.upstream, &client_config(config.ca_file.as_deref())?);
    let counters = Arc::new(Counters::default());
    let lookup = Lookup::new(upstreams, Bounds::of_mib(config.cache_mib), counters.clone());
    let shared = Arc::new(Shared {
        lookup,
        tunnels,
        turns: Turns::default(),
        counters: counters.clone(),
        directory,
        patience: config.patience,
    });
    let mut tasks = JoinSet::new();
    let sockets = listen(&config.listen).await?;
    let services = config.services.into_iter().map(|service| {
        let name = service.name.clone();
        (name, Service::start(service, &shared, &mut tasks))
    });
    let services = services.collect();
    let resolver = Arc::new(Resolver { shared, counters, services });
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for (udp, tcp) in sockets {
        tasks.spawn(serve_udp(resolver.clone(), udp));
        tasks.spawn(serve_tcp(resolver.clone(), tcp, room.clone()));
    }
    if let Some(config) = config.coordinator {
        tasks.spawn(coordinator::listen(resolver.clone(), config));
    }
    let (name, started) = (config.name.to_string(), Instant::now());
    let report = {
        let (resolver, name) = (resolver.clone(), name.clone());
        move || Some(resolver.status(name.clone(), started.elapsed().as_secs()))
    };
    let status = StatusSocket::bind(config.control_socket.as_path())?;
    tasks.spawn(status.serve(move || ready(report())));
    // From here on the machine's questions come here; when this is dropped they no longer do.
    let _integration = config.system.map(|system| Integration::begin(&system, &config.listen)).transpose()?;
    tracing::info!(name, services = resolver.services.len(), "the resolver is up");
    tokio::select! {
        () = stopped => {}
        () = failed(&mut tasks) => tracing::error!("a part of the resolver has failed"),
    }
    tracing::info!("the resolver stops");
    Ok(())
}

/// Ready when a task has ended, which none does unless it fails.
async fn failed(tasks: &mut JoinSet<()>) {
    if tasks.join_next().await.is_none() {
        pending::<()>().await;
    }
}

async fn listen(addresses: &[SocketAddr]) -> Result<Vec<(UdpSocket, TcpListener)>, ResolveError> {
    let mut sockets = Vec::new();
    for address in addresses.iter().copied() {
        let failed = |what| move |source| ResolveError::Listen { address, what, source };
        let udp = UdpSocket::bind(address).await.map_err(failed("UDP"))?;
        let tcp = TcpListener::bind(address).await.map_err(failed("TCP"))?;
        sockets.push((udp, tcp));
    }
    Ok(sockets)
}
