//! The command line of `psmc-experiments`: a file for each command.

mod experiment;
mod matrix;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use psmc_lab::report::ReportError;
use psmc_service::{error_chain, output};

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
    Matrix(matrix::Args),
    /// Reproduce a table or a figure of the publications that PSMC builds on
    Experiment(experiment::Args),
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
        Command::Matrix(args) => matrix::run(&args),
        Command::Experiment(args) => experiment::run(&args),
    }
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
