//! The daemons of tunnels.

mod daemon;

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use psmc_api::{PathState, PathStatus, PeerStatus, Status};
use psmc_net::keys::PrivateKey;

use super::RunError;
use super::network::Network;
use super::programs::Finder;
use crate::scenario::{Scenario, TunnelId};
use crate::site::Site;
use daemon::Daemon;

pub(super) use daemon::status;

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
    let place =
        daemon::Place { tunnel: plan.name.clone(), host, host_name: scenario.hosts[host.0].name.clone() };
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
