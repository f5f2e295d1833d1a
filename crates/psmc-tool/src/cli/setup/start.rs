//! Starting psmcd: as a unit where systemd runs, else in the background.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use psmc_service::programs::{self, NotInstalled};
use psmcd::config::Config;

use super::files::Place;
use psmc_api::{Client, ClientError};

/// Where systemd says that it runs (sd_booted(3)).
const SYSTEMD: &str = "/run/systemd/system";

/// How long psmcd may take until its control socket answers.
const START_TIME: Duration = Duration::from_secs(10);

/// How often that is looked at.
const LOOK_INTERVAL: Duration = Duration::from_millis(50);

/// Lines of the log that say why psmcd has ended.
const LAST_LINES: usize = 5;

/// Why the daemon does not run.
#[derive(Debug, thiserror::Error)]
pub(in crate::cli) enum StartError {
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    #[error("cannot run {program}")]
    Run { program: &'static str, source: io::Error },
    #[error("`systemctl enable --now {unit}` has failed; `journalctl -u {unit}` says why")]
    Unit { unit: String },
    #[error("psmcd has ended: {}", last_lines(.log))]
    Ended { log: PathBuf },
    #[error("psmcd runs, but does not answer: {0}")]
    Silent(#[source] ClientError),
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<_> = text.trim_end().lines().collect();
    lines[lines.len().saturating_sub(LAST_LINES)..].join("\n")
}

/// A daemon that runs, and how that came.
pub(super) struct Running {
    pub(super) client: Client,
    /// In words.
    pub(super) how: String,
}

/// Starts the daemon of a site, and waits until it answers.
pub(super) fn start(place: &Place, config: &Config) -> Result<Running, StartError> {
    let socket = config.site.control_socket.as_path();
    if place.is_usual() && Path::new(SYSTEMD).is_dir() {
        let unit = format!("psmcd@{}", place.name());
        let enabled = Command::new("systemctl").args(["enable", "--now", &unit]).status();
        let enabled = enabled.map_err(|source| StartError::Run { program: "systemctl", source })?;
        if !enabled.success() {
            return Err(StartError::Unit { unit });
        }
        let client = answering(socket, || false, place)?;
        return Ok(Running {
            client,
            how: format!("psmcd runs, now and after every boot, as the unit {unit}"),
        });
    }
    let mut child = spawn(place)?;
    let client = answering(socket, || matches!(child.try_wait(), Ok(Some(_))), place)?;
    let why =
        if place.is_usual() { "systemd does not run here" } else { "units read files in /etc/psmc only" };
    let how = format!(
        "psmcd runs in the background as process {}, its log is {}; it is not started at boot: {why}",
        child.id(),
        place.log().display()
    );
    Ok(Running { client, how })
}

fn spawn(place: &Place) -> Result<Child, StartError> {
    let program = programs::find("psmcd")?;
    let failed = |source| StartError::Run { program: "psmcd", source };
    let log = place.log();
    if let Some(folder) = log.parent() {
        DirBuilder::new().recursive(true).mode(0o750).create(folder).map_err(failed)?;
    }
    let log = OpenOptions::new().append(true).create(true).open(log).map_err(failed)?;
    let also = log.try_clone().map_err(failed)?;
    Command::new(program)
        .arg("--config")
        .arg(place.config())
        .stdin(Stdio::null())
        .stdout(also)
        .stderr(log)
        // What ends this command from the keyboard does not end the tunnel.
        .process_group(0)
        .spawn()
        .map_err(failed)
}

/// Connects once the daemon answers, unless it ends before.
fn answering(
    socket: &Path,
    mut has_ended: impl FnMut() -> bool,
    place: &Place,
) -> Result<Client, StartError> {
    let begun = Instant::now();
    loop {
        match Client::connect(socket).and_then(|mut client| client.status().map(|_| client)) {
            Ok(client) => return Ok(client),
            Err(_) if has_ended() => return Err(StartError::Ended { log: place.log() }),
            Err(error) if begun.elapsed() > START_TIME => return Err(StartError::Silent(error)),
            Err(_) => thread::sleep(LOOK_INTERVAL),
        }
    }
}
