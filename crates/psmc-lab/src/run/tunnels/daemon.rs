//! The daemon of a site.

use std::fs::OpenOptions;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use psmc_api::{Client, ClientError, Status};

use super::{PATIENCE, Patience};
use crate::run::RunError;
use crate::run::network::Network;
use crate::run::process::{Process, new_log, tail};
use crate::scenario::HostId;

/// The daemon of a site, whether it runs or not.
#[derive(Debug)]
pub(in crate::run) struct Daemon {
    place: Place,
    program: PathBuf,
    file: PathBuf,
    log: PathBuf,
    socket: PathBuf,
    process: Option<Process>,
}

/// Which tunnel's daemon it is, and where.
#[derive(Clone, Debug)]
pub(super) struct Place {
    pub(super) tunnel: String,
    pub(super) host: HostId,
    pub(super) host_name: String,
}

impl Daemon {
    /// Writes the configuration to `base` with an extension; the log will be beside it.
    pub(super) fn new(
        place: Place,
        program: &Path,
        base: &Path,
        configuration: &str,
        socket: PathBuf,
    ) -> Result<Self, RunError> {
        let file = with_extension(base, "toml");
        write_private(&file, configuration)?;
        let log = new_log(with_extension(base, "log"))?;
        Ok(Self { place, program: program.to_owned(), file, log, socket, process: None })
    }

    /// Starts the daemon, after it was killed if it runs.
    pub(in crate::run) fn start(&mut self, network: &Network) -> Result<(), RunError> {
        self.kill();
        let mut command = Command::new(&self.program);
        command.arg("--config").arg(&self.file);
        let started = Process::start(network.host(self.place.host), &mut command, &self.log);
        self.process = Some(started.map_err(|source| RunError::Start {
            program: "psmcd".to_owned(),
            host: self.place.host_name.clone(),
            source,
        })?);
        Ok(())
    }

    /// Kills the daemon, if it runs.
    pub(in crate::run) fn kill(&mut self) {
        self.process = None;
    }

    pub(super) fn socket(&self) -> &Path {
        &self.socket
    }

    /// Fails if the daemon has ended.
    pub(super) fn check(&mut self) -> Result<(), RunError> {
        let Some(status) = self.process.as_mut().and_then(Process::ended) else {
            return Ok(());
        };
        Err(RunError::DaemonEnded {
            tunnel: self.place.tunnel.clone(),
            host: self.place.host_name.clone(),
            how: status.to_string(),
            log: self.log_tail(),
        })
    }

    /// Waits until the daemon answers, and so listens.
    pub(super) fn wait_for_answer(&mut self, patience: Patience<'_>) -> Result<(), RunError> {
        while let Err(error) = self.status() {
            self.check()?;
            if !patience.pause()? {
                return Err(RunError::NotUp {
                    tunnel: self.place.tunnel.clone(),
                    waited: PATIENCE,
                    state: error.to_string(),
                    logs: self.log_tail(),
                });
            }
        }
        Ok(())
    }

    pub(super) fn status(&self) -> Result<Status, ClientError> {
        status(&self.socket)
    }

    pub(super) fn log_tail(&self) -> String {
        tail(&self.log, &self.place.host_name)
    }

    /// What is wrong with it, in a sentence.
    pub(super) fn warning(&mut self) -> Option<String> {
        let status = self.process.as_mut()?.ended()?;
        let Place { tunnel, host_name, .. } = &self.place;
        Some(format!(
            "psmcd of tunnel {tunnel} on {host_name} ended by itself ({status}): {}",
            self.log_tail()
        ))
    }
}

/// Asks the daemon with this control socket how it is.
pub(in crate::run) fn status(socket: &Path) -> Result<Status, ClientError> {
    Client::connect(socket)?.status()
}

/// Writes a file that only its owner can read, for it holds a private key.
fn write_private(path: &Path, text: &str) -> Result<(), RunError> {
    let file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(path);
    let written = file.and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(|source| RunError::File { path: path.to_owned(), source })
}

/// A name may have dots of its own.
fn with_extension(base: &Path, extension: &str) -> PathBuf {
    let mut name = base.as_os_str().to_owned();
    name.push(".");
    name.push(extension);
    name.into()
}
