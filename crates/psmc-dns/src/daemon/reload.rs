//! Reading the configuration anew while the server runs.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

use psmc_toml::SocketPath;
use tokio::sync::watch;
use tokio_rustls::TlsAcceptor;

use super::acceptor;
use super::host::{Running, succeed};
use crate::config::{Config, TlsConfig, ZoneConfig};
use crate::error_chain;
use crate::server::{Contents, Hosted, Server};

/// What a running server cannot change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    name: String,
    listen: Vec<SocketAddr>,
    tls: Option<Vec<SocketAddr>>,
    database: PathBuf,
    rate_limit: u32,
    control_socket: SocketPath,
}

impl Fixed {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            name: config.name.to_string(),
            listen: config.listen.clone(),
            tls: config.tls.as_ref().map(|tls| tls.listen.clone()),
            database: config.database.clone(),
            rate_limit: config.rate_limit,
            control_socket: config.control_socket.clone(),
        }
    }
}

/// What a configuration that is read anew replaces.
pub(super) struct Reloader {
    pub(super) server: Arc<Server>,
    pub(super) running: Vec<Running>,
    pub(super) certificate: Option<watch::Sender<TlsAcceptor>>,
    pub(super) fixed: Fixed,
}

impl Reloader {
    /// Goes by another file. A zone that cannot be had stays as it is.
    pub(super) async fn reload(&mut self, config: Config) {
        if Fixed::of(&config) != self.fixed {
            tracing::warn!(
                "name, listen, database, rate_limit and control_socket need a restart; they are unchanged"
            );
        }
        if let Some(tls) = &config.tls {
            self.renew_certificate(tls);
        }
        let mut zones = Vec::new();
        for zone in config.zones {
            zones.extend(self.zone(zone).await);
        }
        let number = zones.len();
        self.server.replace(Contents::new(zones.iter().cloned(), config.keys));
        self.running = zones.into_iter().map(|zone| Running::new(&self.server, zone)).collect();
        tracing::info!(zones = number, "configuration reloaded");
    }

    fn renew_certificate(&self, tls: &TlsConfig) {
        match (acceptor(tls), &self.certificate) {
            (Ok(acceptor), Some(certificate)) => drop(certificate.send(acceptor)),
            (Ok(_), None) => {}
            (Err(error), _) => {
                let error = error_chain(&error);
                tracing::error!(error, "cannot use the new certificate; the previous one stays in use");
            }
        }
    }

    /// The zone as it is to be; as it was, where that cannot be had.
    async fn zone(&self, config: ZoneConfig) -> Option<Arc<Hosted>> {
        let running = self.running.iter().find(|running| *running.hosted.origin() == config.origin);
        let old = running.map(|running| running.hosted.clone());
        let origin = config.origin.clone();
        succeed(config, old.clone(), self.server.store()).await.map_or_else(
            |error| {
                let error = error_chain(&error);
                tracing::error!(zone = %origin, error, "zone not reloaded; the current version stays");
                old
            },
            Some,
        )
    }
}
