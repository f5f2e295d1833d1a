//! What the daemons bear: faults, made on purpose in a network of two sites and a relay while datagrams flow, and what comes of
//! each. `psmc-lab faults` makes them one by one, each in a network of its own; `psmc-lab soak` draws them by chance, one after
//! another, for as long as one likes.
//!
//! | module | what it has |
//! |---|---|
//! | `catalogue` | all faults |
//! | `network` | hosts, links and daemons, as a scenario |
//! | `tunnel` | two sites and a relay, and traffic |
//! | `services` | all other daemons, and who asks them |
//! | `watch` | descriptors and memory of the daemons over time |
//! | `row` | what came of a fault |
//! | `soak` | what came of an hour of them |

mod catalogue;
mod network;
mod row;
mod services;
mod soak;
mod tunnel;
mod watch;

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_testbed::netns::{UserNamespaceError, enter_user_namespace, is_privileged};

use self::catalogue::Fault;
use self::network::Bed;
use self::watch::{Sight, Watch};
use crate::bench::say;
use crate::results::Results;
use crate::run::{self, RunError, RunOptions};
use crate::scenario::ConfigError;

pub use row::{Row, tables};
pub use soak::{Soak, make_soak};

/// Why there are no results.
#[derive(Debug, thiserror::Error)]
pub enum FaultsError {
    /// A name that no fault has.
    #[error("no fault is called {name:?}; there are {known}")]
    NoSuchFault {
        /// The name.
        name: String,
        /// All that there are.
        known: String,
    },
    /// Only faults are asked for that a soak does not make.
    #[error("a soak is of two sites and a relay: choose faults of links, van, hq or relay")]
    NotInASoak,
    /// There is no place for the daemons' files.
    #[error("cannot write the daemons' configurations")]
    Files(#[source] io::Error),
    /// The lab wrote a scenario that it cannot read.
    #[error("the lab wrote a scenario that it cannot read:\n{}", .0.render(false))]
    Scenario(ConfigError),
    /// It cannot be run.
    #[error(transparent)]
    Run(#[from] RunError),
    /// An ordinary user may not have a network.
    #[error(transparent)]
    Namespace(#[from] UserNamespaceError),
}

/// How faults are run.
#[derive(Clone, Debug, Default)]
pub struct FaultOptions {
    /// The names of those that are wanted, each a fault's or the beginning of several; all if there are none.
    pub only: Vec<String>,
    /// Where configurations and logs of each are left, if anywhere.
    pub keep: Option<PathBuf>,
    /// Where the daemons are looked for before the PATH; beside the running program if `None`.
    pub programs: Option<PathBuf>,
}

/// Makes the faults that are asked for, one after another, and tells of each on standard error how it went. To be called before
/// the process starts its second thread.
///
/// # Errors
/// [`FaultsError`]; a fault that does harm is none.
pub fn faults(options: &FaultOptions) -> Result<Vec<Row>, FaultsError> {
    let faults = chosen(&options.only)?;
    let faketime = faketime();
    enter()?;
    let mut rows = Vec::new();
    for (number, fault) in faults.iter().enumerate() {
        let row = if fault.needs_faketime && faketime.is_none() {
            Row::not_run(fault)
        } else {
            let library = faketime.as_deref().filter(|_| fault.needs_faketime);
            Row::of(fault, &run_in_turn((&fault.name, fault.bed), &[fault], 1, library, options)?)
        };
        say(&format!("[{}/{}] {}", number + 1, faults.len(), row.summary()));
        rows.push(row);
    }
    Ok(rows)
}

/// What was seen of some faults in turn.
#[derive(Debug)]
struct Seen {
    results: Results,
    /// The interval of the series of results.
    interval: Duration,
    sights: Vec<Sight>,
    /// What each daemon has logged.
    logs: Vec<String>,
}

/// Makes some faults in one network, of the bed that they all have.
fn run_in_turn(
    (name, bed): (&str, &Bed),
    faults: &[&Fault],
    seed: u64,
    faketime: Option<&Path>,
    options: &FaultOptions,
) -> Result<Seen, FaultsError> {
    let temporary = tempfile::tempdir().map_err(FaultsError::Files)?;
    let directory = options.keep.as_ref().map_or_else(|| temporary.path().to_owned(), |keep| keep.join(name));
    std::fs::create_dir_all(&directory).map_err(FaultsError::Files)?;
    (bed.write)(&directory).map_err(FaultsError::Files)?;
    let scenario = network::scenario((name, bed), faults, seed, faketime).map_err(FaultsError::Scenario)?;
    let watch = Watch::start(bed.daemons, &directory);
    let run_options =
        RunOptions { keep: Some(directory.clone()), quiet: true, programs: options.programs.clone() };
    let results = run::run(&scenario, &run_options);
    let sights = watch.finish();
    let log = |daemon: &network::Daemon| {
        std::fs::read(directory.join(format!("{}.log", daemon.name)))
            .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
            .unwrap_or_default()
    };
    Ok(Seen {
        results: results?,
        interval: scenario.sample_interval,
        sights,
        logs: bed.daemons.iter().map(log).collect(),
    })
}

/// A network needs privileges, which an ordinary user has in a namespace of its own.
fn enter() -> Result<(), UserNamespaceError> {
    if is_privileged() { Ok(()) } else { enter_user_namespace() }
}

/// The faults with these names, or whose names begin like that before a hyphen; all if there are none.
fn chosen(only: &[String]) -> Result<Vec<Fault>, FaultsError> {
    let all = catalogue::all();
    let fits = |fault: &Fault, name: &str| {
        fault.name.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with('-'))
    };
    if let Some(name) = only.iter().find(|name| !all.iter().any(|fault| fits(fault, name))) {
        let known = all.iter().map(|fault| fault.name.as_str()).collect::<Vec<_>>().join(", ");
        return Err(FaultsError::NoSuchFault { name: name.clone(), known });
    }
    let wanted = |fault: &Fault| only.is_empty() || only.iter().any(|name| fits(fault, name));
    Ok(all.into_iter().filter(wanted).collect())
}

/// The library of `faketime`, by which the clock of one process can be set, where Debian has it.
fn faketime() -> Option<PathBuf> {
    let library = format!("/usr/lib/{}-linux-gnu/faketime/libfaketimeMT.so.1", std::env::consts::ARCH);
    Some(PathBuf::from(library)).filter(|path| path.exists())
}

/// How long a machine may have stood still, on top of what is promised.
fn stalled(results: &Results) -> Duration {
    Duration::from_secs_f64(results.stalls.map_or(0.0, |stalls| stalls.longest_ms / 1e3))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_fault_has_a_scenario_that_can_be_read() {
        let all = catalogue::all();
        let names: BTreeSet<_> = all.iter().map(|fault| &fault.name).collect();
        assert_eq!(names.len(), all.len(), "a name is there twice");
        let faults: Vec<_> = all.iter().collect();
        for bed in [&tunnel::TUNNEL, &services::SERVICES] {
            let of_bed: Vec<_> =
                faults.iter().copied().filter(|fault| std::ptr::eq(fault.bed, bed)).collect();
            let scenario = network::scenario(("all", bed), &of_bed, 1, Some(Path::new("/nonexistent")));
            let scenario = scenario.unwrap_or_else(|error| panic!("{}", error.render(false)));
            assert_eq!(scenario.duration, network::duration(of_bed.len()));
            assert!(bed.daemons.iter().all(|daemon| bed.hosts.contains(&daemon.host)));
        }
    }

    #[test]
    fn faults_are_chosen_by_name_or_by_its_beginning() {
        let names = |only: &[&str]| {
            let only: Vec<_> = only.iter().map(|&name| name.to_owned()).collect();
            chosen(&only).map(|faults| faults.into_iter().map(|fault| fault.name).collect::<Vec<_>>())
        };
        assert_eq!(names(&["kill"]).unwrap()[..3], ["kill-van", "kill-hq", "kill-relay"]);
        assert_eq!(names(&["kill"]).unwrap()[3..].len(), services::SERVICES.daemons.len());
        assert_eq!(names(&["kill-hq"]).unwrap(), ["kill-hq"]);
        assert_eq!(names(&[]).unwrap().len(), catalogue::all().len());
        assert!(names(&["kil"]).unwrap_err().to_string().contains("there are cut-dsl, "));
    }
}
