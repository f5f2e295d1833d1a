//! How demonstrations start programs and end them, and where their configurations, logs and sockets are.

use std::env;
use std::fs::{self, File, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use psmc_service::programs::{self, NotInstalled};
use psmc_testbed::netns::Namespace;
use tempfile::TempDir;

use crate::DemoError;

/// A program that a demonstration starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ProgramKind {
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

impl ProgramKind {
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

/// A directory of ours, which is removed on drop unless the user wants to keep it.
pub(crate) enum Directory {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Directory {
    /// `keep`, which is made if it does not exist, or a new one where temporary files go.
    pub(crate) fn new(keep: Option<&Path>) -> Result<Self, DemoError> {
        let Some(path) = keep else {
            return temporary();
        };
        let made = fs::create_dir_all(path).and_then(|()| fs::canonicalize(path));
        made.map(Self::Kept).map_err(failed(path))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }
}

/// Whether the programs that are no part of this one are installed.
pub(crate) fn require_others() -> Result<(), NotInstalled> {
    programs::require(&["psmc", "psmc-coordinator", "psmc-dns", "psmc-guard"])
}

/// Starts a program. A log goes on where it was.
pub(crate) fn spawn(host: &Namespace, program: ProgramKind, file: &Path, log: &Path) -> io::Result<Child> {
    let mut command = program.command(file)?;
    command.stdin(Stdio::null()).stdout(Stdio::null());
    host.spawn(command.stderr(File::options().create(true).append(true).open(log)?))
}

pub(crate) fn end(program: &mut Child) {
    // Both fail only for one that has ended.
    drop(program.kill());
    drop(program.wait());
}

pub(crate) fn log_tail(log: &Path, site: &str) -> String {
    let log = fs::read_to_string(log).unwrap_or_else(|error| error.to_string());
    tail(&log, site)
}

/// Writes a file that only its owner can read, for it holds a private key.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), DemoError> {
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(failed(path))
}

fn temporary() -> Result<Directory, DemoError> {
    let made =
        tempfile::Builder::new().prefix("psmc-demo-").permissions(Permissions::from_mode(0o700)).tempdir();
    made.map(Directory::Temporary).map_err(failed(&env::temp_dir()))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> DemoError {
    let path = path.to_owned();
    |source| DemoError::Directory { path, source }
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

/// The last lines of a log, each with the name of its site.
fn tail(log: &str, site: &str) -> String {
    let lines: Vec<_> = log.lines().map(|line| format!("{site}: {line}")).collect();
    lines[lines.len().saturating_sub(LOG_LINES)..].join("\n")
}

/// How long the tunnel may take to come up: far longer than it needs.
pub(crate) const UP_WITHIN: Duration = Duration::from_secs(15);

/// How often it is looked whether it has, and so how exactly that time is known.
pub(crate) const POLL: Duration = Duration::from_millis(5);

/// How much of a log is shown when something failed.
const LOG_LINES: usize = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_log_is_shown() {
        assert_eq!(tail("", "van"), "");
        assert_eq!(tail("a\nb\n", "van"), "van: a\nvan: b");
        let long: String = (0..100).map(|line| format!("{line}\n")).collect();
        let shown = tail(&long, "hq");
        assert!(shown.starts_with("hq: 90\n") && shown.ends_with("\nhq: 99"), "{shown}");
    }
}
