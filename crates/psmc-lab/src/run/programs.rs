//! Programs: found, started, ended.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::network::Network;
use super::process::{Process, exit_code, new_log};
use super::{RunError, RunOptions};
use crate::results::ProgramResult;
use crate::scenario::{Program, ProgramId, Scenario};

/// What stands for the directory of the run in the command of a program.
const DIRECTORY: &str = "{dir}";

/// Where programs are looked for.
#[derive(Clone, Debug)]
pub(super) struct Finder {
    /// The directory of our own programs.
    beside: PathBuf,
}

impl Finder {
    pub(super) fn new(options: &RunOptions) -> Self {
        let beside = || Some(env::current_exe().ok()?.parent()?.to_owned());
        Self { beside: options.programs.clone().or_else(beside).unwrap_or_default() }
    }

    /// The file of a program. `wanted_by` says who wants it, for the message.
    pub(super) fn find(&self, name: &str, wanted_by: &str) -> Result<PathBuf, RunError> {
        let path = env::var_os("PATH").unwrap_or_default();
        let mut places = std::iter::once(self.beside.clone()).chain(env::split_paths(&path));
        let found = if name.contains('/') {
            Some(PathBuf::from(name)).filter(|file| is_executable(file))
        } else {
            places.find_map(|place| Some(place.join(name)).filter(|file| is_executable(file)))
        };
        found.ok_or_else(|| RunError::NoSuchProgram {
            name: name.to_owned(),
            wanted_by: wanted_by.to_owned(),
            beside: self.beside.clone(),
        })
    }
}

fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

/// All programs of a scenario, whether they run or not. Its methods block.
#[derive(Debug)]
pub(super) struct Programs(Vec<Slot>);

#[derive(Debug)]
struct Slot {
    plan: Program,
    file: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    process: Option<Process>,
    /// How it ended, the last time that it did.
    exit_status: Option<i32>,
}

impl Programs {
    /// Finds them all. Logs go to `directory`.
    pub(super) fn new(scenario: &Scenario, finder: &Finder, directory: &Path) -> Result<Self, RunError> {
        let slot = |plan: &Program| {
            let here = directory.display().to_string();
            let mut words = plan.command.iter().map(|word| word.replace(DIRECTORY, &here));
            let name = words.next().unwrap_or_default();
            let file = finder.find(&name, &format!(", which program \"{}\" should be", plan.name))?;
            let log = new_log(directory.join(format!("{}.log", plan.name)))?;
            let arguments = words.collect();
            Ok(Slot { plan: plan.clone(), file, arguments, log, process: None, exit_status: None })
        };
        scenario.programs.iter().map(slot).collect::<Result<_, _>>().map(Self)
    }

    /// Starts a program, after it was killed if it runs.
    pub(super) fn start(
        &mut self,
        id: ProgramId,
        scenario: &Scenario,
        network: &Network,
    ) -> Result<(), RunError> {
        let slot = &mut self.0[id.0];
        slot.end(Process::kill);
        let mut command = Command::new(&slot.file);
        let host = slot.plan.host;
        let started = Process::start(network.host(host), command.args(&slot.arguments), &slot.log);
        slot.process = Some(started.map_err(|source| RunError::Start {
            program: slot.plan.name.clone(),
            host: scenario.hosts[host.0].name.clone(),
            source,
        })?);
        Ok(())
    }

    /// Asks a program to end.
    pub(super) fn stop(&mut self, id: ProgramId) {
        self.0[id.0].end(Process::terminate);
    }

    /// Kills a program.
    pub(super) fn kill(&mut self, id: ProgramId) {
        self.0[id.0].end(Process::kill);
    }

    /// What has become of them so far; then asks all of them to end.
    pub(super) fn finish(&mut self) -> Vec<ProgramResult> {
        self.0.iter_mut().map(Slot::finish).collect()
    }
}

impl Slot {
    fn end(&mut self, how: fn(&mut Process) -> Option<std::process::ExitStatus>) {
        if let Some(mut process) = self.process.take() {
            self.exit_status = how(&mut process).map(exit_code);
        }
    }

    fn finish(&mut self) -> ProgramResult {
        let running = self.process.as_mut().is_some_and(|process| process.ended().is_none());
        self.end(Process::terminate);
        ProgramResult {
            name: self.plan.name.clone(),
            exit_status: self.exit_status.filter(|_| !running),
            log: self.log.display().to_string(),
        }
    }
}
