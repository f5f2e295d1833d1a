//! The tunnels of a run: the daemons of their sites.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_api::{Client, ClientError, PathState, PathStatus, PeerStatus, Status};
use psmc_net::keys::PrivateKey;

use super::RunError;
use super::network::Network;
use super::process::{Process, new_log, tail};
use super::programs::Finder;
use crate::results::SiteResult;
use crate::scenario::{HostId, Scenario, TunnelId};
use crate::site::Site;

/// Where the files of tunnels go.
#[derive(Clone, Copy, Debug)]
pub(super) struct Directories<'a> {
    /// Configurations and logs.
    pub(super) files: &'a Path,
    /// Control sockets, whose paths must be short.
    pub(super) sockets: &'a Path,
}

/// How long it is waited for tunnels.
#[derive(Clone, Copy, Debug)]
struct Patience<'a> {
    deadline: Instant,
    cancelled: &'a AtomicBool,
}

impl Patience<'_> {
    /// Waits a little; false if there is no time left, an error if there is nobody left who waits.
    fn pause(self) -> Result<bool, RunError> {
        if self.cancelled.load(Ordering::Relaxed) {
            return Err(RunError::Interrupted);
        }
        sleep(POLL);
        Ok(Instant::now() < self.deadline)
    }
}

/// All tunnels of a scenario. Its methods block.
#[derive(Debug)]
pub(super) struct Tunnels(Vec<[Daemon; 2]>);

impl Tunnels {
    /// Makes keys and configurations. Nothing is started.
    pub(super) fn new(
        scenario: &Scenario,
        finder: &Finder,
        directories: Directories<'_>,
    ) -> Result<Self, RunError> {
        let make = |tunnel: usize| {
            let wanted_by = format!(", which tunnel \"{}\" needs", scenario.tunnels[tunnel].name);
            let program = finder.find("psmcd", &wanted_by)?;
            let keys = [PrivateKey::generate(), PrivateKey::generate()];
            let daemon = |end: usize| daemon(scenario, tunnel, end, &keys, &program, directories);
            Ok([daemon(0)?, daemon(1)?])
        };
        (0..scenario.tunnels.len()).map(make).collect::<Result<_, _>>().map(Self)
    }

    /// Starts all daemons, and waits until every path carries data, unless `cancelled` becomes true.
    pub(super) fn open(
        &mut self,
        scenario: &Scenario,
        network: &Network,
        cancelled: &AtomicBool,
    ) -> Result<(), RunError> {
        let patience = Patience { deadline: Instant::now() + PATIENCE, cancelled };
        // Those first that are dialled: who dials before anybody listens pauses before it tries again.
        for end in [1, 0] {
            for daemons in &mut self.0 {
                daemons[end].start(network)?;
            }
            for daemons in &mut self.0 {
                daemons[end].wait_for_answer(patience)?;
            }
        }
        for (daemons, plan) in self.0.iter_mut().zip(&scenario.tunnels) {
            wait_until_up(daemons, &plan.name, plan.paths.len(), patience)?;
        }
        Ok(())
    }

    /// The daemon of a site.
    pub(super) fn daemon(&mut self, id: TunnelId, end: usize) -> &mut Daemon {
        &mut self.0[id.0][end]
    }

    /// The control sockets of the first sites.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        self.0.iter().map(|daemons| daemons[0].socket().to_owned()).collect()
    }

    /// What the daemons that run have counted.
    pub(super) fn results(&self) -> Vec<SiteResult> {
        self.0.iter().flatten().filter_map(Daemon::result).collect()
    }

    /// What is wrong with them, in whole sentences.
    pub(super) fn warnings(&mut self) -> Vec<String> {
        self.0.iter_mut().flatten().filter_map(Daemon::warning).collect()
    }
}

fn daemon(
    scenario: &Scenario,
    tunnel: usize,
    end: usize,
    keys: &[PrivateKey; 2],
    program: &Path,
    directories: Directories<'_>,
) -> Result<Daemon, RunError> {
    let plan = &scenario.tunnels[tunnel];
    let host = plan.ends[end].host;
    let name = format!("{}-{}", plan.name, scenario.hosts[host.0].name);
    let site = Site { scenario, tunnel: TunnelId(tunnel), end };
    let text = site.config(&keys[end], &keys[1 - end].public(), directories.sockets);
    let place = Place { tunnel: plan.name.clone(), host, host_name: scenario.hosts[host.0].name.clone() };
    Daemon::new(
        place,
        program,
        &directories.files.join(name),
        &text,
        site.control_socket(directories.sockets),
    )
}

fn wait_until_up(
    daemons: &mut [Daemon; 2],
    name: &str,
    paths: usize,
    patience: Patience<'_>,
) -> Result<(), RunError> {
    let mut state = "the daemon does not answer".to_owned();
    while patience.pause()? {
        daemons.iter_mut().try_for_each(Daemon::check)?;
        if let Ok(status) = daemons[0].status() {
            if active_paths(&status) == paths {
                return Ok(());
            }
            state = summary(&status);
        }
    }
    let logs = [&daemons[0], &daemons[1]].map(Daemon::log_tail).join("\n");
    Err(RunError::NotUp { tunnel: name.to_owned(), waited: PATIENCE, state, logs })
}

fn active_paths(status: &Status) -> usize {
    paths(status).iter().filter(|path| matches!(path.state, PathState::Active | PathState::Standby)).count()
}

/// The paths to the only peer.
pub(super) fn paths(status: &Status) -> &[PathStatus] {
    status.peers.first().map_or(&[], |peer| &peer.paths)
}

/// The state of the peer and its paths, in a line.
fn summary(status: &Status) -> String {
    let of_peer = |peer: &PeerStatus| {
        let paths = peer.paths.iter().map(|path| format!(", path {} {}", path.name, path.state));
        let error = peer.control.last_error.iter().map(|error| format!(", control connection: {error}"));
        format!("{} {}", peer.name, peer.state) + &paths.chain(error).collect::<String>()
    };
    status.peers.iter().map(of_peer).collect()
}

/// How long tunnels may take to come up: far longer than they need over any link of use.
const PATIENCE: Duration = Duration::from_secs(20);

/// How often it is looked whether they have.
const POLL: Duration = Duration::from_millis(5);

/// The daemon of a site, whether it runs or not.
#[derive(Debug)]
pub(in crate::run) struct Daemon {
    place: Place,
    program: PathBuf,
    file: PathBuf,
    log: PathBuf,
    socket: PathBuf,
    process: Option<Process>,
}

/// Which tunnel's daemon it is, and where.
#[derive(Clone, Debug)]
struct Place {
    tunnel: String,
    host: HostId,
    host_name: String,
}

impl Daemon {
    /// Writes the configuration to `base` with an extension; the log will be beside it.
    fn new(
        place: Place,
        program: &Path,
        base: &Path,
        configuration: &str,
        socket: PathBuf,
    ) -> Result<Self, RunError> {
        let file = with_extension(base, "toml");
        write_private(&file, configuration)?;
        let log = new_log(with_extension(base, "log"))?;
        Ok(Self { place, program: program.to_owned(), file, log, socket, process: None })
    }

    /// Starts the daemon, after it was killed if it runs.
    pub(in crate::run) fn start(&mut self, network: &Network) -> Result<(), RunError> {
        self.kill();
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(&self.file);
        let started = Process::start(network.host(self.place.host), &mut command, &self.log);
        self.process = Some(started.map_err(|source| RunError::Start {
            program: "psmcd".to_owned(),
            host: self.place.host_name.clone(),
            source,
        })?);
        Ok(())
    }

    /// Kills the daemon, if it runs.
    pub(in crate::run) fn kill(&mut self) {
        self.process = None;
    }

    /// What it has counted of its only peer, if it answers.
    fn result(&self) -> Option<SiteResult> {
        let peer = self.status().ok()?.peers.into_iter().next()?;
        let (tunnel, host) = (self.place.tunnel.clone(), self.place.host_name.clone());
        let (drops, unresponsive) = (peer.drops, peer.unresponsive);
        Some(SiteResult { tunnel, host, drops, unresponsive, limit_series_mbps: Vec::new() })
    }

    fn socket(&self) -> &Path {
        &self.socket
    }

    /// Fails if the daemon has ended.
    fn check(&mut self) -> Result<(), RunError> {
        let Some(status) = self.process.as_mut().and_then(Process::ended) else {
            return Ok(());
        };
        Err(RunError::DaemonEnded {
            tunnel: self.place.tunnel.clone(),
            host: self.place.host_name.clone(),
            how: status.to_string(),
            log: self.log_tail(),
        })
    }

    /// Waits until the daemon answers, and so listens.
    fn wait_for_answer(&mut self, patience: Patience<'_>) -> Result<(), RunError> {
        while let Err(error) = self.status() {
            self.check()?;
            if !patience.pause()? {
                return Err(RunError::NotUp {
                    tunnel: self.place.tunnel.clone(),
                    waited: PATIENCE,
                    state: error.to_string(),
                    logs: self.log_tail(),
                });
            }
        }
        Ok(())
    }

    fn status(&self) -> Result<Status, ClientError> {
        status(&self.socket)
    }

    fn log_tail(&self) -> String {
        tail(&self.log, &self.place.host_name)
    }

    /// What is wrong with it, in a sentence.
    fn warning(&mut self) -> Option<String> {
        let status = self.process.as_mut()?.ended()?;
        let Place { tunnel, host_name, .. } = &self.place;
        Some(format!(
            "psmcd of tunnel {tunnel} on {host_name} ended by itself ({status}): {}",
            self.log_tail()
        ))
    }
}

/// Asks the daemon with this control socket how it is.
pub(in crate::run) fn status(socket: &Path) -> Result<Status, ClientError> {
    Client::connect(socket)?.status()
}

/// Writes a file that only its owner can read, for it holds a private key.
fn write_private(path: &Path, text: &str) -> Result<(), RunError> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| RunError::File { path: path.to_owned(), source })
}

/// A name may have dots of its own.
fn with_extension(base: &Path, extension: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}
