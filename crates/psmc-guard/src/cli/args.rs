//! The arguments.

use std::path::PathBuf;

use clap::{Parser, Subcommand};
use psmc_service::cli::StatusArgs;

/// The guard of a gateway: finds floods, tells the coordinator, and has psmcd do what it says.
#[derive(Debug, Parser)]
#[command(version)]
pub(super) struct Args {
    /// The configuration of the guard to run.
    #[arg(long, value_name = "FILE")]
    pub(super) config: Option<PathBuf>,
    /// What is logged: a level, such as debug, or a list of directives [default: RUST_LOG, or info].
    #[arg(long, value_name = "FILTER")]
    pub(super) log: Option<String>,
    #[command(subcommand)]
    pub(super) command: Option<Command>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Checks a configuration, and says what it means.
    Check {
        /// The file.
        file: PathBuf,
    },
    /// Shows what a running guard sees and does.
    Status(StatusArgs),
}
