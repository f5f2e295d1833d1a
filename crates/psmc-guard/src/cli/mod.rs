//! The command line of `psmc-guard`.

mod args;
mod status;

use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;

use clap::Parser;
use psmc_toml::ConfigError;
use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::ParseError;

use crate::config::Config;
use crate::guard::{self, GuardError};
use crate::status::StatusError;
use args::{Args, Command};

/// Why a command failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Guard(#[from] GuardError),
    #[error(transparent)]
    Status(#[from] StatusError),
    #[error("{filter:?} is not a log filter; write a level, such as debug")]
    Filter { filter: String, source: ParseError },
    #[error("name the configuration: psmc-guard --config FILE")]
    NoConfig,
    #[error("cannot print the result")]
    Output(#[from] io::Error),
}

/// Runs `psmc-guard` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    match run(&Args::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        // Whoever reads the output has seen enough.
        Err(CliError::Output(error)) if error.kind() == io::ErrorKind::BrokenPipe => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("psmc-guard: {}", crate::error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(args: &Args) -> Result<(), CliError> {
    match (&args.command, &args.config) {
        (Some(Command::Check { file }), _) => {
            let config = Config::load(file)?;
            write!(io::stdout(), "{} is right. It means:\n\n{}", file.display(), config.summary())?;
            Ok(())
        }
        (Some(Command::Status(asked)), _) => status::run(asked),
        (None, Some(file)) => {
            init_log(args.log.as_deref())?;
            Ok(guard::run(&Config::load(file)?)?)
        }
        (None, None) => Err(CliError::NoConfig),
    }
}

/// Sets up logging to standard error; without a filter `RUST_LOG` counts, and without that `info`.
fn init_log(filter: Option<&str>) -> Result<(), CliError> {
    let filter = filter.map(str::to_owned).or_else(|| std::env::var(EnvFilter::DEFAULT_ENV).ok());
    let filter = filter.filter(|filter| !filter.is_empty()).unwrap_or_else(|| "info".to_owned());
    let parsed = EnvFilter::builder().parse(&filter).map_err(|source| CliError::Filter { filter, source })?;
    let terminal = io::stderr().is_terminal();
    tracing_subscriber::fmt().with_env_filter(parsed).with_writer(io::stderr).with_ansi(terminal).init();
    Ok(())
}
