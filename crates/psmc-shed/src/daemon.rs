//! The program: the server's side, the router's, or both, until it is told to stop.

use std::path::Path;
use std::time::Instant;

use psmc_net::local::BindError;
use psmc_net::tls::Identity;
use psmc_service::daemon::{self, Daemon, Order, SystemError};
use psmc_service::http::HttpError;
use psmc_service::metrics as prometheus;
use psmc_service::socket;
use thiserror::Error;
use tokio::sync::{oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};

use crate::config::{self, Config};
use crate::router::table::TableError;
use crate::router::{Router, RouterError};
use crate::server::Server;
use crate::status::{METRICS, RouterStatus, ServerStatus, Status};

/// The version of the status.
const STATUS_VERSION: u32 = 1;

/// Why the agent could not start, or ended.
#[derive(Debug, Error)]
pub enum DaemonError {
    /// It can be no router.
    #[error(transparent)]
    Router(#[from] RouterError),
    /// It cannot count what arrives.
    #[error("cannot count what arrives")]
    Arrivals(#[from] TableError),
    /// The local control socket cannot be had.
    #[error("cannot create the control socket")]
    ControlSocket(#[from] BindError),
    /// The address for metrics cannot be had.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// The operating system refused something basic.
    #[error(transparent)]
    System(#[from] SystemError),
}

/// Runs an agent until SIGTERM or SIGINT. At SIGHUP `file` is read anew.
///
/// # Errors
/// [`DaemonError`] if something that it cannot do without is missing.
pub fn run(config: Config, file: &Path) -> Result<(), DaemonError> {
    daemon::run(work(config, file))
}

async fn work(config: Config, file: &Path) -> Result<(), DaemonError> {
    let mut daemon = Daemon::new(file, Config::load)?;
    let mut agent = Agent::start(config)?;
    let _tellers = agent.tell().await?;
    daemon.is_up();
    tracing::info!(name = %agent.config.name, "agent started");
    while let Order::Reload(new) = daemon.next().await {
        agent.reload(new).await;
    }
    tracing::info!("agent stopping");
    agent.stop().await;
    Ok(())
}

/// An agent that runs.
struct Agent {
    config: Config,
    identity: Identity,
    server: Option<RunningServer>,
    router: Option<(watch::Sender<config::Router>, JoinHandle<()>)>,
    served: watch::Sender<Option<ServerStatus>>,
    routed: watch::Sender<Option<RouterStatus>>,
    started: Instant,
}

struct RunningServer {
    stop: oneshot::Sender<()>,
    work: JoinHandle<()>,
}

impl Agent {
    fn start(config: Config) -> Result<Self, DaemonError> {
        let identity = Identity::new(&config.private_key);
        let (served, routed) = (watch::Sender::new(None), watch::Sender::new(None));
        let router = match &config.router {
            Some(section) => {
                let router = Router::start(&config.name, &identity, section.clone())?;
                let (changes, configs) = watch::channel(section.clone());
                Some((changes, tokio::spawn(router.run(configs, routed.clone()))))
            }
            None => None,
        };
        let mut agent =
            Self { config, identity, server: None, router, served, routed, started: Instant::now() };
        agent.start_server()?;
        Ok(agent)
    }

    fn start_server(&mut self) -> Result<(), TableError> {
        let Some(section) = self.config.server.clone() else { return Ok(()) };
        let server = Server::start(&self.config.name, &self.identity, section)?;
        let (stop, stopped) = oneshot::channel();
        let work = tokio::spawn(server.run(self.served.clone(), stopped));
        self.server = Some(RunningServer { stop, work });
        Ok(())
    }

    async fn stop_server(&mut self) {
        if let Some(RunningServer { stop, work }) = self.server.take() {
            // One that has ended by itself needs no word.
            let _ = stop.send(());
            let _ = work.await;
            self.served.send_replace(None);
        }
    }

    /// Begins to tell how the agent is; it ends with what is returned.
    async fn tell(&self) -> Result<JoinSet<()>, DaemonError> {
        let mut tellers = JoinSet::new();
        let socket = socket::Server::bind(self.config.control_socket.as_path())?;
        let (name, public_key) = (self.config.name.to_string(), self.config.private_key.public().to_string());
        let (served, routed, started) = (self.served.subscribe(), self.routed.subscribe(), self.started);
        let ask = move || {
            let status = Status {
                version: STATUS_VERSION,
                name: name.clone(),
                public_key: public_key.clone(),
                uptime_s: started.elapsed().as_secs(),
                server: served.borrow().clone(),
                router: routed.borrow().clone(),
            };
            std::future::ready(Some(status))
        };
        tellers.spawn(socket.tell(ask.clone()));
        if let Some(address) = self.config.metrics {
            tellers.spawn(prometheus::serve(address, METRICS, ask).await?);
        }
        Ok(tellers)
    }

    /// Goes by another file, as far as an agent that runs can.
    async fn reload(&mut self, new: Config) {
        let lasting = |config: &Config| {
            let router = config.router.as_ref().map(|router| (router.listen, router.interfaces.clone()));
            (
                config.name.clone(),
                config.private_key.public(),
                config.control_socket.clone(),
                config.metrics,
                router,
            )
        };
        if lasting(&new) != lasting(&self.config) {
            tracing::error!(
                "configuration not reloaded; the current one stays in force: for another name, private_key_file, control_socket, \
                 metrics, listen or interfaces the agent has to be started anew"
            );
            return;
        }
        let is_same_server = new.server == self.config.server;
        self.config = new;
        if let (Some((changes, _)), Some(section)) = (&self.router, &self.config.router) {
            changes.send_replace(section.clone());
        }
        if !is_same_server {
            self.stop_server().await;
            if let Err(error) = self.start_server() {
                tracing::error!(error = crate::error_chain(&error), "no server until the next reload");
            }
        }
        tracing::info!("configuration reloaded");
    }

    async fn stop(mut self) {
        self.stop_server().await;
        if let Some((changes, work)) = self.router.take() {
            drop(changes);
            // A panic was reported where it happened.
            let _ = work.await;
        }
    }
}
