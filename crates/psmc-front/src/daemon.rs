//! The program: from the first listener to the last answer.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use psmc_net::listen::{is_for_v6_only, listen_tcp};
use psmc_service::daemon::{self, Daemon, Order, SystemError};
use psmc_service::http::HttpError;
use psmc_service::metrics as prometheus;
use psmc_service::{open_files, socket};
use psmc_shares::admission::{
    self, ClassConfig, ConfigError as AdmissionError, LimitConfig, Measure, ServerConfig,
};
use psmc_shares::{ClassId, ClassSet, ServerId};
use thiserror::Error;
use tokio::sync::{Semaphore, watch};
use tokio::task::JoinSet;
use tokio::time::timeout;

use crate::config::{Config, Hold, Limit};
use crate::gate::Gate;
use crate::listener::Listening;
use crate::peers;
use crate::proxy::{Front, State};
use crate::status::{METRICS, Status};
use crate::upstream::Server;

/// Why the front could not start.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// Nothing can listen there.
    #[error("cannot listen on {address}: `ss -ltnp` shows which program does")]
    Listen {
        /// The address and port.
        address: SocketAddr,
        /// What the system said.
        source: std::io::Error,
    },
    /// The classes cannot be told apart.
    #[error("cannot hold these classes")]
    Classes(#[from] AdmissionError),
    /// The local control socket cannot be had.
    #[error("cannot create the control socket")]
    ControlSocket(#[from] socket::BindError),
    /// The address for metrics cannot be had.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The operating system refused something basic.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Runs a front until SIGTERM or SIGINT, and then until its answers have ended. At SIGHUP `file` is read anew.
///
/// # Errors
/// [`DaemonError`] if something that it cannot do without is missing.
pub fn run(config: Config, file: &Path) -> Result<(), DaemonError> {
    daemon::run(work(config, file))
}

async fn work(config: Config, file: &Path) -> Result<(), DaemonError> {
    let mut daemon = Daemon::new(file, Config::load)?;
    if let Err(error) = open_files::raise() {
        tracing::warn!(%error, "cannot raise the number of open files");
    }
    let mut running = Running::start(config)?;
    let _tellers = running.tell().await?;
    daemon.is_up();
    tracing::info!(name = %running.front.state().config.name, "front started");
    while let Order::Reload(new) = daemon.next().await {
        running.reload(new);
    }
    tracing::info!("front stopping");
    running.stop().await;
    Ok(())
}

/// A front that runs.
struct Running {
    front: Arc<Front>,
    listening: BTreeMap<SocketAddr, Listening>,
    room: Arc<Semaphore>,
    /// Becomes true when connections are to end; whoever holds a receiver has not.
    ending: watch::Sender<bool>,
    watchers: JoinSet<()>,
    /// Gone when the front is.
    _clock: JoinSet<()>,
    started: Instant,
}

impl Running {
    fn start(config: Config) -> Result<Self, DaemonError> {
        let gate = Gate::new(admission_of(&config))?;
        let state = state(config.clone(), &[]);
        let limits = config.limits.clone();
        let front = Arc::new(Front::new(state, gate));
        let mut clock = JoinSet::new();
        let gate = front.gate.clone();
        clock.spawn(async move { gate.keep_time().await });
        clock.spawn(peers::follow(front.clone()));
        let mut running = Self {
            front,
            listening: BTreeMap::new(),
            room: Arc::new(Semaphore::new(limits.connections)),
            ending: watch::Sender::new(false),
            watchers: JoinSet::new(),
            _clock: clock,
            started: Instant::now(),
        };
        running.watch();
        running.listen(&config)?;
        Ok(running)
    }

    /// Has listeners on all addresses of the configuration. Those that listen go on; if one cannot, nothing has changed.
    fn listen(&mut self, config: &Config) -> Result<(), DaemonError> {
        let all: Vec<SocketAddr> = config.listeners.iter().map(|listener| listener.address).collect();
        let mut new = BTreeMap::new();
        for listener in
            config.listeners.iter().filter(|listener| !self.listening.contains_key(&listener.address))
        {
            let address = listener.address;
            let failed = |source| DaemonError::Listen { address, source };
            let socket = listen_tcp(address, is_for_v6_only(address, &all)).map_err(failed)?;
            let (front, room, ending) = (self.front.clone(), self.room.clone(), self.ending.subscribe());
            let started = Listening::start(socket, listener.clone(), front, room, ending);
            new.insert(address, started.map_err(failed)?);
        }
        for listener in &config.listeners {
            if let Some(listening) = self.listening.get(&listener.address) {
                listening.change(listener.clone());
            }
        }
        self.listening.retain(|address, _| all.contains(address));
        self.listening.extend(new);
        Ok(())
    }

    /// Watches the servers of the configuration, and no others.
    fn watch(&mut self) {
        self.watchers = JoinSet::new();
        let state = self.front.state();
        for (number, server) in state.servers.iter().enumerate() {
            let upstream = state.group_of(ServerId(number)).clone();
            self.watchers.spawn(server.clone().watch(ServerId(number), self.front.gate.clone(), upstream));
        }
    }

    /// Begins to tell how the front is; it ends with what is returned.
    async fn tell(&self) -> Result<JoinSet<()>, DaemonError> {
        let mut tellers = JoinSet::new();
        let state = self.front.state();
        let socket = socket::Server::bind(state.config.control_socket.as_path())?;
        let (front, started) = (self.front.clone(), self.started);
        let ask = move || std::future::ready(Some(Status::of(&front, started.elapsed())));
        tellers.spawn(socket.tell(ask.clone()));
        if let Some(address) = state.config.metrics {
            tellers.spawn(prometheus::serve(address, METRICS, ask).await?);
        }
        Ok(tellers)
    }

    /// Goes by another file, as far as a front that runs can. Requests that are on their way go on as they began.
    fn reload(&mut self, new: Config) {
        let lasting = |config: &Config| {
            let connections = config.limits.connections;
            (config.name.clone(), config.control_socket.clone(), config.metrics, connections)
        };
        let old = self.front.state();
        if lasting(&new) != lasting(&old.config) {
            tracing::error!(
                "configuration not reloaded; the current one stays in force: for another name, control_socket, metrics or connections \
                 the front has to be started anew"
            );
            return;
        }
        if let Err(error) = self.listen(&new) {
            let error = crate::error_chain(&error);
            tracing::error!(error, "configuration not reloaded; the current one stays in force");
            return;
        }
        let admission = admission_of(&new);
        if admission != admission_of(&old.config)
            && let Err(error) = self.front.gate.reconfigure(admission)
        {
            let error = crate::error_chain(&error);
            tracing::error!(error, "configuration not reloaded but for its listeners");
            return;
        }
        let state = state(new, &old.servers);
        for (number, server) in state.servers.iter().enumerate() {
            self.front.gate.set_available(ServerId(number), server.is_up());
        }
        self.front.set_state(state);
        self.watch();
        tracing::info!("configuration reloaded");
    }

    /// Takes no more connections, and waits for what goes on, though not for ever.
    async fn stop(self) {
        let Self { front, listening, ending, .. } = self;
        let ended = async {
            for listening in listening.values() {
                listening.stop().await;
            }
            ending.send_replace(true);
            ending.closed().await;
        };
        if timeout(front.state().config.limits.drain_time, ended).await.is_err() {
            tracing::warn!("stopped before all requests had ended: they took longer than `drain_time`");
        }
    }
}

/// What requests go by with this configuration: the servers that were there already, with their connections, and new ones.
fn state(config: Config, old: &[Arc<Server>]) -> State {
    let (mut servers, mut groups) = (Vec::new(), Vec::new());
    for (number, group) in config.upstreams.iter().enumerate() {
        for address in &group.servers {
            let known = old.iter().find(|server| server.is(*address, group)).cloned();
            servers.push(known.unwrap_or_else(|| Arc::new(Server::new(*address, group))));
            groups.push(number);
        }
    }
    State { config, servers, groups }
}

/// What the admission machine goes by.
pub(crate) fn admission_of(config: &Config) -> admission::Config {
    let classes = config.classes.iter().map(|class| ClassConfig {
        ratio: class.ratio,
        objective: class.p99,
        shed: class.shed,
        max_waiting: class.queue,
    });
    let mut servers = Vec::new();
    for (number, group) in config.upstreams.iter().enumerate() {
        let limit = match group.limit {
            Limit::Adaptive => LimitConfig::Adaptive,
            Limit::Fixed(limit) => LimitConfig::Fixed(limit),
        };
        let served = config.classes.iter().enumerate().filter(|(_, class)| class.upstreams.contains(&number));
        let classes = ClassSet::of(served.map(|(place, _)| ClassId(place)));
        servers.extend(group.servers.iter().map(|_| ServerConfig { limit, classes }));
    }
    let measure = match config.hold {
        Hold::ResponseTime => Measure::ResponseTime,
        Hold::Slowdown => Measure::Slowdown,
    };
    let idling = config.idling;
    admission::Config { classes: classes.collect(), servers, measure, idling, ..admission::Config::default() }
}
