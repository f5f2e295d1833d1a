//! The daemon of the configuration, if it runs.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

use psmc_api::{Client, ClientError, PathState, PathStatus, PeerStatus, Status};
use psmcd::config::Config;
use tokio::net::UnixStream;

use super::super::facts::Daemon;

/// Whoever takes longer to answer does nothing else that is expected of it either.
const PATIENCE: Duration = Duration::from_secs(3);

/// A path that has not worked for so long will not soon: a handshake and a round trip take less.
const SETTLED: f64 = 3.0;

/// So long a daemon that has just been started is waited for.
const SETTLE_TIME: Duration = Duration::from_secs(4);

/// So long a socket is given on which nobody listens yet.
const START_TIME: Duration = Duration::from_millis(600);

const LOOK_INTERVAL: Duration = Duration::from_millis(200);

/// Asks the daemon, once it has had the time to do what it is asked about.
pub(super) async fn ask(config: &Config) -> Daemon {
    let socket = config.site.control_socket.as_path();
    let begun = Instant::now();
    loop {
        let status = match status_within(socket, PATIENCE) {
            Some(Ok(status)) => status,
            // One that is just being started listens in a moment.
            Some(Err(ClientError::NotRunning { .. })) if socket.exists() && begun.elapsed() < START_TIME => {
                tokio::time::sleep(LOOK_INTERVAL).await;
                continue;
            }
            Some(Err(error)) => return without_status(error, socket),
            None => return Daemon::Silent { socket: socket.to_owned() },
        };
        if is_settled(&status) || begun.elapsed() > SETTLE_TIME {
            let most_files = most_files(socket).await;
            return Daemon::Running { status: Box::new(status), most_files };
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
}

/// The status, or why there is none; `None` if nobody answers in time. The client itself would wait for longer.
fn status_within(socket: &Path, patience: Duration) -> Option<Result<Status, ClientError>> {
    let (answer, answered) = mpsc::channel();
    let socket = socket.to_owned();
    thread::spawn(move || {
        // Nobody may be waiting any more.
        let _ = answer.send(Client::connect(&socket).and_then(|mut client| client.status()));
    });
    answered.recv_timeout(patience).ok()
}

fn without_status(error: ClientError, socket: &Path) -> Daemon {
    let socket: PathBuf = socket.to_owned();
    match error {
        ClientError::NotRunning { .. } if socket.exists() => Daemon::Dead { socket },
        ClientError::NotRunning { .. } | ClientError::NoDaemon { .. } => Daemon::Absent,
        ClientError::Permission { .. } => Daemon::Denied,
        ClientError::Several { .. }
        | ClientError::Connect { .. }
        | ClientError::NoAnswer { .. }
        | ClientError::Timeout { .. }
        | ClientError::WrongAnswer { .. }
        | ClientError::Frame { .. }
        | ClientError::Refused(_) => Daemon::Silent { socket },
    }
}

/// Whether all peers and paths are as they will stay.
fn is_settled(status: &Status) -> bool {
    let rests = |path: &PathStatus| {
        let is_done = matches!(path.state, PathState::Active | PathState::Standby | PathState::Closing);
        is_done || path.since_s > SETTLED
    };
    let is_done = |peer: &PeerStatus| peer.control.connected && peer.paths.iter().all(rests);
    status.site.uptime_s > SETTLED && status.peers.iter().flat_map(|peer| &peer.paths).all(rests)
        || status.peers.iter().all(is_done)
}

/// How many files the process may have open that listens on the socket.
async fn most_files(socket: &Path) -> Option<u64> {
    let process = UnixStream::connect(socket).await.ok()?.peer_cred().ok()?.pid()?;
    let limits = fs::read_to_string(format!("/proc/{process}/limits")).ok()?;
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_whitespace().nth(1)?.parse().ok()
}
