//! The command line of `psmc-dns`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{Parser, Subcommand};
use psmc_service::cli::{ShowError, StatusArgs};
use psmc_service::logging::{self, LogError, LogFormat};
use psmc_service::output;
use psmc_toml::ConfigError;

use crate::config::Config;
use crate::daemon::{self, DaemonError};
use crate::status::Status;

/// The PSMC name server: authoritative, with dynamic updates and alternate routes.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Checks a configuration, its zone files and keys, and prints a summary.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Serves, in the foreground. SIGHUP reloads the configuration.
    Serve {
        /// The configuration.
        file: PathBuf,
        /// Log level or directives: a level, such as debug, or a list of directives [default: RUST_LOG, or info].
        #[arg(long, value_name = "FILTER")]
        log: Option<String>,
    },
    /// Shows what a running server does.
    Status(StatusArgs),
}

/// Why a command failed. The text is all that the user gets to see.
#[derive(Debug, thiserror::Error)]
enum CliError {
    #[error("{0}")]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Daemon(#[from] DaemonError),
    #[error(transparent)]
    Show(#[from] ShowError),
    #[error(transparent)]
    Log(#[from] LogError),
}

/// Runs `psmc-dns` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    match run(Args::parse().command) {
        Ok(()) => ExitCode::SUCCESS,
        // It has told its causes already.
        Err(CliError::Config(error)) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("psmc-dns: {}", crate::error_chain(&error));
            ExitCode::FAILURE
        }
    }
}

fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Check { file } => {
            let config = Config::load(&file)?;
            let text = format!("{} is valid. Summary:\n\n{}", file.display(), config.summary());
            Ok(output::print(&text).map_err(ShowError::from)?)
        }
        Command::Serve { file, log } => {
            let _log = logging::init(LogFormat::Text, log.as_deref())?;
            Ok(daemon::run(Config::load(&file)?, &file)?)
        }
        Command::Status(asked) => Ok(asked.show(describe)?),
    }
}

fn describe(status: &Status) -> String {
    let counts = &status.counts;
    let mut text = format!(
        "name server {}, up {} s\n\
         answered {} questions, carried out {} updates, gave {} transfers\n\
         refused {}, malformed {}, limited {}, dropped for overload {}\n",
        status.name,
        status.uptime_s,
        counts.answered,
        counts.updated,
        counts.transferred,
        counts.refused,
        counts.malformed,
        counts.limited,
        counts.overloaded,
    );
    for zone in &status.zones {
        let serial = zone.serial.map_or_else(|| "not served".to_owned(), |serial| format!("serial {serial}"));
        let signed = if zone.signed { ", signed" } else { "" };
        let from = zone.primary.as_ref().map_or_else(String::new, |primary| format!(", from {primary}"));
        // Writing to a string does not fail.
        let _ = writeln!(text, "zone {} {serial}, {} records{signed}{from}", zone.name, zone.records);
    }
    text
}
