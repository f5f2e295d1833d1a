//! The command line of `psmc-relay`.

mod args;
mod status;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use psmc_service::cli::ShowError;
use psmc_service::logging::{self, LogError, LogFormat};
use psmc_toml::ConfigError;

use crate::config::Config;
use crate::relay::{self, RelayError};
use args::{Args, Command};

/// Why a command failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Relay(#[from] RelayError),
    #[error(transparent)]
    Show(#[from] ShowError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("name the configuration: psmc-relay --config FILE")]
    NoConfig,
}

/// Runs `psmc-relay` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has seen enough.
        Err(CliError::Show(error)) if error.is_enough() => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("psmc-relay: {}", crate::error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), CliError> {
    match (&args.command, &args.config) {
        (Some(Command::Check { file }), _) => {
            let config = Config::load(file)?;
            write!(io::stdout(), "{} is right. It means:\n\n{}", file.display(), config.summary())
                .map_err(ShowError::from)?;
            Ok(())
        }
        (Some(Command::Status(asked)), _) => Ok(asked.show(status::describe)?),
        (None, Some(file)) => {
            let _log = logging::init(LogFormat::Text, args.log.as_deref())?;
            Ok(relay::run(&Config::load(file)?, file)?)
        }
        (None, None) => Err(CliError::NoConfig),
    }
}
