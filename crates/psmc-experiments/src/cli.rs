//! The command line of `psmc-experiments`.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Parser, Subcommand};
use psmc_lab::bench::{Bench, BenchArgs};
use psmc_lab::report::{ReportError, write_json};
use psmc_service::{error_chain, output};

use crate::experiment::{Experiment, Setup};
use crate::load::{self, Load, LoadError};
use crate::matrix::{Inner, PROFILES, Peer, Plan, Profile};

/// Measure PSMC beside what the literature and other programs reach, on networks of the lab
#[derive(Debug, Parser)]
#[command(name = "psmc-experiments", version, propagate_version = false, disable_help_subcommand = true)]
struct Experiments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Measure one flow over two paths on ten profiles: through the tunnel, by each path alone, by MPTCP
    Matrix(MatrixArgs),
    /// Reproduce a table or a figure of the publications that PSMC builds on
    Experiment(ExperimentArgs),
    /// Ask a web server as users do, and print an object as JSON; for experiments
    #[command(hide = true)]
    Load(Load),
}

/// Why a command failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum CliError {
    /// The results could not be written.
    #[error(transparent)]
    Report(#[from] ReportError),
    /// They could not be printed.
    #[error("cannot print the result: {0}")]
    Output(#[from] io::Error),
    /// There is no load.
    #[error(transparent)]
    Load(#[from] LoadError),
}

/// Runs the tool with the arguments of the process. To be called before the process starts its second thread: an
/// ordinary user needs a user namespace, which a process with several threads cannot enter.
#[must_use]
pub fn main() -> ExitCode {
    execute(Experiments::parse()).unwrap_or_else(|error| {
        // If standard error is gone there is nobody left to tell.
        drop(writeln!(io::stderr(), "error: {}", error_chain(&error)));
        ExitCode::FAILURE
    })
}

/// Exits with 0 if all is well, with 1 also if everything ran but a criterion is not met.
fn execute(experiments: Experiments) -> Result<ExitCode, CliError> {
    match experiments.command {
        Command::Matrix(args) => run_matrix(&args),
        Command::Experiment(args) => run_experiment(&args),
        Command::Load(load) => run_load(load),
    }
}

fn run_load(load: Load) -> Result<ExitCode, CliError> {
    output::print(&format!("{}\n", load::run(load)?))?;
    Ok(ExitCode::SUCCESS)
}

#[derive(Debug, clap::Args)]
struct ExperimentArgs {
    /// Which one
    #[arg(required_unless_present = "list", hide_possible_values = true, value_parser = experiments())]
    name: Option<&'static Experiment>,
    /// List all there are
    #[arg(long, conflicts_with = "name")]
    list: bool,
    /// Duration of each run [default: chosen by the experiment]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: Option<u32>,
    /// Number of repetitions [default: chosen by the experiment]: what is printed is the median
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: Option<u32>,
    /// Only rows whose name contains this, such as "direct, 20 kB/s"
    #[arg(long, value_name = "TEXT")]
    only: Vec<String>,
    /// Print an object as JSON
    #[arg(long)]
    json: bool,
    /// Print it as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    #[command(flatten)]
    bench: BenchArgs,
}

fn run_experiment(args: &ExperimentArgs) -> Result<ExitCode, CliError> {
    let Some(experiment) = args.name else {
        output::print(&crate::experiment::list())?;
        return Ok(ExitCode::SUCCESS);
    };
    let mut bench = Bench::new(&args.bench, None);
    let mut setup = Setup::new(&mut bench);
    setup.seconds = args.seconds;
    setup.only.clone_from(&args.only);
    let report = experiment.run(&mut setup, args.runs);
    if bench.has_results() || (report.is_computed() && !bench.prints_only()) {
        match (args.json, args.markdown) {
            (true, _) => write_json(&report.json(), Path::new("-"))?,
            (_, true) => output::print(&report.markdown())?,
            (false, false) => output::print(&report.text())?,
        }
        return Ok(if report.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    Ok(if bench.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn experiments() -> impl TypedValueParser<Value = &'static Experiment> {
    let names = PossibleValuesParser::new(crate::experiment::experiments().map(|experiment| experiment.name));
    names.try_map(|name| Experiment::find(&name).ok_or("there is no such experiment"))
}

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Everything three times, with a plot:
  psmc-experiments matrix --runs 3 --plot matrix.svg
What is run for one row, as scenarios for psmc-lab run:
  psmc-experiments matrix --profile baseline --inner cubic --print-scenario")]
struct MatrixArgs {
    /// What to compare with; everything if left out
    #[arg(long, value_name = "PEER")]
    peer: Vec<Peer>,
    /// On which pairs of paths; on all if left out
    #[arg(long, value_name = "NAME", value_parser = profiles())]
    profile: Vec<Profile>,
    /// What flows; each kind if left out
    #[arg(long, value_name = "KIND")]
    inner: Vec<Inner>,
    /// How long each flow lasts
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=3600))]
    seconds: u32,
    /// Number of repetitions; medians are printed
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    runs: u32,
    /// Print a list of objects as JSON
    #[arg(long)]
    json: bool,
    /// Print the table as Markdown
    #[arg(long, conflicts_with = "json")]
    markdown: bool,
    /// Draw the matrix as bars into an SVG file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    #[command(flatten)]
    bench: BenchArgs,
}

fn run_matrix(args: &MatrixArgs) -> Result<ExitCode, CliError> {
    let plan = Plan {
        profiles: or_all(&args.profile, &PROFILES),
        inners: or_all(&args.inner, &Inner::ALL),
        peers: or_all(&args.peer, &Peer::ALL),
        seconds: args.seconds,
        runs: args.runs,
    };
    let mut bench = Bench::new(&args.bench, Some(plan.trials().len()));
    let matrix = plan.measure(&mut bench);
    if bench.has_results() {
        match (args.json, args.markdown) {
            (true, _) => write_json(&matrix.json(), Path::new("-"))?,
            (_, true) => output::print(&matrix.markdown())?,
            (false, false) => output::print(&matrix.text())?,
        }
        if let Some(file) = &args.plot {
            matrix.write_plot(file)?;
        }
    }
    Ok(if bench.is_complete() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// What the user named, or everything there is.
fn or_all<T: Clone>(named: &[T], all: &[T]) -> Vec<T> {
    if named.is_empty() { all.to_vec() } else { named.to_vec() }
}

fn profiles() -> impl TypedValueParser<Value = Profile> {
    let names = PossibleValuesParser::new(PROFILES.map(|profile| profile.name));
    names.try_map(|name| Profile::find(&name).ok_or("there is no such profile"))
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Experiments::command().debug_assert();
    }
}
