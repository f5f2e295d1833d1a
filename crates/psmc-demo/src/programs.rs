//! The programs that demonstrations start.

use std::env;
use std::io;
use std::path::Path;
use std::process::Command;

use psmc_service::programs::{self, NotInstalled};

/// A program that a demonstration starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Program {
    /// `psmcd`, which is part of this program.
    Daemon,
    /// `psmc-relay`, which is as well.
    Relay,
    /// `psmc-dns serve`
    NameServer,
    /// `psmc dns resolve`
    Resolver,
    /// `psmc-guard`
    Guard,
    /// `psmc-coordinator`
    Coordinator,
}

impl Program {
    /// What runs it with this configuration.
    pub(crate) fn command(self, configuration: &Path) -> io::Result<Command> {
        let mut command = match self {
            Self::Daemon => own(&["psmcd", "--config"]),
            Self::Relay => own(&["psmc-relay", "--config"]),
            Self::NameServer => other("psmc-dns", &["serve"]),
            Self::Resolver => other("psmc", &["dns", "resolve", "run"]),
            Self::Guard => other("psmc-guard", &["--config"]),
            Self::Coordinator => other("psmc-coordinator", &["--config"]),
        }?;
        command.arg(configuration);
        Ok(command)
    }
}

/// Whether the programs that are no part of this one are installed.
pub(crate) fn require_others() -> Result<(), NotInstalled> {
    programs::require(&["psmc", "psmc-coordinator", "psmc-dns", "psmc-guard"])
}

fn own(words: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(env::current_exe()?);
    command.args(words);
    Ok(command)
}

fn other(name: &str, words: &[&str]) -> io::Result<Command> {
    let mut command = Command::new(programs::find(name).map_err(io::Error::other)?);
    command.args(words);
    Ok(command)
}
