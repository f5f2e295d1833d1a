//! The command line of `psmcd`.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::Parser;

use crate::config::{Config, ConfigError};
use crate::daemon::{self, DaemonError};
use crate::{error_chain, machine};
use psmc_service::logging::{self, LogError, LogFormat};
use psmc_service::open_files;

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
    /// How the log on standard error is written
    #[arg(long, default_value_t, value_name = "FORMAT")]
    pub log_format: LogFormat,
    /// What to log: a level such as debug, or directives such as psmc_net=trace,info [default: RUST_LOG, or else info]
    #[arg(long, value_name = "FILTER")]
    pub log: Option<String>,
}

/// Why the daemon does not run, or does not any more.
#[derive(Debug, thiserror::Error)]
pub enum ProgramError {
    /// Its configuration is wrong.
    #[error("{0}")]
    Config(#[from] ConfigError),
    /// It could not go on.
    #[error("{0}")]
    Daemon(#[from] DaemonError),
    /// It cannot log what it should.
    #[error("{0}")]
    Log(#[from] LogError),
}

/// Runs the daemon with the arguments of the process.
pub fn main() -> ExitCode {
    let Err(error) = run(&Arguments::parse()) else {
        return ExitCode::SUCCESS;
    };
    // If standard error is gone there is nobody left to tell.
    drop(std::io::stderr().write_all(error.render(logging::is_styled()).as_bytes()));
    ExitCode::FAILURE
}

/// Runs the daemon until it is told to stop.
///
/// # Errors
/// [`ProgramError`].
pub fn run(arguments: &Arguments) -> Result<(), ProgramError> {
    let _log = logging::init(arguments.log_format, arguments.log.as_deref())?;
    let config = Config::load(&arguments.config)?;
    if let Some(notice) = open_files::raise().ok().and_then(|most| machine::too_few_files(&config, most)) {
        tracing::warn!("{notice}");
    }
    Ok(daemon::run(config, &arguments.config)?)
}

impl ProgramError {
    /// The whole text for a person, in colours if `styled`.
    #[must_use]
    pub fn render(&self, styled: bool) -> String {
        match self {
            Self::Config(error) => error.render(styled),
            Self::Daemon(_) | Self::Log(_) => format!("error: {}\n", error_chain(self)),
        }
    }
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
