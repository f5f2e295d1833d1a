//! The command line of `psmc-lab`: a file for each command.

mod accuracy;
mod check;
mod clean;
mod networks;
mod run;
mod sim;

use std::error::Error;
use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use psmc_service::logging::is_styled;
use psmc_service::output;

use crate::error_chain;
use crate::scenario::ConfigError;

/// Emulate networks on this machine: real programs on links with given rate, delay and loss, or a simulation
#[derive(Debug, Parser)]
#[command(name = "psmc-lab", version, propagate_version = false, disable_help_subcommand = true)]
struct Lab {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Check a scenario, and print a summary
    ///
    /// Prints everything that is wrong with the file, with line and remedy, and exits with 1; or a summary of the file, and
    /// exits with 0. Nothing is started or changed.
    Check(check::CheckArgs),
    /// Measure the accuracy and capacity of the emulator on this machine
    Accuracy(accuracy::Args),
    /// Run a scenario in real time, with real programs and packets
    ///
    /// Exits with 0 if all of its checks hold. As root, or as an ordinary user in a user namespace. Everything that is made
    /// is removed at the end, also after ^C.
    Run(run::RunArgs),
    /// Run a scenario in virtual time
    ///
    /// The same links and the same engine on hosts that are simulated: it takes seconds, needs no privileges, and gives the
    /// same results each time. Exits with 0 if all checks hold.
    Sim(sim::SimArgs),
    /// Remove what killed labs left behind
    Clean,
    /// Measure one flow over many networks, random or recorded: through the tunnel, and over the best link alone
    Networks(networks::Args),
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

/// Runs the tool with the arguments of the process. To be called before the process starts its second thread: an
/// ordinary user needs a user namespace, which a process with several threads cannot enter.
pub fn psmc_lab() -> ExitCode {
    finish(execute(Lab::parse()))
}

/// Exits with 0 if all is well, with 1 also if everything ran but a check does not hold.
fn execute(lab: Lab) -> Result<ExitCode, CliError> {
    match lab.command {
        Command::Accuracy(args) => accuracy::run(&args),
        Command::Check(args) => check::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Clean => clean::run(),
        Command::Networks(args) => networks::run(&args),
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
