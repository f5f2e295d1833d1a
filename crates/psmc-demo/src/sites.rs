//! The daemons of the two sites, and the relays between them.

mod configuration;

use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_testbed::netns::Namespace;
use tokio::time::sleep;

use super::DemoError;
use super::launch::{POLL, ProgramKind, UP_WITHIN, end, log_tail, spawn, write_private};
use super::network::{Link, Network};
use psmc_api::{Client, ClientError, PathState, PathStatus, PeerStatus, Status};

pub(super) use configuration::HQ_INSIDE;

/// Both sites, running.
pub(super) struct Sites {
    van: Site,
    hq: Site,
    /// How many paths there shall be.
    paths: usize,
    /// When the van was started.
    started: Instant,
}

/// One daemon; it is killed on drop.
struct Site {
    name: &'static str,
    daemon: Child,
    log: PathBuf,
    socket: PathBuf,
}

impl Sites {
    /// Makes configurations, and starts the daemons, that of the van with this key.
    pub(super) async fn start(
        network: &Network,
        van_key: &PrivateKey,
        relays: &Relays,
        directory: &Path,
    ) -> Result<Self, DemoError> {
        let hq_key = PrivateKey::generate();
        let hq = configuration::hq(&hq_key, &van_key.public(), &directory.join("hq.sock"));
        let socket = directory.join("van.sock");
        let van = configuration::van(van_key, &hq_key.public(), network.links, relays, &socket);
        let mut hq = Site::start("hq", &network.hq, directory, &hq)?;
        // Who calls before anybody listens pauses before the next call: no part of the time that a tunnel takes.
        hq.wait_until_it_answers().await?;
        let started = Instant::now();
        let van = Site::start("van", &network.van, directory, &van)?;
        Ok(Self { van, hq, paths: network.links.len(), started })
    }

    /// Waits until the tunnel carries data over every path, and returns how long that took since the van's start.
    pub(super) async fn wait_until_up(&mut self) -> Result<Duration, DemoError> {
        let mut state = "the daemon is not reached yet".to_owned();
        while self.started.elapsed() < UP_WITHIN {
            self.check()?;
            // A daemon that has just started has no socket yet.
            if let Ok(status) = self.van.status().await {
                if is_up(&status, self.paths) {
                    return Ok(self.started.elapsed());
                }
                state = summary(&status);
            }
            sleep(POLL).await;
        }
        Err(DemoError::NotUp {
            waited: UP_WITHIN,
            state,
            logs: [&self.van, &self.hq].map(Site::log_tail).join("\n"),
        })
    }

    /// The van's paths.
    pub(super) async fn paths(&mut self) -> Result<Vec<PathStatus>, DemoError> {
        self.check()?;
        let status = self.van.status().await;
        let status = status.map_err(|error| self.van.unanswered(error))?;
        Ok(paths(&status).to_vec())
    }

    fn check(&mut self) -> Result<(), DemoError> {
        self.van.check()?;
        self.hq.check()
    }
}

impl Site {
    fn start(
        name: &'static str,
        host: &Namespace,
        directory: &Path,
        configuration: &str,
    ) -> Result<Self, DemoError> {
        let file = directory.join(name).with_extension("toml");
        write_private(&file, configuration)?;
        let log = directory.join(name).with_extension("log");
        let daemon = spawn(host, ProgramKind::Daemon, &file, &log)
            .map_err(|source| DemoError::Start { site: name.to_owned(), source })?;
        Ok(Self { name, daemon, log, socket: directory.join(name).with_extension("sock") })
    }

    /// Fails if the daemon has ended.
    fn check(&mut self) -> Result<(), DemoError> {
        let how = match self.daemon.try_wait() {
            Ok(None) => return Ok(()),
            Ok(Some(status)) => status.to_string(),
            Err(error) => error.to_string(),
        };
        Err(DemoError::Ended { site: self.name.to_owned(), how, log: self.log_tail() })
    }

    async fn wait_until_it_answers(&mut self) -> Result<(), DemoError> {
        let deadline = Instant::now() + UP_WITHIN;
        loop {
            self.check()?;
            match self.status().await {
                Ok(_) => return Ok(()),
                Err(error) if Instant::now() > deadline => return Err(self.unanswered(error)),
                Err(_) => sleep(POLL).await,
            }
        }
    }

    fn unanswered(&self, error: ClientError) -> DemoError {
        DemoError::Status { site: self.name.to_owned(), error, log: self.log_tail() }
    }

    async fn status(&self) -> Result<Status, ClientError> {
        let socket = self.socket.clone();
        // The client blocks, and what else is going on must not wait for it.
        let ask = tokio::task::spawn_blocking(move || Client::connect(&socket)?.status());
        ask.await.unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
    }

    fn log_tail(&self) -> String {
        log_tail(&self.log, self.name)
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        end(&mut self.daemon);
    }
}

/// A relay at the end of each link that leads to one.
pub(crate) struct Relays {
    relays: Vec<Relay>,
}

/// One relay; it is killed on drop.
struct Relay {
    name: &'static str,
    key: PublicKey,
    program: Child,
    file: PathBuf,
    log: PathBuf,
    socket: PathBuf,
}

impl Relays {
    /// Starts them, for a site with this key, and waits until they serve.
    pub(crate) async fn start(
        network: &Network,
        directory: &Path,
        site: &PublicKey,
    ) -> Result<Self, DemoError> {
        let links = network.hosts().filter(|(link, _)| link.to_relay.is_some());
        let relays = links.map(|(link, host)| Relay::start(link, host, directory, site));
        let relays = Self { relays: relays.collect::<Result<_, _>>()? };
        for relay in &relays.relays {
            relay.wait_until_it_answers().await?;
        }
        Ok(relays)
    }

    /// None.
    #[cfg(test)]
    pub(super) fn none() -> Self {
        Self { relays: Vec::new() }
    }

    /// The key of the relay at the end of a link.
    pub(super) fn key(&self, link: &Link) -> Option<&PublicKey> {
        self.relays.iter().find(|relay| relay.name == link.name).map(|relay| &relay.key)
    }

    /// Kills the relay at the end of a link, without a word.
    pub(crate) fn kill(&mut self, link: &Link) {
        for relay in self.relays.iter_mut().filter(|relay| relay.name == link.name) {
            end(&mut relay.program);
        }
    }

    /// Starts the relay at the end of a link once more.
    pub(crate) fn restart(&mut self, network: &Network, link: &Link) -> Result<(), DemoError> {
        for relay in self.relays.iter_mut().filter(|relay| relay.name == link.name) {
            relay.program = run_relay(relay.name, network.far(link), &relay.file, &relay.log)?;
        }
        Ok(())
    }
}

impl Relay {
    fn start(link: &Link, host: &Namespace, directory: &Path, site: &PublicKey) -> Result<Self, DemoError> {
        let key = PrivateKey::generate();
        let of_kind = |kind: &str| directory.join(link.name).with_extension(kind);
        let (file, log, socket) = (of_kind("toml"), of_kind("log"), of_kind("sock"));
        write_private(&of_kind("key"), key.to_base64().as_str())?;
        write_private(&file, &configuration::relay(link, &of_kind("key"), site, &socket))?;
        let program = run_relay(link.name, host, &file, &log)?;
        Ok(Self { name: link.name, key: key.public(), program, file, log, socket })
    }

    async fn wait_until_it_answers(&self) -> Result<(), DemoError> {
        let deadline = Instant::now() + UP_WITHIN;
        while let Err(error) = psmc_relay::status::ask(&self.socket) {
            if Instant::now() > deadline {
                let log = log_tail(&self.log, self.name);
                let error = psmc_service::error_chain(&error);
                return Err(DemoError::Relay { relay: self.name, error, log });
            }
            sleep(POLL).await;
        }
        Ok(())
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        end(&mut self.program);
    }
}

fn paths(status: &Status) -> &[PathStatus] {
    status.peers.first().map_or(&[], |peer| &peer.paths)
}

fn is_up(status: &Status, wanted: usize) -> bool {
    let active = paths(status).iter().filter(|path| path.state == PathState::Active);
    active.count() == wanted
}

/// The state of the peer and its paths, in a line.
fn summary(status: &Status) -> String {
    let of_peer = |peer: &PeerStatus| {
        let paths = peer.paths.iter().map(|path| format!(", {} {}", path.name, path.state));
        let error = peer.control.last_error.iter().map(|error| format!(", control connection: {error}"));
        format!("{} {}", peer.name, peer.state) + &paths.chain(error).collect::<String>()
    };
    status.peers.iter().map(of_peer).collect()
}

fn run_relay(name: &'static str, host: &Namespace, file: &Path, log: &Path) -> Result<Child, DemoError> {
    spawn(host, ProgramKind::Relay, file, log)
        .map_err(|source| DemoError::Start { site: name.to_owned(), source })
}
