//! The daemons of the two sites.

mod directory;
mod file;
mod relays;

use std::fs::File;
use std::io;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use psmc_net::keys::PrivateKey;
use psmc_testbed::netns::Namespace;
use tokio::time::sleep;

use super::DemoError;
use super::network::Network;
use crate::programs::Program;
use psmc_api::{Client, ClientError, PathState, PathStatus, PeerStatus, Status};

pub(super) use directory::{Directory, write_private};
pub(super) use file::HQ_INSIDE;
pub(super) use relays::Relays;

/// How long the tunnel may take to come up: far longer than it needs.
pub(super) const PATIENCE: Duration = Duration::from_secs(15);

/// How often it is looked whether it has, and so how exactly that time is known.
pub(super) const POLL: Duration = Duration::from_millis(5);

/// How much of a log is shown when something failed.
const LOG_LINES: usize = 10;

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
        let hq = file::hq(&hq_key, &van_key.public(), &directory.join("hq.sock"));
        let socket = directory.join("van.sock");
        let van = file::van(van_key, &hq_key.public(), network.links, relays, &socket);
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
        while self.started.elapsed() < PATIENCE {
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
            waited: PATIENCE,
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
        directory::write_private(&file, configuration)?;
        let log = directory.join(name).with_extension("log");
        let daemon = spawn(host, Program::Daemon, &file, &log)
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
        let deadline = Instant::now() + PATIENCE;
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

/// Starts a program. A log goes on where it was.
pub(super) fn spawn(host: &Namespace, program: Program, file: &Path, log: &Path) -> io::Result<Child> {
    let mut command = program.command(file)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    host.spawn(command.stderr(File::options().create(true).append(true).open(log)?))
}

pub(super) fn end(program: &mut Child) {
    // Both fail only for one that has ended.
    drop(program.kill());
    drop(program.wait());
}

pub(super) fn log_tail(log: &Path, site: &str) -> String {
    let log = std::fs::read_to_string(log).unwrap_or_else(|error| error.to_string());
    tail(&log, site)
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

/// The last lines of a log, each with the name of its site.
fn tail(log: &str, site: &str) -> String {
    let lines: Vec<_> = log.lines().map(|line| format!("{site}: {line}")).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_shown() {
        assert_eq!(tail("", "van"), "");
        assert_eq!(tail("a\nb\n", "van"), "van: a\nvan: b");
        let long: String = (0..100).map(|line| format!("{line}\n")).collect();
        let shown = tail(&long, "hq");
        assert!(shown.starts_with("hq: 90\n") && shown.ends_with("\nhq: 99"), "{shown}");
    }
}
