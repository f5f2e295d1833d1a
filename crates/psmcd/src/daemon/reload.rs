//! Reading the configuration again while the site runs.
//!
//! | module | what it has |
//! |---|---|
//! | `diff` | what differs between what was read before and now |
//! | `apply` | carries that out |
//! | `paths` | the paths of one peer |
//!
//! What the file says is compared with what it said before, not with how things are: what people have changed while the site runs
//! stays as long as the file says nothing new of it.

mod apply;
mod diff;
mod paths;

use std::path::{Path, PathBuf};

use psmc_service::daemon::{self, ReadError};

use super::DaemonError;
use super::control::Control;
use super::requests::Refusal;
use super::tasks::TaskEnd;
use crate::config::Config;
use psmc_api::{Call, ReloadReport, Response};

/// The configuration as it is now, and who wants to know what came of it.
pub(super) struct Reread {
    config: Result<Config, ReadError>,
    call: Option<Call>,
}

/// Where the configuration is, to be read again.
#[derive(Debug)]
pub(super) struct ConfigFile {
    path: PathBuf,
    /// Whether it is being read.
    is_read: bool,
}

impl ConfigFile {
    pub(super) fn new(path: PathBuf) -> Self {
        Self { path, is_read: false }
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

impl Control {
    /// Reloads the configuration in the background, and applies it.
    pub(super) fn reread(&mut self, call: Option<Call>) {
        if std::mem::replace(&mut self.file.is_read, true) {
            if let Some(call) = call {
                call.respond(Response::error(
                    "the configuration is being read already; try again in a moment",
                ));
            }
            return;
        }
        self.supervisor.reloading();
        let file = self.file.path.clone();
        self.tasks.spawn(async move {
            let config = daemon::read(file, Config::load).await;
            TaskEnd::Reread(Box::new(Reread { config, call }))
        });
    }

    /// Applies the configuration, if it is right, and says what came of it.
    pub(super) async fn on_reread(&mut self, reread: Reread) -> Result<(), DaemonError> {
        self.file.is_read = false;
        let applied = self.apply_reread(reread.config).await;
        self.supervisor.ready();
        let response = match applied {
            Ok(report) => {
                log_report(&report);
                Response::Reloaded(report)
            }
            Err(Refusal::Said(response)) => response,
            Err(Refusal::Later(endpoint)) => Response::error(format!("{endpoint} is being resolved")),
            Err(Refusal::Ends(error)) => return Err(error),
        };
        if let Some(call) = reread.call {
            call.respond(response);
        }
        Ok(())
    }

    async fn apply_reread(&mut self, config: Result<Config, ReadError>) -> Result<ReloadReport, Refusal> {
        let applied = match config {
            Ok(config) => self.apply(config).await,
            Err(error) => {
                log_refusal(&self.file.path, &summary(&error));
                return Err(Refusal::of(&error));
            }
        };
        if let Err(Refusal::Said(Response::Error { message })) = &applied {
            log_refusal(&self.file.path, message);
        }
        applied
    }
}

/// The first thing that is wrong, in a line.
fn summary(error: &ReadError) -> String {
    let ReadError::Wrong(wrong) = error else { return error.to_string() };
    let complaints = wrong.complaints();
    let first = complaints.first().map(|complaint| complaint.reason()).unwrap_or_default();
    match complaints.len() {
        0 | 1 => first.to_owned(),
        count => format!("{first}, and {} more complaints", count - 1),
    }
}

fn log_refusal(file: &Path, error: &str) {
    let file = file.display();
    tracing::error!(%file, error, "configuration not reloaded; the current one stays in force: see `psmc check`");
}

fn log_report(report: &ReloadReport) {
    let ReloadReport { changes, restart, kept } = report;
    let joined = |list: &[String]| list.join("; ");
    tracing::info!(changes = joined(changes), kept = joined(kept), "configuration read again");
    if !restart.is_empty() {
        tracing::warn!(
            settings = restart.join(", "),
            "these settings need a restart of psmcd; they are unchanged"
        );
    }
}
