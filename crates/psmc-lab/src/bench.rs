//! What runs the scenarios that the lab writes itself, one after another; and what comes of several runs.

use std::fs;
use std::io::{self, Write};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use clap::Args;
use psmc_service::output::print;
use psmc_toml::ConfigError;

use crate::error_chain;
use crate::report::{self, ReportError};
use crate::results::Results;
use crate::run::{RunError, RunOptions, run};
use crate::scenario::Scenario;
use crate::sim::{SimError, simulate};

/// Runs scenarios, and tells its user about those that it cannot run.
pub trait Runner {
    /// What the scenario, given as a file would hold it, has measured; `None` if that is not to be had.
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results>;
}

/// What the user can say about the scenarios that are run.
#[derive(Clone, Debug, Args)]
pub struct BenchArgs {
    /// Leave each scenario, its results and its logs in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Take what --keep has left of an earlier run of the same scenario, instead of running it again: so what takes hours goes
    /// on after an interruption. Of which build of the programs that was is not known
    #[arg(long, requires = "keep")]
    resume: bool,
    /// Print the scenarios instead of running them
    #[arg(long)]
    print_scenario: bool,
}

/// Runs scenarios for real, shows on standard error how far it is, and goes on when one fails.
#[derive(Debug)]
pub struct Bench {
    args: BenchArgs,
    /// How many there are, if that is known.
    total: Option<usize>,
    started: usize,
    failed: usize,
    /// Whether the user wants no more of them.
    interrupted: bool,
}

/// Why a scenario has no results.
#[derive(Debug, thiserror::Error)]
enum BenchError {
    #[error("the lab wrote a scenario that it cannot read:\n{}", .0.render(false))]
    Scenario(ConfigError),
    #[error(transparent)]
    Run(#[from] RunError),
    #[error(transparent)]
    Simulation(#[from] SimError),
    #[error("the simulation panicked")]
    Panic,
    #[error("{stream} ended early: {error}")]
    Traffic { stream: String, error: String },
    #[error("cannot print the scenario")]
    Print(#[source] io::Error),
    #[error("cannot write {}", path.display())]
    Keep { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Report(#[from] ReportError),
}

/// Simulates scenarios, and tells its user about those that it cannot simulate. There can be several at once.
#[derive(Debug)]
pub(crate) struct Simulation<'a> {
    args: &'a BenchArgs,
}

impl BenchArgs {
    /// Where things are left.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.keep.as_deref()
    }

    /// What an earlier run of this scenario has left, if that is to be taken.
    fn earlier(&self, name: &str, text: &str) -> Option<Results> {
        let directory = self.keep.as_ref().filter(|_| self.resume && !self.print_scenario)?;
        kept(&directory.join(name), text)
    }

    /// Prints a scenario, or has it carried out with the directory in which to leave things; `None` if it was printed.
    fn attempt(
        &self,
        name: &str,
        text: &str,
        carry_out: impl FnOnce(&Scenario, Option<PathBuf>) -> Result<Results, BenchError>,
    ) -> Result<Option<Results>, BenchError> {
        if self.print_scenario {
            return print(&format!("# {name}\n{text}\n")).map(|()| None).map_err(BenchError::Print);
        }
        let directory = self.keep.as_ref().map(|keep| keep.join(name));
        if let Some(directory) = &directory {
            keep(directory, text)?;
        }
        let scenario = Scenario::parse(text, Path::new(name)).map_err(BenchError::Scenario)?;
        let results = carry_out(&scenario, directory.clone())?;
        if let Some(directory) = directory {
            report::write_json(&results, &directory.join("results.json"))?;
        }
        Ok(Some(results))
    }
}

impl Bench {
    /// For so many scenarios, if that is known.
    #[must_use]
    pub fn new(args: &BenchArgs, total: Option<usize>) -> Self {
        Self { args: args.clone(), total, started: 0, failed: 0, interrupted: false }
    }

    /// Whether there is anything to report: some scenarios were run, and the user did not end it.
    #[must_use]
    pub fn has_results(&self) -> bool {
        self.started > 0 && !self.args.print_scenario && !self.interrupted
    }

    /// Whether scenarios are shown rather than run.
    #[must_use]
    pub fn prints_only(&self) -> bool {
        self.args.print_scenario
    }

    /// Whether every scenario that was asked for has results.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.failed == 0 && !self.interrupted
    }
}

impl Runner for Bench {
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results> {
        if self.interrupted {
            return None;
        }
        self.started += 1;
        let place = self.total.map_or_else(String::new, |total| format!("/{total}"));
        let number = self.started;
        let say = |what: &str| say(&format!("[{number}{place}] {name}: {what}"));
        if let Some(results) = self.args.earlier(name, scenario) {
            say(&format!("{}, as it was kept", summary(&results)));
            return Some(results);
        }
        match self.args.attempt(name, scenario, run_for_real) {
            Ok(results) => {
                if let Some(results) = &results {
                    say(&summary(results));
                }
                results
            }
            Err(error) => {
                say(&format!("failed: {}", error_chain(&error)));
                self.failed += 1;
                self.interrupted |= matches!(error, BenchError::Run(RunError::Interrupted));
                None
            }
        }
    }
}

impl<'a> Simulation<'a> {
    pub(crate) fn new(args: &'a BenchArgs) -> Self {
        Self { args }
    }
}

impl Runner for Simulation<'_> {
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results> {
        let earlier = self.args.earlier(name, scenario);
        let results = earlier.map_or_else(|| self.args.attempt(name, scenario, simulated), |it| Ok(Some(it)));
        results.unwrap_or_else(|error| {
            say(&format!("{name}: failed: {}", error_chain(&error)));
            None
        })
    }
}

/// A bug that one network of a thousand shows must not take the others' results away, and must say which one it was.
fn simulated(scenario: &Scenario, _: Option<PathBuf>) -> Result<Results, BenchError> {
    catch_unwind(AssertUnwindSafe(|| simulate(scenario))).map_err(|_| BenchError::Panic)?.map_err(Into::into)
}

fn run_for_real(scenario: &Scenario, keep: Option<PathBuf>) -> Result<Results, BenchError> {
    let results = run(scenario, &RunOptions { keep, quiet: true, ..RunOptions::default() })?;
    // One stream of which nothing arrives may be what an attack is about; if it is all of them, nothing works.
    let errors = results.traffic.iter().filter(|stream| stream.bytes == 0);
    let mut errors = errors.filter_map(|stream| Some((stream.name.clone(), stream.error.clone()?)));
    match errors.next().filter(|_| results.traffic.iter().all(|stream| stream.bytes == 0)) {
        Some((stream, error)) => Err(BenchError::Traffic { stream, error }),
        None => Ok(results),
    }
}

fn keep(directory: &Path, text: &str) -> Result<(), BenchError> {
    let file = directory.join("scenario.toml");
    let write = || {
        fs::create_dir_all(directory)?;
        // What is there is of another run, and this one may leave none.
        match fs::remove_file(directory.join("results.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Ok(()) | Err(_) => {}
        }
        fs::write(&file, text)
    };
    write().map_err(|source| BenchError::Keep { path: file.clone(), source })
}

/// The results of the same scenario, if all of them were written.
fn kept(directory: &Path, text: &str) -> Option<Results> {
    let scenario = fs::read_to_string(directory.join("scenario.toml")).ok()?;
    let results = fs::read(directory.join("results.json")).ok()?;
    if scenario == text { serde_json::from_slice(&results).ok() } else { None }
}

/// The goodput of every stream that has one, what kept a stream from its end, and why not to trust any of it.
fn summary(results: &Results) -> String {
    let bulk = results.traffic.iter().filter(|stream| stream.kind != "ping");
    let rates = bulk.map(|stream| format!("{:.2} Mbit/s", stream.goodput_mbps));
    let errors = results.traffic.iter().filter_map(|stream| stream.error.clone());
    let warnings = results.warnings.iter().map(|warning| format!("warning: {warning}"));
    rates.chain(errors).chain(warnings).collect::<Vec<_>>().join(", ")
}

/// Shows progress. If standard error is gone there is nobody left to tell.
pub(crate) fn say(text: &str) {
    drop(writeln!(io::stderr(), "{text}"));
}

/// The median of all runs, and between what they lay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// The least.
    pub low: f64,
    /// The mean of the two in the middle if the number of values is even.
    pub median: f64,
    /// The most.
    pub high: f64,
}

impl Spread {
    /// `None` if there are no values.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median =
            if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], upper) } else { upper };
        Some(Self { low: *values.first()?, median, high: *values.last()? })
    }

    /// The least and the most.
    #[must_use]
    pub fn range(self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// `None` if one is missing as well.
    #[must_use]
    pub fn of_all(values: impl IntoIterator<Item = Option<f64>>) -> Option<Self> {
        values.into_iter().collect::<Option<Vec<_>>>().and_then(Self::of)
    }
}

/// The median of all values; `None` if one is missing, or there are none.
#[must_use]
pub fn median(values: impl IntoIterator<Item = Option<f64>>) -> Option<f64> {
    Spread::of_all(values).map(|spread| spread.median)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_are_taken_again_only_of_the_same_scenario_and_whole() {
        let directory = tempfile::tempdir().expect("there is room");
        let directory = directory.path().join("baseline-cubic-psmc-1");
        assert_eq!(kept(&directory, "a"), None, "nothing was run");
        keep(&directory, "a").expect("it can be written");
        assert_eq!(kept(&directory, "a"), None, "it did not end");
        let results: Results = serde_json::from_value(serde_json::json!({
        "scenario": "a", "mode": "real", "seed": 1, "duration_s": 10.0, "traffic": [], "links": [], "paths": [],
        "programs": [], "events": [], "checks": [], "warnings": [],
    }))
    .expect("these are all");
        let file = directory.join("results.json");
        report::write_json(&results, &file).expect("it can be written");
        assert_eq!((kept(&directory, "a"), kept(&directory, "b")), (Some(results), None));
        fs::write(&file, "{").expect("it can be written");
        assert_eq!(kept(&directory, "a"), None, "it was interrupted");
        keep(&directory, "b").expect("it can be written");
        assert!(!file.exists(), "what follows may fail");
    }

    #[test]
    fn the_median_lies_between_the_extremes() {
        assert_eq!(Spread::of([]), None);
        assert_eq!(Spread::of([3.0]), Some(Spread { low: 3.0, median: 3.0, high: 3.0 }));
        assert_eq!(Spread::of([3.0, 1.0, 9.0]), Some(Spread { low: 1.0, median: 3.0, high: 9.0 }));
        assert_eq!(Spread::of([4.0, 1.0, 9.0, 2.0]), Some(Spread { low: 1.0, median: 3.0, high: 9.0 }));
    }

    #[test]
    fn a_run_that_failed_has_no_median() {
        assert_eq!(median([Some(3.0), Some(1.0), Some(2.0)]), Some(2.0));
        assert_eq!(median([Some(3.0), None]), None);
        assert_eq!(median([]), None);
    }
}
