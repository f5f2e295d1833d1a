//! The program: it resolves until it is told to stop. At SIGHUP it reads its file anew.

use std::future::pending;
use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use psmc_net::listen::{AnsweringSocket, is_for_v6_only, listen_tcp};
use psmc_net::local;
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use super::config::Config;
use super::listen::{MAX_CONNECTIONS, serve_tcp, serve_udp};
use super::resolving::{Current, Fixed, Resolving};
use super::tunnels::Tunnels;
use super::upstream::TlsError;
use psmc_service::daemon::{self, Daemon, Order};
use psmc_service::name_servers::{Integration, NameServersError};
use psmc_service::socket::Server;
use psmc_service::supervisor::Supervisor;

/// Why the resolver could not start.
#[derive(Debug, Error)]
pub enum ResolveError {
    /// An address cannot be had.
    #[error(
        "cannot listen on {address} ({what}): is another resolver running, and may this user bind the port?"
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
    System(#[from] NameServersError),
    /// The local control socket cannot be had.
    #[error("cannot create the control socket")]
    ControlSocket(#[from] local::BindError),
    /// The operating system refused something basic.
    #[error(transparent)]
    Basic(#[from] daemon::SystemError),
}

/// Runs a resolver until SIGTERM or SIGINT. At SIGHUP it reads its `file` anew: upstream servers, services, coordinator.
///
/// # Errors
/// [`ResolveError`] if something that it cannot do without is missing.
pub fn run(config: Config, tunnels: Arc<dyn Tunnels>, file: &Path) -> Result<(), ResolveError> {
    daemon::run(async {
        let mut daemon = Daemon::new(file, Config::load)?;
        let (read, configs) = mpsc::channel(1);
        let stopped = async {
            while let Order::Reload(config) = daemon.next().await {
                // Whoever no longer takes it is about to end.
                let _ = read.send(config).await;
            }
        };
        serve(config, tunnels, stopped, configs).await
    })
}

/// Resolves until `stopped` is ready, at last by the newest of `configs`. It is up as soon as its control socket is there.
///
/// # Errors
/// As for [`run`].
pub async fn serve(
    mut config: Config,
    tunnels: Arc<dyn Tunnels>,
    stopped: impl Future<Output = ()>,
    mut configs: mpsc::Receiver<Config>,
) -> Result<(), ResolveError> {
    let fixed = Fixed::of(&config);
    let system = config.system.take();
    let sockets = listen(&config.listen)?;
    let resolving = Resolving::new(config, &tunnels, None)?;
    let resolver = Arc::new(Current::new(resolving.resolver.clone()));
    let mut resolving = resolving;
    let mut tasks = JoinSet::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for (udp, tcp) in sockets {
        tasks.spawn(serve_udp(resolver.clone(), udp));
        tasks.spawn(serve_tcp(resolver.clone(), tcp, room.clone()));
    }
    let (name, started) = (fixed.name.clone(), Instant::now());
    let report = {
        let (resolver, name) = (resolver.clone(), name.clone());
        move || Some(resolver.get().status(name.clone(), started.elapsed().as_secs()))
    };
    let socket = Server::bind(fixed.control_socket.as_path())?;
    tasks.spawn(socket.tell(move || ready(report())));
    // From here on the machine's questions come here; when this is dropped they no longer do.
    let integration = system.map(|system| Integration::begin(&system, &fixed.listen)).transpose()?;
    if let Some(integration) = &integration {
        tasks.spawn(integration.watch());
    }
    Supervisor::from_environment().ready();
    tracing::info!(name, services = resolver.get().services.len(), "resolver started");
    tokio::pin!(stopped);
    loop {
        tokio::select! {
            () = &mut stopped => break,
            () = failed(&mut tasks) => break tracing::error!("a task of the resolver has failed"),
            () = failed(&mut resolving.tasks) => break tracing::error!("a task of the resolver has failed"),
            Some(config) = configs.recv() => match resolving.succeed(config, &tunnels, &fixed) {
                Ok(newer) => {
                    resolver.replace(newer.resolver.clone());
                    resolving = newer;
                    tracing::info!(services = resolver.get().services.len(), "configuration reloaded");
                }
                Err(error) => {
                    let error = crate::error_chain(&error);
                    tracing::error!(error, "configuration not reloaded; the current one stays in force");
                }
            },
        }
    }
    tracing::info!("resolver stopping");
    Ok(())
}

/// Ready when a task has ended, which none does unless it fails.
async fn failed(tasks: &mut JoinSet<()>) {
    if tasks.join_next().await.is_none() {
        pending::<()>().await;
    }
}

fn listen(addresses: &[SocketAddr]) -> Result<Vec<(AnsweringSocket, TcpListener)>, ResolveError> {
    let mut sockets = Vec::new();
    for address in addresses.iter().copied() {
        let failed = |what| move |source| ResolveError::Listen { address, what, source };
        let v6_only = is_for_v6_only(address, addresses);
        let udp = AnsweringSocket::bind(address, v6_only).map_err(failed("UDP"))?;
        let tcp = listen_tcp(address, v6_only).and_then(TcpListener::from_std).map_err(failed("TCP"))?;
        sockets.push((udp, tcp));
    }
    Ok(sockets)
}
