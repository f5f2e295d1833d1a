//! The program: workers that move datagrams, and a control side on the main thread.

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use psmc_core::relay::{Limiter, PlainTunnels, PlainTunnelsConfig, RelayConfig};
use psmc_net::ipip::OpenError;
use psmc_net::keys::random_seed;
use psmc_net::local;
use psmc_net::tls::tcp::{TcpError, listen_tcp};
use psmc_net::tls::{Acceptor, AllowedKeys, Counters, Identity, Listener, Secured};
use psmc_net::udp::{BindError, Group, UdpBind, UdpPort};
use psmc_wire::relay::ALPN;
use thiserror::Error;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use crate::config::{Config, Tunnel};
use crate::control::{self, Hub, Streams};
use crate::status::{METRICS, Observer};
use crate::worker::{self, Errors, Handle, Sockets, TunnelSocket, WorkerDied};
use psmc_service::daemon::{self, Daemon, Order, SystemError};
use psmc_service::http::HttpError;
use psmc_service::metrics as prometheus;
use psmc_service::socket::Server;

/// Datagrams that wait at most, of all sessions of a worker: 64 MiB of full-size ones.
const MAX_WAITING: usize = 32_768;

/// The worker that moves what comes in IP-in-IP: every socket for that gets all of it, so that there is one.
pub(crate) const TUNNELS_WORKER: u8 = 0;

/// Connections whose handshakes are done and that wait to be served.
const MAX_ACCEPTED: usize = 64;

/// Connections that are served at a time. Where grants count, whoever makes a key shakes hands, and has 5 s to show a
/// grant, before which nothing is kept of it but this. In that time the acceptor answers 8000 calls at most, 420 of them from one source
/// (`psmc_net::tls`), so that no flood takes all of these.
const MAX_CONNECTIONS: usize = 8192;

/// Why the relay could not start, or ended.
#[derive(Debug, Error)]
pub enum RelayError {
    /// The UDP port can't be had.
    #[error("cannot receive datagrams")]
    Udp(#[from] BindError),
    /// There are `[[tunnel]]` sections, and IP-in-IP can't be had.
    #[error("cannot serve the file's [[tunnel]] sections")]
    TunnelSocket(#[source] OpenError),
    /// The TCP port can't be had.
    #[error("cannot accept control connections")]
    Tcp(#[from] TcpError),
    /// The local control socket can't be had.
    #[error("cannot create the control socket")]
    ControlSocket(#[from] local::BindError),
    /// The address for metrics can't be had.
    #[error("cannot serve metrics")]
    Metrics(#[from] HttpError),
    /// The operating system refused something basic.
    #[error(transparent)]
    System(#[from] SystemError),
    /// A worker has ended by itself.
    #[error(transparent)]
    WorkerDied(#[from] WorkerDied),
}

/// Runs a relay until SIGTERM or SIGINT. At SIGHUP it reads its `file` anew, for whom it serves and by what tunnels.
///
/// # Errors
/// [`RelayError`] if something that the relay can't do without is missing.
pub fn run(config: &Config, file: &Path) -> Result<(), RelayError> {
    daemon::run(serve(config, file))
}

async fn serve(config: &Config, file: &Path) -> Result<(), RelayError> {
    let daemon = Daemon::new(file, Config::load)?;
    let total = Arc::new(Limiter::new(config.max_rate.map(psmc_toml::Rate::bits_per_second)));
    let address = config.listen.socket_addr();
    let origin = Instant::now();
    let (workers, data_port) = start_workers(config, address, &total, origin).await?;
    let hub = Arc::new(Hub::new(config, workers, data_port, (total, origin)));
    let streams = Arc::new(Streams::default());
    let handshakes = Arc::new(Counters::default());
    let observer = Observer::new(hub.clone(), streams.clone(), handshakes.clone());

    let mut tasks = JoinSet::new();
    if let Some(address) = config.metrics {
        let observer = observer.clone();
        let ask = move || {
            let observer = observer.clone();
            async move { observer.status().await.ok() }
        };
        tasks.spawn(prometheus::serve(address, METRICS, ask).await?);
    }
    let socket = Server::bind(config.control_socket.as_path())?;
    tasks.spawn(socket.tell(move || {
        let observer = observer.clone();
        async move { observer.status().await.ok() }
    }));
    let (ready, accepted) = mpsc::channel(MAX_ACCEPTED);
    let listener = listen_tcp(address)?;
    let allowed = allowed_keys(config);
    let acceptor = Acceptor::for_protocol(&Identity::new(&config.private_key), allowed.clone(), ALPN);
    tasks.spawn(Listener::run(listener, acceptor, ready, handshakes));
    daemon.is_up();
    tracing::info!(name = %config.name, %address, "relay started");
    tokio::select! {
        () = serve_sites(accepted, hub.clone(), streams) => {}
        ended = obey(daemon, &hub, &allowed) => ended?,
        // Its sessions are lost, and those to come would be: whoever has started the relay starts it anew.
        died = hub.worker_died() => return Err(died.into()),
    }
    tracing::info!("relay stopping");
    Ok(())
}

async fn start_workers(
    config: &Config,
    address: SocketAddr,
    total: &Arc<Limiter>,
    origin: Instant,
) -> Result<(Vec<Handle>, u16), RelayError> {
    let [a, b, c, d, e, f, g, h, ..] = random_seed();
    let group = Group { size: config.workers, byte: worker::LABEL_BYTE };
    let mut workers = Vec::new();
    let mut port = address.port();
    for (number, strays) in (0..).zip(worker::neighbours(config.workers)) {
        let engine = RelayConfig {
            max_sessions: config.max_sessions.div_ceil(config.workers.into()),
            max_waiting: MAX_WAITING,
            idle: config.idle,
            worker: (number, config.workers),
            total: total.clone(),
            seed: u64::from_be_bytes([a, b, c, d, e, f, g, h]),
            origin,
        };
        let bind = UdpBind { address: SocketAddr::new(address.ip(), port), interface: None };
        let plain = (config.ipip && number == TUNNELS_WORKER).then(|| PlainTunnelsConfig {
            pairs: config.tunnels.iter().map(Tunnel::pair).collect(),
            max_waiting: MAX_WAITING,
            total: total.clone(),
            seed: engine.seed,
            origin,
        });
        let sockets = move || {
            let port = match group.size {
                // Nobody else may share a port that needs no sharing.
                1 => UdpPort::bind(&bind),
                _ => UdpPort::bind_in_group(&bind, group, number),
            };
            let errors = (number == TUNNELS_WORKER).then(Errors::open).flatten();
            Ok::<_, RelayError>(Sockets { port: port?, tunnels: open_tunnels(plain)?, errors })
        };
        let (handle, started) =
            worker::start(engine, strays, sockets).map_err(SystemError::of("the thread of a worker"))?;
        port = started.await.map_err(|_| WorkerDied)??;
        workers.push(handle);
    }
    Ok((workers, port))
}

/// The socket for IP-in-IP, if it is wanted and the relay may have it.
fn open_tunnels(plain: Option<PlainTunnelsConfig>) -> Result<Option<TunnelSocket>, RelayError> {
    let Some(plain) = plain else { return Ok(None) };
    let is_needed = !plain.pairs.is_empty();
    match TunnelSocket::open(PlainTunnels::new(plain)) {
        Ok(tunnels) => Ok(Some(tunnels)),
        Err(error) if is_needed => Err(RelayError::TunnelSocket(error)),
        Err(error) => {
            let error = crate::error_chain(&error);
            tracing::info!(error, "IP-in-IP unavailable; UDP only");
            Ok(None)
        }
    }
}

/// A relay that takes grants lets every key shake hands, for a grant comes afterwards.
fn allowed_keys(config: &Config) -> AllowedKeys {
    match config.coordinator {
        Some(_) => AllowedKeys::every(),
        None => config.sites.iter().map(|site| site.public_key).collect(),
    }
}

/// Serves others, and by other tunnels, whenever the file has changed, until it is told to end.
async fn obey(mut daemon: Daemon<Config>, hub: &Hub, allowed: &AllowedKeys) -> Result<(), RelayError> {
    while let Order::Reload(config) = daemon.next().await {
        // Whether it takes grants is decided at the start, and with it who shakes hands.
        if !hub.takes_grants() {
            allowed.replace(config.sites.iter().map(|site| site.public_key).collect());
        }
        hub.reload(&config.sites).await?;
        if !hub.reload_tunnels(&config.tunnels).await? {
            tracing::error!(
                "the [[tunnel]] sections count from the next start, with the right CAP_NET_RAW: the relay takes no IP-in-IP"
            );
        }
        let (sites, tunnels) = (config.sites.len(), config.tunnels.len());
        tracing::info!(sites, tunnels, "configuration reloaded");
    }
    Ok(())
}

async fn serve_sites(
    mut accepted: mpsc::Receiver<(Secured, SocketAddr)>,
    hub: Arc<Hub>,
    streams: Arc<Streams>,
) {
    let mut connections = JoinSet::new();
    loop {
        tokio::select! {
            // What has ended makes room; a panic has been reported where it happened.
            Some(_) = connections.join_next() => {}
            next = accepted.recv() => {
                let Some((secured, from)) = next else { return };
                if connections.len() >= MAX_CONNECTIONS {
                    tracing::debug!(%from, "hung up: too many connections");
                    continue;
                }
                let (hub, streams) = (hub.clone(), streams.clone());
                connections.spawn(async move {
                    let key = secured.peer;
                    if let Err(end) = control::serve(hub, streams, secured, from).await {
                        tracing::debug!(%from, %key, end = crate::error_chain(&end), "a connection has ended");
                    }
                });
            }
        }
    }
}
