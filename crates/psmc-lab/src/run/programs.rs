//! Programs: found, started, ended.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use psmc_service::programs::{find_in, is_executable, own_directory};

use super::network::Network;
use super::process::{Process, end, exit_code, new_log, tail};
use super::stage::Files;
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
        Self { beside: options.programs.clone().unwrap_or_else(own_directory) }
    }

    /// Where programs look for others: what they start is found where they themselves are.
    fn path(&self) -> OsString {
        let path = env::var_os("PATH").unwrap_or_default();
        let places = std::iter::once(self.beside.clone()).chain(env::split_paths(&path));
        // A directory with a colon in its name cannot be in such a list.
        env::join_paths(places).unwrap_or(path)
    }

    /// The file of a program. `wanted_by` says who wants it, for the message.
    pub(super) fn find(&self, name: &str, wanted_by: &str) -> Result<PathBuf, RunError> {
        let found = if name.contains('/') {
            Some(PathBuf::from(name)).filter(|file| is_executable(file))
        } else {
            find_in(&self.beside, name)
        };
        found.ok_or_else(|| RunError::NoSuchProgram {
            name: name.to_owned(),
            wanted_by: wanted_by.to_owned(),
            beside: self.beside.clone(),
        })
    }
}

/// All programs of a scenario, whether they run or not. Its methods block.
#[derive(Debug)]
pub(super) struct Programs {
    slots: Vec<Slot>,
    /// Where they look for others.
    path: OsString,
}

#[derive(Debug)]
struct Slot {
    plan: Program,
    file: PathBuf,
    arguments: Vec<String>,
    log: PathBuf,
    /// Whether the log stays when the run is over.
    is_kept: bool,
    process: Option<Process>,
    /// How it ended, the last time that it did.
    exit_status: Option<i32>,
}

impl Programs {
    /// Finds them all.
    pub(super) fn new(scenario: &Scenario, finder: &Finder, files: &Files) -> Result<Self, RunError> {
        let slot = |plan: &Program| {
            let here = files.directory.display().to_string();
            let mut words = plan.command.iter().map(|word| word.replace(DIRECTORY, &here));
            let name = words.next().unwrap_or_default();
            let file = finder.find(&name, &format!(", which program \"{}\" should be", plan.name))?;
            let log = new_log(files.directory.join(format!("{}.log", plan.name)))?;
            let arguments = words.collect();
            let (plan, is_kept) = (plan.clone(), files.are_kept);
            Ok(Slot { plan, file, arguments, log, is_kept, process: None, exit_status: None })
        };
        let slots = scenario.programs.iter().map(slot).collect::<Result<_, RunError>>()?;
        Ok(Self { slots, path: finder.path() })
    }

    /// Starts a program, after it was killed if it runs.
    pub(super) fn start(
        &mut self,
        id: ProgramId,
        scenario: &Scenario,
        network: &Network,
    ) -> Result<(), RunError> {
        let slot = &mut self.slots[id.0];
        slot.kill();
        let mut command = Command::new(&slot.file);
        command.env("PATH", &self.path);
        let host = slot.plan.host;
        let started = Process::start(network.host(host), command.args(&slot.arguments), &slot.log);
        slot.process = Some(started.map_err(|source| RunError::Start {
            program: slot.plan.name.clone(),
            host: scenario.hosts[host.0].name.clone(),
            source,
        })?);
        Ok(())
    }

    /// Asks a program to end. Whether it does shows in the end.
    pub(super) fn stop(&mut self, id: ProgramId) {
        if let Some(process) = &self.slots[id.0].process {
            process.ask_to_end();
        }
    }

    /// Kills a program.
    pub(super) fn kill(&mut self, id: ProgramId) {
        self.slots[id.0].kill();
    }

    /// What has become of them, and what is wrong with them, in whole sentences. Those that still run are ended.
    pub(super) fn finish(&mut self) -> (Vec<ProgramResult>, Vec<String>) {
        let results = self.slots.iter_mut().map(Slot::result).collect();
        let warnings = self.slots.iter().filter_map(Slot::warning).collect();
        self.slots.iter().filter_map(|slot| slot.process.as_ref()).for_each(Process::ask_to_end);
        let deadline = Instant::now() + GRACE;
        self.slots.iter_mut().filter_map(|slot| slot.process.as_mut()).for_each(|it| it.wait_until(deadline));
        (results, warnings)
    }
}

impl Slot {
    fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            self.exit_status = process.kill().map(exit_code);
        }
    }

    fn result(&mut self) -> ProgramResult {
        if let Some(status) = self.process.as_mut().and_then(Process::ended) {
            self.exit_status = Some(exit_code(status));
            self.process = None;
        }
        ProgramResult {
            name: self.plan.name.clone(),
            exit_status: self.exit_status.filter(|_| self.process.is_none()),
            log: if self.is_kept { self.log.display().to_string() } else { String::new() },
            output: self.plan.has_output.then(|| end(&self.log)),
        }
    }

    /// The end of what a program that failed has printed, unless the user can read all of it.
    fn warning(&self) -> Option<String> {
        let status = self.exit_status.filter(|status| (1..128).contains(status) && !self.is_kept)?;
        let tail = tail(&self.log, &self.plan.name);
        let end = if tail.is_empty() { "without a word".to_owned() } else { format!("after\n{tail}") };
        Some(format!("program {} ended with exit status {status} {end}", self.plan.name))
    }
}

/// How long programs may take to end when they are asked to.
const GRACE: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn a_path_is_taken_as_it_is() {
        let finder = Finder { beside: PathBuf::from("/nonexistent") };
        assert_eq!(finder.find("/bin/sh", "").unwrap(), Path::new("/bin/sh"));
        assert!(finder.find("./sh", "").is_err() && finder.find("/bin", "").is_err());
    }
}
