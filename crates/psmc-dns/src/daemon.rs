//! The program: it loads the zones, and serves them until it is told to stop.

use std::future::ready;
use std::io;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hickory_proto::rr::SerialNumber;
use psmc_net::local;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem};
use thiserror::Error;
use tokio::net::{TcpListener, UdpSocket};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;
use tokio::task::JoinSet;
use tokio::time::interval;
use tokio_rustls::TlsAcceptor;

use crate::config::{Config, Content, TlsConfig, ZoneConfig};
use crate::server::{
    Hosted, MAX_CONNECTIONS, Role, Server, follow_primary, serve_tcp, serve_tls, serve_udp, tell_secondaries,
};
use crate::status::Status;
use crate::store::{Store, StoreError};
use crate::update::unix_now;
use crate::zone::Zone;
use psmc_program::status::StatusSocket;

/// How often it is looked whether signatures are due: they are made days before they expire.
const RENEWAL_CHECK: Duration = Duration::from_secs(3600);

/// Why the server could not start.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// An address cannot be had.
    #[error(
        "cannot listen on {address} ({what}): is another name server there, and may this user have the port?"
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
    #[error("cannot read the certificate or the key of [tls]: both are files in the format PEM")]
    Pem(#[from] pem::Error),
    /// The certificate and the key are of no use.
    #[error("cannot serve TLS with the certificate and the key of [tls]: are they of one another?")]
    Tls(#[from] rustls::Error),
    /// The local control socket cannot be had.
    #[error("cannot make the control socket")]
    ControlSocket(#[from] local::BindError),
    /// The operating system refused something basic.
    #[error("cannot start: {what}")]
    System {
        /// What was refused.
        what: &'static str,
        /// What the system said.
        source: io::Error,
    },
}

/// Runs a server until SIGTERM or SIGINT.
///
/// # Errors
/// [`DaemonError`] if something that it cannot do without is missing.
pub fn run(config: Config) -> Result<(), DaemonError> {
    let runtime = Builder::new_current_thread().enable_all().build();
    let runtime =
        runtime.map_err(|source| DaemonError::System { what: "the asynchronous runtime", source })?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), DaemonError> {
    let store = Arc::new(open_store(&config.database)?);
    let zones = config.zones.into_iter().map(|zone| host(zone, &store)).collect::<Result<Vec<_>, _>>()?;
    let sources = config.listen.iter().map(SocketAddr::ip).filter(|ip| !ip.is_unspecified());
    let server = Arc::new(Server::new(zones, config.keys, store, sources.collect()));
    let mut tasks = JoinSet::new();
    let room = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    for address in config.listen {
        let failed = |what| move |source| DaemonError::Listen { address, what, source };
        let udp = UdpSocket::bind(address).await.map_err(failed("UDP"))?;
        let tcp = TcpListener::bind(address).await.map_err(failed("TCP"))?;
        tasks.spawn(serve_udp(server.clone(), udp, config.rate_limit));
        tasks.spawn(serve_tcp(server.clone(), tcp, room.clone()));
    }
    if let Some(tls) = config.tls {
        let acceptor = acceptor(&tls)?;
        for address in tls.listen {
            let failed = |source| DaemonError::Listen { address, what: "TLS", source };
            let listener = TcpListener::bind(address).await.map_err(failed)?;
            tasks.spawn(serve_tls(server.clone(), listener, acceptor.clone(), room.clone()));
        }
    }
    for hosted in server.zones().cloned() {
        tasks.spawn(tell_secondaries(server.clone(), hosted.clone()));
        tasks.spawn(follow_primary(server.clone(), hosted));
    }
    tasks.spawn(renew_signatures(server.clone()));
    let (name, started) = (config.name.to_string(), Instant::now());
    let report = move || Some(Status::of(&server, name.clone(), started.elapsed().as_secs()));
    let status = StatusSocket::bind(config.control_socket.as_path())?;
    tasks.spawn(status.serve(move || ready(report())));
    tracing::info!(name = %config.name, "the server is up");
    stopped().await?;
    tracing::info!("the server stops");
    Ok(())
}

fn open_store(path: &Path) -> Result<Store, DaemonError> {
    if let Some(directory) = path.parent() {
        let made = std::fs::create_dir_all(directory);
        made.map_err(|source| DaemonError::System { what: "the directory of the database", source })?;
    }
    Ok(Store::open(path)?)
}

/// A zone with what is known of it: from its file, or, where it changes or is another's, from the database.
fn host(config: ZoneConfig, store: &Store) -> Result<Arc<Hosted>, DaemonError> {
    let ZoneConfig { origin, content, access, secondaries } = config;
    let (role, zone) = match content {
        Content::File { zone, updaters, signer } => {
            let is_kept = !updaters.is_empty() || signer.is_some();
            let kept = if is_kept { store.load(&origin)? } else { None };
            // Of a zone that others change the file is where it began. Of one that is only signed here, the serial
            // number in the database has risen with the signatures; a file with a higher one is newer.
            let is_newer = |kept: &Zone| SerialNumber::new(kept.serial()) > SerialNumber::new(zone.serial());
            let zone = match kept {
                Some(kept) if !updaters.is_empty() || is_newer(&kept) => {
                    tracing::info!(zone = %origin, serial = kept.serial(), "the zone is taken from the database");
                    kept
                }
                Some(_) | None => zone,
            };
            if is_kept {
                store.replace(&zone)?;
            }
            (Role::Primary { updaters, signer }, Some(zone))
        }
        Content::Primary { address, key } => {
            (Role::Secondary { primary: address, key }, store.load(&origin)?)
        }
    };
    let hosted = Hosted::new(&origin, role, access, secondaries);
    if let Some(zone) = zone {
        hosted
            .serve(zone, unix_now())
            .map_err(|reason| DaemonError::Zone { origin: origin.to_string(), reason })?;
    }
    Ok(Arc::new(hosted))
}

async fn renew_signatures(server: Arc<Server>) {
    let mut due = interval(RENEWAL_CHECK);
    loop {
        due.tick().await;
        for hosted in server.zones() {
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

/// Ready when the server is told to stop.
async fn stopped() -> Result<(), DaemonError> {
    let on = |kind| signal(kind).map_err(|source| DaemonError::System { what: "signal handlers", source });
    let (mut terminate, mut interrupt) = (on(SignalKind::terminate())?, on(SignalKind::interrupt())?);
    tokio::select! {
        _ = terminate.recv() => {}
        _ = interrupt.recv() => {}
    }
    Ok(())
}
