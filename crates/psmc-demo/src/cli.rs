//! The command line of `psmc-demo`.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use psmc_relay::relay::RelayError;
use psmc_service::error_chain;
use psmc_service::logging::{self, LogError, is_styled};
use psmc_toml::ConfigError;
use psmcd::program::{Arguments, ProgramError};

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
enum CliError {
    #[error("{0}")]
    Demo(#[from] DemoError),
    #[error("{0}")]
    Daemon(#[from] ProgramError),
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error("{0}")]
    Relay(#[from] RelayError),
    #[error("{0}")]
    Log(#[from] LogError),
}

/// Runs `psmc-demo` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    let Err(error) = run(&Demo::parse()) else {
        return ExitCode::SUCCESS;
    };
    let text = match &error {
        CliError::Daemon(error) => error.render(is_styled()),
        CliError::Config(error) => error.render(is_styled()),
        CliError::Demo(_) | CliError::Relay(_) | CliError::Log(_) => {
            format!("error: {}\n", error_chain(&error))
        }
    };
    // If standard error is gone there is nobody left to tell.
    drop(io::stderr().write_all(text.as_bytes()));
    ExitCode::FAILURE
}

fn run(demo: &Demo) -> Result<(), CliError> {
    match &demo.own {
        None => Ok(crate::run(&demo.args)?),
        Some(Own::Psmcd(args)) => Ok(psmcd::program::run(args)?),
        Some(Own::PsmcRelay(args)) => {
            let _log = logging::init(args.log_format, args.log.as_deref())?;
            let config = psmc_relay::config::Config::load(&args.config)?;
            Ok(psmc_relay::relay::run(&config, &args.config)?)
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_definitions_are_consistent() {
        Demo::command().debug_assert();
    }

    #[test]
    fn programs_that_are_part_of_it_are_not_in_its_help() {
        let help = Demo::command().render_help().to_string();
        assert!(help.contains("--relays") && !help.contains("psmcd"), "{help}");
    }
}
