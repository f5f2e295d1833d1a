//! Everything that was made for a run.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use psmc_sim::link::LinkCounters;

use super::network::{Hosts, Network};
use super::programs::{Finder, Programs};
use super::tunnels::{Directories, Tunnels};
use super::{RunError, RunOptions, derive_seed};
use crate::clean::Registration;
use crate::results::{ProgramResult, SiteResult};
use crate::scenario::{Action, LinkId, ProgramId, Scenario, TrafficKind};
use crate::traffic::{self, Clock, Flood, Stream};

/// Everything that was made for a run. Its fields end in their order: first what runs, then what it runs on. Most of its
/// methods block.
#[derive(Debug)]
pub(super) struct Stage {
    floods: Mutex<Vec<Flood>>,
    programs: Mutex<Programs>,
    tunnels: Mutex<Tunnels>,
    network: Network,
    scenario: Arc<Scenario>,
    /// Whether nobody waits for the tunnels any more.
    cancelled: AtomicBool,
    /// Kills what programs have left running, and removes their directory.
    _registration: Registration,
}

/// Where configurations and logs go.
#[derive(Clone, Debug)]
pub(super) struct Files {
    pub(super) directory: PathBuf,
    /// Whether they stay when the run is over.
    pub(super) are_kept: bool,
}

/// What is known at the end.
#[derive(Debug)]
pub(super) struct Ended {
    pub(super) sites: Vec<SiteResult>,
    pub(super) programs: Vec<ProgramResult>,
    pub(super) warnings: Vec<String>,
}

impl Stage {
    /// Makes everything. Nothing runs yet but the links.
    pub(super) fn new(scenario: &Scenario, options: &RunOptions) -> Result<Self, RunError> {
        check_kernel(scenario)?;
        let finder = Finder::new(options);
        let mut registration = Registration::new()?;
        let files = Files::new(options, registration.directory())?;
        let programs = Programs::new(scenario, &finder, &files)?;
        let directories = Directories { files: &files.directory, sockets: registration.directory() };
        let tunnels = Tunnels::new(scenario, &finder, directories)?;
        let hosts = Hosts::new(scenario)?;
        registration.add_namespaces(hosts.ids()?)?;
        let scenario = Arc::new(scenario.clone());
        let network = Network::new(Arc::clone(&scenario), hosts, &captures(options))?;
        Ok(Self {
            floods: Mutex::default(),
            programs: Mutex::new(programs),
            tunnels: Mutex::new(tunnels),
            network,
            scenario,
            cancelled: AtomicBool::new(false),
            _registration: registration,
        })
    }

    /// Starts the tunnels, and waits until all of their paths carry data.
    pub(super) fn open_tunnels(&self) -> Result<(), RunError> {
        self.tunnels().open(&self.scenario, &self.network, &self.cancelled)
    }

    /// Makes [`open_tunnels`](Self::open_tunnels) give up.
    pub(super) fn cancel(&self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }

    /// Starts all traffic, each stream at its own time.
    pub(super) fn start_traffic(&self, clock: Clock) -> Vec<Stream> {
        let start = |(plan, number): (&crate::scenario::Traffic, u64)| {
            let [from, to] = [plan.from, plan.to].map(|id| Arc::clone(self.network.host(id)));
            let seed = derive_seed(self.scenario.seed, TRAFFIC_SEEDS + number);
            Stream::start(plan, traffic::Hosts { from, to }, clock, seed)
        };
        self.scenario.traffic.iter().zip(0..).map(start).collect()
    }

    /// Carries out an event.
    pub(super) fn act(&self, action: &Action) -> Result<(), RunError> {
        match action {
            Action::Cut(link) => self.network.cut(*link),
            Action::BlackHole(link, directions) => {
                self.network.black_hole(*link, *directions);
                Ok(())
            }
            Action::Restore(link) => self.network.restore(*link),
            Action::Change(link, directions) => {
                self.network.change(*link, directions);
                Ok(())
            }
            Action::Kill(program) => {
                self.programs().kill(*program);
                Ok(())
            }
            Action::Restart(program) => self.start_program(*program),
            Action::KillSite(tunnel, end) => {
                self.tunnels().daemon(*tunnel, *end).kill();
                Ok(())
            }
            Action::RestartSite(tunnel, end) => self.tunnels().daemon(*tunnel, *end).start(&self.network),
            Action::Roam(host, link, addresses) => self.network.roam(*host, *link, addresses),
            Action::Flood { from, to, rate, payload, duration } => {
                let pace = traffic::Pace { rate: *rate, payload: *payload };
                let flood = Flood::start(self.network.host(*from), *to, pace, *duration);
                let flood = flood.map_err(RunError::Traffic)?;
                lock(&self.floods).push(flood);
                Ok(())
            }
        }
    }

    /// Starts a program.
    pub(super) fn start_program(&self, id: ProgramId) -> Result<(), RunError> {
        self.programs().start(id, &self.scenario, &self.network)
    }

    /// Asks a program to end.
    pub(super) fn stop_program(&self, id: ProgramId) {
        self.programs().stop(id);
    }

    /// What a link has done so far. It does not block.
    pub(super) fn counters(&self, link: LinkId) -> [LinkCounters; 2] {
        self.network.counters(link)
    }

    /// The control sockets of the first sites of all tunnels.
    pub(super) fn sockets(&self) -> Vec<PathBuf> {
        self.tunnels().sockets()
    }

    pub(super) fn scenario(&self) -> &Arc<Scenario> {
        &self.scenario
    }

    /// Ends the programs, and looks how everything went.
    pub(super) fn finish(&self) -> Ended {
        let sites = self.tunnels().results();
        let warnings = [self.tunnels().warnings(), self.network.warnings()].concat();
        let (programs, of_programs) = self.programs().finish();
        Ended { sites, programs, warnings: [warnings, of_programs].concat() }
    }

    fn programs(&self) -> MutexGuard<'_, Programs> {
        lock(&self.programs)
    }

    fn tunnels(&self) -> MutexGuard<'_, Tunnels> {
        lock(&self.tunnels)
    }
}

impl Files {
    fn new(options: &RunOptions, own: &Path) -> Result<Self, RunError> {
        let Some(path) = &options.keep else {
            return Ok(Self { directory: own.to_owned(), are_kept: false });
        };
        let made = fs::create_dir_all(path).and_then(|()| fs::canonicalize(path));
        let directory = made.map_err(|source| RunError::File { path: path.clone(), source })?;
        Ok(Self { directory, are_kept: true })
    }
}

/// What was locked when a thread panicked is still whole: to end it is all that is left to do.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Fails if the kernel lacks what the traffic needs, before anything is made.
fn check_kernel(scenario: &Scenario) -> Result<(), RunError> {
    scenario.traffic.iter().try_for_each(|traffic| match &traffic.kind {
        TrafficKind::Tcp { congestion_control, .. } | TrafficKind::Requests { congestion_control, .. } => {
            traffic::check_congestion_control(congestion_control).map_err(RunError::Traffic)
        }
        TrafficKind::Quic { .. } | TrafficKind::Udp { .. } | TrafficKind::Ping { .. } => Ok(()),
    })
}

/// Where captures go whose paths are relative: they are what the user wants to have, so never where all is removed.
fn captures(options: &RunOptions) -> PathBuf {
    options.keep.clone().unwrap_or_default()
}

/// From which number on seeds are for traffic; those before are for links.
const TRAFFIC_SEEDS: u64 = 1 << 32;
