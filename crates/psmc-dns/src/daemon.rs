//! The program: it loads the zones, and serves them until it is told to stop. At SIGHUP it reads its file anew.

mod host;
mod reload;

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_net::listen::{AnsweringSocket, is_for_v6_only, listen_tcp};
use psmc_net::local;
use psmc_net::room::Room;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use thiserror::Error;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinError, JoinSet};
use tokio::time::interval;
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, TlsConfig};
use crate::server::{Contents, MAX_CONNECTIONS, MAX_PER_SOURCE, Server, serve_tcp, serve_tls, serve_udp};
use crate::status::Status;
use crate::store::{Store, StoreError};
use host::{Running, host};
use psmc_service::daemon::{self, Daemon, Order, SystemError};
use psmc_service::socket;
use reload::{Fixed, Reloader};

/// How often it is looked whether signatures are due: they are made days before they expire.
const RENEWAL_CHECK: Duration = Duration::from_secs(3600);

/// Why the server could not start.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// An address cannot be had.
    #[error(
        "cannot listen on {address} ({what}): is another name server running, and may this user bind the port?"
    )]
    Listen {
        /// Which.
        address: SocketAddr,
        /// UDP, TCP or TLS.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The database cannot be used.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A zone cannot be served.
    #[error("the zone {origin} cannot be served: {reason}")]
    Zone {
        /// Which.
        origin: String,
        /// Why.
        reason: String,
    },
    /// The certificate or its key cannot be read.
    #[error("cannot read the certificate or key of [tls]: both must be PEM files")]
    Pem(#[from] pem::Error),
    /// The certificate and the key are of no use.
    #[error("cannot use the certificate and key of [tls]: do they belong together?")]
    Tls(#[from] rustls::Error),
    /// The local control socket cannot be had.
    #[error("cannot create the control socket")]
    ControlSocket(#[from] local::BindError),
    /// Reading the database failed.
    #[error("reading the database failed")]
    Task(#[from] JoinError),
    /// The operating system refused something basic.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Runs a server until SIGTERM or SIGINT. At SIGHUP it reads its `file` anew: zones, keys and certificates.
///
/// # Errors
/// [`DaemonError`] if something that it cannot do without is missing.
pub fn run(config: Config, file: &Path) -> Result<(), DaemonError> {
    daemon::run(serve(config, file))
}

async fn serve(config: Config, file: &Path) -> Result<(), DaemonError> {
    let mut daemon = Daemon::new(file, Config::load)?;
    let fixed = Fixed::of(&config);
    let store = Arc::new(open_store(&config.database)?);
    let hosted = config.zones.into_iter().map(|zone| host(zone, None, &store));
    let hosted = hosted.collect::<Result<Vec<_>, _>>()?;
    let sources = config.listen.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
    let contents = Contents::new(hosted.iter().cloned(), config.keys);
    let server = Arc::new(Server::new(contents, store, sources.collect()));
    let mut tasks = JoinSet::new();
    let room = Room::new(MAX_CONNECTIONS, MAX_PER_SOURCE);
    for address in config.listen.iter().copied() {
        let failed = |what| move |source| DaemonError::Listen { address, what, source };
        let v6_only = is_for_v6_only(address, &config.listen);
        let udp = AnsweringSocket::bind(address, v6_only).map_err(failed("UDP"))?;
        let tcp = listen_tcp(address, v6_only).and_then(TcpListener::from_std).map_err(failed("TCP"))?;
        tasks.spawn(serve_udp(server.clone(), udp, config.rate_limit));
        tasks.spawn(serve_tcp(server.clone(), tcp, room.clone()));
    }
    let mut certificate = None;
    if let Some(tls) = config.tls {
        let (sender, acceptor) = watch::channel(acceptor(&tls)?);
        certificate = Some(sender);
        for address in tls.listen.iter().copied() {
            let failed = |source| DaemonError::Listen { address, what: "TLS", source };
            let listener = listen_tcp(address, is_for_v6_only(address, &tls.listen));
            let listener = listener.and_then(TcpListener::from_std).map_err(failed)?;
            tasks.spawn(serve_tls(server.clone(), listener, acceptor.clone(), room.clone()));
        }
    }
    tasks.spawn(renew_signatures(server.clone()));
    let (name, started, told) = (config.name.to_string(), Instant::now(), server.clone());
    let report = move || Some(Status::of(&told, name.clone(), started.elapsed().as_secs()));
    let socket = socket::Server::bind(config.control_socket.as_path())?;
    tasks.spawn(socket.tell(move || ready(report())));
    let running = hosted.into_iter().map(|hosted| Running::new(&server, hosted)).collect();
    let mut reloader = Reloader { server, running, certificate, fixed };
    daemon.is_up();
    tracing::info!(name = %config.name, "server started");
    while let Order::Reload(config) = daemon.next().await {
        reloader.reload(config).await;
    }
    tracing::info!("server stopping");
    Ok(())
}

fn open_store(path: &Path) -> Result<Store, DaemonError> {
    if let Some(directory) = path.parent() {
        let made = std::fs::create_dir_all(directory);
        made.map_err(SystemError::of("the directory of the database"))?;
    }
    Ok(Store::open(path)?)
}

async fn renew_signatures(server: Arc<Server>) {
    let mut due = interval(RENEWAL_CHECK);
    loop {
        due.tick().await;
        for hosted in server.contents().zones() {
            server.renew(hosted).await;
        }
    }
}

fn acceptor(tls: &TlsConfig) -> Result<TlsAcceptor, DaemonError> {
    let certificates: Vec<CertificateDer<'static>> =
        CertificateDer::pem_file_iter(&tls.certificate_file)?.collect::<Result<_, _>>()?;
    let key = PrivateKeyDer::from_pem_file(&tls.private_key_file)?;
    let mut config =
        rustls::ServerConfig::builder_with_provider(rustls::crypto::aws_lc_rs::default_provider().into())
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
    // The name of DNS over TLS (RFC 7858, in the registry of RFC 7301).
    config.alpn_protocols = vec![b"dot".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}
