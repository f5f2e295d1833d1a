//! What a configuration makes of a resolver, and the one that takes its place when the file is read anew.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, PoisonError, RwLock};

use psmc_toml::SocketPath;
use tokio::task::JoinSet;

use super::cache::Bounds;
use super::config::Config;
use super::daemon::ResolveError;
use super::lookup::Lookup;
use super::service::{Service, Shared, Turns};
use super::status::Counters;
use super::tunnels::Tunnels;
use super::upstream::{UpstreamAddress, Upstreams, client_config};
use super::{Resolver, signal as coordinator};

/// The resolver of the moment.
pub(super) struct Current(RwLock<Arc<Resolver>>);

impl Current {
    pub(super) fn new(resolver: Arc<Resolver>) -> Self {
        Self(RwLock::new(resolver))
    }

    pub(super) fn get(&self) -> Arc<Resolver> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// What is being answered is answered by the one before.
    pub(super) fn replace(&self, resolver: Arc<Resolver>) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = resolver;
    }
}

/// What a running resolver cannot change.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Fixed {
    pub(super) name: String,
    pub(super) listen: Vec<SocketAddr>,
    pub(super) control_socket: SocketPath,
}

impl Fixed {
    pub(super) fn of(config: &Config) -> Self {
        Self {
            name: config.name.to_string(),
            listen: config.listen.clone(),
            control_socket: config.control_socket.clone(),
        }
    }
}

/// Whom a resolver asks, and how much of the answers it keeps.
#[derive(Debug, PartialEq, Eq)]
struct Asked {
    upstream: Vec<UpstreamAddress>,
    ca_file: Option<PathBuf>,
    cache_mib: u32,
}

/// A resolver, and the tasks of its services, which end with the value.
pub(super) struct Resolving {
    pub(super) resolver: Arc<Resolver>,
    pub(super) tasks: JoinSet<()>,
    asked: Asked,
}

impl Resolving {
    /// What the configuration says, with the answers that the one before has kept, if the same servers have given them.
    pub(super) fn new(
        config: Config,
        tunnels: &Arc<dyn Tunnels>,
        before: Option<&Self>,
    ) -> Result<Self, ResolveError> {
        let directory = config.state_directory;
        std::fs::create_dir_all(&directory)
            .map_err(|source| ResolveError::Directory { path: directory.clone(), source })?;
        let asked = Asked { upstream: config.upstream, ca_file: config.ca_file, cache_mib: config.cache_mib };
        let counters = before.map_or_else(Arc::default, |before| before.resolver.counters.clone());
        let lookup = match before.filter(|before| before.asked == asked) {
            Some(before) => before.resolver.shared.lookup.clone(),
            None => lookup(&asked, &counters)?,
        };
        let shared = Arc::new(Shared {
            lookup,
            tunnels: tunnels.clone(),
            turns: Turns::default(),
            counters: counters.clone(),
            directory,
            patience: config.patience,
        });
        let mut tasks = JoinSet::new();
        let services = config.services.into_iter().map(|service| {
            let name = service.name.clone();
            (name, Service::start(service, &shared, &mut tasks))
        });
        let services: BTreeMap<_, _> = services.collect();
        // A service is where the file says, whatever its address in DNS.
        let own = config.private.into_iter().chain(services.keys().cloned()).collect();
        let (passed_on, clients) = (config.passed_on, config.clients);
        let resolver = Arc::new(Resolver { shared, counters, services, passed_on, own, clients });
        if let Some(config) = config.coordinator {
            tasks.spawn(coordinator::listen(resolver.clone(), config));
        }
        Ok(Self { resolver, tasks, asked })
    }

    /// The one that takes its place.
    pub(super) fn succeed(
        &self,
        config: Config,
        tunnels: &Arc<dyn Tunnels>,
        fixed: &Fixed,
    ) -> Result<Self, ResolveError> {
        if Fixed::of(&config) != *fixed {
            tracing::warn!(
                "name, listen and control_socket need a restart, as does [system]; they are unchanged"
            );
        }
        Self::new(config, tunnels, Some(self))
    }
}

fn lookup(asked: &Asked, counters: &Arc<Counters>) -> Result<Arc<Lookup>, ResolveError> {
    let upstreams = Upstreams::new(&asked.upstream, &client_config(asked.ca_file.as_deref())?);
    Ok(Lookup::new(upstreams, Bounds::of_mib(asked.cache_mib), counters.clone()))
}
