//! The command line of `psmc-demo`.

use std::path::Path;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use psmc_relay::config::Config;
use psmc_service::cli::{self, CliError};
use psmcd::program::Arguments;

use crate::{DemoArgs, DemoError};

/// Demonstrate PSMC on this machine: two sites, several paths, one of them cut
#[derive(Debug, Parser)]
#[command(name = "psmc-demo", version, propagate_version = false, disable_help_subcommand = true)]
#[command(args_conflicts_with_subcommands = true, override_usage = "psmc-demo [OPTIONS]")]
struct Demo {
    #[command(flatten)]
    args: DemoArgs,
    #[command(subcommand)]
    own: Option<Own>,
}

/// Programs that are part of this one, so that the first demonstration needs no other.
#[derive(Debug, Subcommand)]
enum Own {
    /// The daemon
    #[command(hide = true)]
    Psmcd(Arguments),
    /// A relay
    #[command(hide = true)]
    PsmcRelay(Arguments),
}

/// Why it failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum DemoCliError {
    #[error("{0}")]
    Demo(#[from] DemoError),
    #[error("{0}")]
    Own(#[from] CliError),
}

/// What stands on the command line of `psmc-demo`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Demo::command()
}

/// Runs `psmc-demo` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    cli::finish("error", run(&Demo::parse()))
}

fn run(demo: &Demo) -> Result<(), DemoCliError> {
    match &demo.own {
        None => Ok(crate::run(&demo.args)?),
        Some(Own::Psmcd(args)) => Ok(psmcd::program::run(args)?),
        Some(Own::PsmcRelay(args)) => {
            let run = |config: Config, file: &Path| psmc_relay::relay::run(&config, file);
            Ok(cli::run(&args.config, &args.log, Config::load, run)?)
        }
    }
}
