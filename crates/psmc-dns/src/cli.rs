//! The command line of `psmc-dns`.

use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};
use psmc_service::cli::{self, CliError, LogArgs, StatusArgs};
use psmc_service::socket::Report;

use crate::config::Config;
use crate::daemon;
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
        #[command(flatten)]
        log: LogArgs,
    },
    /// Shows what a running server does.
    Status(StatusArgs),
}

/// What stands on the command line of `psmc-dns`, for its manual and completions.
#[must_use]
pub fn command() -> clap::Command {
    Args::command()
}

/// Runs `psmc-dns` with the arguments of the process.
#[must_use]
pub fn main() -> ExitCode {
    cli::finish(Status::PROGRAM, run(Args::parse().command))
}

fn run(command: Command) -> Result<(), CliError> {
    match command {
        Command::Check { file } => cli::check(&file, Config::load, Config::summary),
        Command::Serve { file, log } => cli::run(&file, &log, Config::load, daemon::run),
        Command::Status(asked) => asked.show(describe),
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
