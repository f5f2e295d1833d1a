//! The programs of all hosts, and what guard and coordinator tell of themselves, as far as it is looked at.

use std::collections::BTreeMap;
use std::os::unix::net::UnixStream;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::time::{Duration, Instant};

use psmc_service::socket::{Client as StatusClient, Report, StatusOf};
use psmc_signal::Stage;
use psmc_testbed::netns::Namespace;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::task::spawn_blocking;
use tokio::time::sleep;

use super::files::{self, Keys};
use super::network::{AttackNetwork, CLIENTS, RELAYS};
use crate::DemoError;
use crate::launch::{POLL, ProgramKind, UP_WITHIN, end, log_tail, spawn, write_private};
use psmc_api::{Client, PeerState, PeerStatus};

/// All programs, running.
pub(super) struct Programs {
    all: Vec<Program>,
    directory: PathBuf,
    started: Instant,
}

/// One program; it is killed on drop.
struct Program {
    name: String,
    child: Child,
    log: PathBuf,
}

/// Where programs are asked how they are.
#[derive(Clone)]
pub(super) struct Sockets {
    directory: PathBuf,
}

/// A guard's status.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct GuardStatus {
    services: Vec<GuardedService>,
}

#[derive(Debug, Serialize, Deserialize)]
struct GuardedService {
    attack: Option<Value>,
}

/// A coordinator's status.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct CoordinatorStatus {
    /// Gateways that are connected.
    gateways: usize,
    /// Clients that are connected.
    clients: usize,
    pub(super) services: Vec<ServiceStatus>,
}

/// A service of a coordinator's.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct ServiceStatus {
    pub(super) stage: Stage,
    /// The relays of each group of clients, by their names.
    pub(super) routes: BTreeMap<String, Vec<String>>,
}

impl Programs {
    /// Writes all configurations, for a service of this name, and starts all programs, each when those that it needs answer.
    pub(super) async fn start(
        network: &AttackNetwork,
        service: &str,
        directory: &Path,
    ) -> Result<Self, DemoError> {
        let keys = Keys::generate();
        for (name, text) in keys.files().chain([("example.com.zone".to_owned(), files::zone(service))]) {
            write_private(&directory.join(name), &text)?;
        }
        let started = Instant::now();
        let mut programs = Self { all: Vec::new(), directory: directory.to_owned(), started };
        for (name, host) in RELAYS.into_iter().zip(&network.relays) {
            programs.add(host, ProgramKind::Relay, name, &files::relay(name, &keys, directory))?;
        }
        programs.add(&network.ops, ProgramKind::NameServer, "name-server", &files::name_server(directory))?;
        programs.add(&network.site, ProgramKind::Daemon, "site", &files::site(directory))?;
        programs.wait_for_sockets().await?;
        programs.add(
            &network.ops,
            ProgramKind::Coordinator,
            "coordinator",
            &files::coordinator(service, &keys, directory),
        )?;
        programs.wait_for_sockets().await?;
        programs.add(&network.site, ProgramKind::Guard, "guard", &files::guard(service, &keys, directory))?;
        programs.wait_for_sockets().await?;
        for (place, host) in network.clients.iter().enumerate() {
            let site = files::client(place, service, &keys.site.public(), directory);
            programs.add(host, ProgramKind::Daemon, CLIENTS[place], &site)?;
        }
        programs.wait_for_sockets().await?;
        for (place, host) in network.clients.iter().enumerate() {
            let name = format!("{}-dns", CLIENTS[place]);
            programs.add(
                host,
                ProgramKind::Resolver,
                &name,
                &files::resolver(place, service, &keys, directory),
            )?;
        }
        programs.wait_for_sockets().await?;
        Ok(programs)
    }

    /// Waits until the clients reach the service and the coordinator knows who is there; returns how long all of it took.
    pub(super) async fn wait_until_up(&mut self) -> Result<Duration, DemoError> {
        let sockets = self.sockets();
        let mut state = "nothing answers yet".to_owned();
        while self.started.elapsed() < UP_WITHIN {
            self.check()?;
            let (peers, coordinator) = (sockets.peers().await, sockets.coordinator().await);
            let connected = |peer: &Option<PeerStatus>| {
                peer.as_ref().is_some_and(|peer| peer.state == PeerState::Connected)
            };
            let known = coordinator.as_ref().map_or((0, 0), |status| (status.gateways, status.clients));
            if peers.iter().all(connected) && known == (1, 1) {
                return Ok(self.started.elapsed());
            }
            let connected = peers.iter().filter(|peer| connected(peer)).count();
            state = format!(
                "{connected} clients reach it; the coordinator knows {} gateways and {} clients",
                known.0, known.1
            );
            sleep(POLL).await;
        }
        let logs = self.all.iter().map(|program| log_tail(&program.log, &program.name)).collect::<Vec<_>>();
        Err(DemoError::NotUp { waited: UP_WITHIN, state, logs: logs.join("\n") })
    }

    /// Fails if a program has ended.
    pub(super) fn check(&mut self) -> Result<(), DemoError> {
        for program in &mut self.all {
            let how = match program.child.try_wait() {
                Ok(None) => continue,
                Ok(Some(status)) => status.to_string(),
                Err(error) => error.to_string(),
            };
            let log = log_tail(&program.log, &program.name);
            return Err(DemoError::Ended { site: program.name.clone(), how, log });
        }
        Ok(())
    }

    /// Ends a program without a word, and does without it from here on.
    pub(super) fn kill(&mut self, name: &str) {
        self.all.retain(|program| program.name != name);
    }

    pub(super) fn sockets(&self) -> Sockets {
        Sockets { directory: self.directory.clone() }
    }

    fn add(
        &mut self,
        host: &Namespace,
        kind: ProgramKind,
        name: &str,
        configuration: &str,
    ) -> Result<(), DemoError> {
        let file = self.directory.join(name).with_extension("toml");
        write_private(&file, configuration)?;
        let log = self.directory.join(name).with_extension("log");
        let child = spawn(host, kind, &file, &log);
        let child = child.map_err(|source| DemoError::Start { site: name.to_owned(), source })?;
        self.all.push(Program { name: name.to_owned(), child, log });
        Ok(())
    }

    /// Waits until every program can be asked.
    async fn wait_for_sockets(&mut self) -> Result<(), DemoError> {
        let deadline = Instant::now() + UP_WITHIN;
        for index in 0..self.all.len() {
            let socket = self.directory.join(&self.all[index].name).with_extension("sock");
            while UnixStream::connect(&socket).is_err() {
                self.check()?;
                if Instant::now() > deadline {
                    let Program { name, log, .. } = &self.all[index];
                    let state = format!("{name} does not answer");
                    return Err(DemoError::NotUp { waited: UP_WITHIN, state, logs: log_tail(log, name) });
                }
                sleep(POLL).await;
            }
        }
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

impl Sockets {
    /// How the service stands with each client; `None` for one that does not answer.
    pub(super) async fn peers(&self) -> [Option<PeerStatus>; CLIENTS.len()] {
        let ask = |client: &str| {
            let socket = self.of(client);
            aside(move || {
                let status = Client::connect(&socket).ok()?.status().ok()?;
                status.peers.into_iter().next()
            })
        };
        tokio::join!(ask(CLIENTS[0]), ask(CLIENTS[1])).into()
    }

    /// What the guard knows.
    pub(super) async fn guard(&self) -> Option<GuardStatus> {
        let socket = self.of("guard");
        aside(move || ask(&socket)).await
    }

    /// What the coordinator knows.
    pub(super) async fn coordinator(&self) -> Option<CoordinatorStatus> {
        let socket = self.of("coordinator");
        aside(move || ask(&socket)).await
    }

    fn of(&self, name: &str) -> PathBuf {
        self.directory.join(name).with_extension("sock")
    }
}

/// Those who ask block, and what else is going on must not wait for them.
async fn aside<T: Send + 'static>(ask: impl FnOnce() -> T + Send + 'static) -> T {
    spawn_blocking(ask).await.unwrap_or_else(|panic| resume_unwind(panic.into_panic()))
}

impl Report for GuardStatus {
    const PROGRAM: &'static str = "psmc-guard";
    const DIRECTORY: &'static str = "/run/psmc-guard";
}

impl Report for CoordinatorStatus {
    const PROGRAM: &'static str = "psmc-coordinator";
    const DIRECTORY: &'static str = "/run/psmc-coordinator";
}

impl GuardStatus {
    /// Whether it has found an attack.
    pub(super) fn has_found(&self) -> bool {
        self.services.iter().any(|service| service.attack.is_some())
    }
}

/// Asks the program whose socket this is. One that refuses to answer has no status.
fn ask<T: Report>(socket: &Path) -> Option<T> {
    StatusClient::<StatusOf<T>>::connect(socket).ok()?.status().ok()
}
