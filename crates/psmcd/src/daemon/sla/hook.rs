//! The program that is told of breaches.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use psmc_api::SlaStatus;
use tokio::process::Command;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::watch::Event;

/// How long a program may run. One that tells somebody else should not take longer, or go on in the background.
const RUN_TIME: Duration = Duration::from_secs(30);

/// Events that wait until the program has ended that is told of the one before: a breach, its end, and the same again.
const MAX_WAITING: usize = 4;

/// A target's program; ends with this.
#[derive(Debug)]
pub(super) struct Hook {
    events: mpsc::Sender<Told>,
    running: JoinHandle<()>,
}

/// What a program is told.
#[derive(Debug)]
pub(super) struct Told {
    pub(super) event: Event,
    pub(super) site: String,
    pub(super) status: SlaStatus,
    /// What has happened, in words.
    pub(super) text: String,
}

/// Why a program was not told.
#[derive(Debug, thiserror::Error)]
enum HookError {
    #[error("cannot run it: is it there, may root execute it, and does it begin with #! and an interpreter?")]
    NotRun(#[source] io::Error),
    #[error("it has not ended in {} s and was killed; let it go on in the background what takes longer", RUN_TIME.as_secs())]
    TooLong,
    #[error("it has failed: {0}")]
    Failed(ExitStatus),
}

impl Hook {
    /// Has a program told, one event after the other.
    pub(super) fn new(program: PathBuf) -> Self {
        let (events, mut waiting) = mpsc::channel::<Told>(MAX_WAITING);
        let running = tokio::spawn(async move {
            while let Some(told) = waiting.recv().await {
                if let Err(error) = run(&program, &told).await {
                    let (sla, program) = (&told.status.name, program.display());
                    let error = psmc_service::error_chain(&error);
                    tracing::warn!(sla, %program, error, "the program was not told of what happened to a target");
                }
            }
        });
        Self { events, running }
    }

    /// Has it told. If it is behind by too many events, it never hears of this one.
    pub(super) fn tell(&self, told: Told) {
        if let Err(error) = self.events.try_send(told) {
            let sla = &error.into_inner().status.name;
            tracing::warn!(sla, "the program was not told of what happened to a target: it is still busy");
        }
    }
}

impl Drop for Hook {
    fn drop(&mut self) {
        self.running.abort();
    }
}

/// Runs a program, without a shell, and with an environment that has nothing of psmcd's.
async fn run(program: &Path, Told { event, site, status, text }: &Told) -> Result<(), HookError> {
    let mut command = Command::new(program);
    command.args([event.name(), &status.name]).env_clear();
    command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
    command.env("PSMC_EVENT", event.name()).env("PSMC_SITE", site).env("PSMC_TARGET", &status.name);
    command.env("PSMC_MEASURED", &status.measured).env("PSMC_TEXT", text);
    command.env("PSMC_JSON", serde_json::to_string(status).unwrap_or_default());
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).kill_on_drop(true);
    let mut child = command.spawn().map_err(HookError::NotRun)?;
    let ended = timeout(RUN_TIME, child.wait()).await.map_err(|_| HookError::TooLong)?;
    let status = ended.map_err(HookError::NotRun)?;
    if status.success() { Ok(()) } else { Err(HookError::Failed(status)) }
}
