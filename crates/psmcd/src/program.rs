//! The command line of `psmcd`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::{CommandFactory, Parser};
use psmc_service::cli::{self, CliError, LogArgs};
use psmc_service::open_files;

use crate::config::Config;
use crate::daemon::{self, DaemonError};
use crate::machine;

/// Run one site of a multipath tunnel, in the foreground
#[derive(Debug, Parser)]
#[command(name = "psmcd", version)]
#[command(
    after_help = "Check a configuration with `psmc check FILE`; see what a running site does with `psmc status`."
)]
pub struct Arguments {
    /// The configuration of the site, in TOML
    #[arg(long, short, value_name = "FILE")]
    pub config: PathBuf,
    /// What is logged, and how.
    #[command(flatten)]
    pub log: LogArgs,
}

/// What stands on the command line of `psmcd`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Arguments::command()
}

/// Runs the daemon with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    cli::finish("error", run(&Arguments::parse()))
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// [`CliError`].
pub fn run(arguments: &Arguments) -> Result<(), CliError> {
    cli::run(&arguments.config, &arguments.log, Config::load, serve)
}

fn serve(config: Config, file: &Path) -> Result<(), DaemonError> {
    if let Some(notice) = open_files::raise().ok().and_then(|most| machine::too_few_files(&config, most)) {
        tracing::warn!("{notice}");
    }
    daemon::run(config, file)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Arguments::command().debug_assert();
    }
}
