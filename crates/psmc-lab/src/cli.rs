//! The command line of `psmc-lab`.

mod faults;
mod networks;
mod profile;
mod replay;

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Args, CommandFactory, Parser, Subcommand};
use psmc_service::logging::is_styled;
use psmc_service::output;
use psmc_testbed::netns::{enter_user_namespace, is_privileged};

use crate::clean::{self, Removed};
use crate::device::DeviceProfile;
use crate::results::Results;
use crate::run::{self, RunOptions};
use crate::scenario::{ConfigError, Scenario};
use crate::sim::simulate;
use crate::{accuracy, error_chain, report};

/// Emulate networks on this machine: real programs on links with given rate, delay and loss, or a simulation
#[derive(Debug, Parser)]
#[command(name = "psmc-lab", version, propagate_version = false, disable_help_subcommand = true)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a scenario or the profile of a device, and print a summary
    ///
    /// Prints everything that is wrong with the file, with line and remedy, and exits with 1; or a summary of the file, and
    /// exits with 0. Nothing is started or changed.
    Check(CheckArgs),
    /// Measure the accuracy and capacity of the emulator on this machine
    Accuracy(AccuracyArgs),
    /// Run a scenario in real time, with real programs and packets
    ///
    /// Exits with 0 if all of its checks hold. As root, or as an ordinary user in a user namespace. Everything that is made
    /// is removed at the end, also after ^C.
    Run(RunArgs),
    /// Run a scenario in virtual time
    ///
    /// The same links and the same engine on hosts that are simulated: it takes seconds, needs no privileges, and gives the
    /// same results each time. Exits with 0 if all checks hold.
    Sim(SimArgs),
    /// Remove what killed labs left behind
    Clean,
    /// Measure one flow over many networks, random or recorded: through the tunnel, and over the best link alone
    Networks(networks::Args),
    /// Measure a router or a switch, and write what it is like
    ///
    /// Sends packets through a device that lies between ports of this machine, as root, and infers how long it serves them, how
    /// many at once, and how many its queues hold. A router of a scenario takes the profile as its `profile`. It takes one to three
    /// minutes. Nothing is configured, and nothing but the file is left.
    Profile(profile::Args),
    /// Compare what a device did to packets with what its profile says
    ///
    /// Takes captures of its ports, has the model do the same, and prints for each port losses, the mean, the 99th percentile and the
    /// coefficient of variation of the delays, and how far their distributions are apart (Kolmogorov-Smirnov).
    Replay(replay::Args),
    /// Make faults on purpose while datagrams flow, and measure what comes of each
    ///
    /// Daemons are killed, stopped and starved, paths cut, strangers send floods: each with real programs in a network of its
    /// own, made of two sites and a relay. Exits with 0 if nothing is wrong. It takes a quarter of a minute for each.
    Faults(faults::Args),
    /// Make faults by chance, one after another, and measure what the daemons are like in the end
    ///
    /// Exits with 0 if nothing is stuck, memory and descriptors are what they were, and no line of a log is there twice a
    /// second.
    Soak(faults::SoakArgs),
}

/// Why a command failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum CliError {
    /// What it was asked for went wrong.
    #[error(transparent)]
    Failed(Box<dyn Error + Send + Sync>),
    /// The scenario is wrong.
    #[error(transparent)]
    Scenario(#[from] ConfigError),
    /// The result could not be printed.
    #[error("cannot print the result: {0}")]
    Output(#[from] io::Error),
}

impl CliError {
    /// The error of a module.
    fn of(error: impl Error + Send + Sync + 'static) -> Self {
        Self::Failed(Box::new(error))
    }
}

/// What stands on the command line of `psmc-lab`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Lab::command()
}

/// Runs the tool with the arguments of the process. To be called before the process starts its second thread: an
/// ordinary user needs a user namespace, which a process with several threads cannot enter.
pub fn psmc_lab() -> ExitCode {
    finish(execute(Lab::parse()))
}

/// Exits with 0 if all is well, with 1 also if everything ran but a check does not hold.
fn execute(lab: Lab) -> Result<ExitCode, CliError> {
    match lab.command {
        Command::Accuracy(args) => accuracy(&args),
        Command::Check(args) => check(&args),
        Command::Run(args) => run(&args),
        Command::Sim(args) => sim(&args),
        Command::Clean => clean(),
        Command::Networks(args) => networks::run(&args),
        Command::Profile(args) => profile::run(&args),
        Command::Replay(args) => replay::run(&args),
        Command::Faults(args) => faults::run(&args),
        Command::Soak(args) => faults::run_soak(&args),
    }
}

/// The exit code of a command, after its error, if any, has been shown.
fn finish(result: Result<ExitCode, CliError>) -> ExitCode {
    result.unwrap_or_else(|error| {
        let text = if let CliError::Scenario(error) = &error {
            error.render(is_styled())
        } else {
            format!("error: {}\n", error_chain(&error))
        };
        // If standard error is gone there is nobody left to tell.
        drop(io::stderr().write_all(text.as_bytes()));
        ExitCode::FAILURE
    })
}

/// The arguments of `psmc-lab accuracy`.
#[derive(Debug, clap::Args)]
struct AccuracyArgs {
    /// Print the results as JSON
    #[arg(long)]
    json: bool,
    /// Duration of each measurement
    #[arg(long, value_name = "SECONDS", default_value = "2", value_parser = seconds)]
    seconds: Duration,
}

fn accuracy(args: &AccuracyArgs) -> Result<ExitCode, CliError> {
    if !is_privileged() {
        enter_user_namespace().map_err(CliError::of)?;
    }
    // If standard error is gone, nobody wants to know.
    let mut note = |what: &str| drop(writeln!(std::io::stderr(), "measuring {what}"));
    let measured = accuracy::measure(args.seconds, &mut note).map_err(CliError::of)?;
    if args.json {
        report::write_json(&measured, Path::new("-")).map_err(CliError::of)?;
    } else {
        output::print(&accuracy::table(&measured))?;
    }
    Ok(if measured.is_good() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().map_err(|_| "not a number".to_owned())?;
    let duration = Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())?;
    if (SHORTEST..=LONGEST).contains(&duration) { Ok(duration) } else { Err("not from 0.1 to 60".to_owned()) }
}

/// There must be some packets.
const SHORTEST: Duration = Duration::from_millis(100);

/// There must be room for all of them.
const LONGEST: Duration = Duration::from_secs(60);

#[derive(Debug, Args)]
struct CheckArgs {
    /// The scenario or profile, in TOML
    file: PathBuf,
}

fn check(args: &CheckArgs) -> Result<ExitCode, CliError> {
    if DeviceProfile::is_one(&args.file) {
        let profile = DeviceProfile::load(&args.file)?;
        output::print(&format!("{} is valid: {}\n", args.file.display(), profile.summary()))?;
        return Ok(ExitCode::SUCCESS);
    }
    let scenario = Scenario::load(&args.file)?;
    let text = format!("{} is valid. Summary:\n\n{}", args.file.display(), scenario.summary());
    output::print(&text)?;
    Ok(ExitCode::SUCCESS)
}

/// Cleans up, and says what there was.
fn clean() -> Result<ExitCode, CliError> {
    let removed = clean::clean().map_err(CliError::of)?;
    let text: String = removed.iter().map(line).collect();
    output::print(if text.is_empty() { "no dead lab has left anything\n" } else { &text })?;
    Ok(ExitCode::SUCCESS)
}

fn line(removed: &Removed) -> String {
    let processes = match removed.killed {
        0 => String::new(),
        1 => ", killed 1 process".to_owned(),
        count => format!(", killed {count} processes"),
    };
    let directory = removed.directory.iter().map(|path| format!(", removed {}", path.display()));
    format!("lab {}{processes}{}\n", removed.pid, directory.collect::<String>())
}

#[derive(Debug, Args)]
struct RunArgs {
    /// The scenario, in TOML
    file: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
    /// Leave configurations, logs and captures in this directory
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// Show nothing while it runs
    #[arg(long, short)]
    quiet: bool,
}

/// Where results go.
#[derive(Debug, Args)]
struct Outputs {
    /// Write the results as JSON to this file; - is standard output, in the place of the table
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Draw everything that was measured over time, as SVG files in this directory
    #[arg(long, value_name = "DIR")]
    plots: Option<PathBuf>,
}

/// Runs the scenario. To be called before the process starts its second thread.
fn run(args: &RunArgs) -> Result<ExitCode, CliError> {
    let scenario = Scenario::load(&args.file)?;
    let options = RunOptions { keep: args.keep.clone(), quiet: args.quiet, programs: None };
    let results = run::run(&scenario, &options).map_err(CliError::of)?;
    args.outputs.write(&results)
}

impl Outputs {
    /// Writes the results, and says by the exit code whether all checks hold.
    fn write(&self, results: &Results) -> Result<ExitCode, CliError> {
        if let Some(directory) = &self.plots {
            report::write_plots(results, directory).map_err(CliError::of)?;
        }
        if let Some(path) = &self.json {
            report::write_json(results, path).map_err(CliError::of)?;
        }
        if self.json.as_deref() != Some(Path::new("-")) {
            output::print(&report::table(results))?;
        }
        let all_hold = results.checks.iter().all(|check| check.ok);
        Ok(if all_hold { ExitCode::SUCCESS } else { ExitCode::FAILURE })
    }
}

#[derive(Debug, Args)]
struct SimArgs {
    /// The scenario, in TOML
    file: PathBuf,
    #[command(flatten)]
    outputs: Outputs,
}

fn sim(args: &SimArgs) -> Result<ExitCode, CliError> {
    let scenario = Scenario::load(&args.file)?;
    let results = simulate(&scenario).map_err(CliError::of)?;
    args.outputs.write(&results)
}
