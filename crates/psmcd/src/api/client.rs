//! The tool's side of the control socket.

mod calls;

pub use calls::RouteSet;

use std::fs;
use std::io::{self, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::frame::{self, FrameError, MAX_LINE};
use super::{Request, Response};
use crate::config::{Name, RUN_DIR, SocketPath};

/// How long to wait for a response that is not to come later: longer than the daemon itself waits before it says that it is stuck.
const TIMEOUT: Duration = Duration::from_secs(15);

/// Why a daemon could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No daemon has a socket in the usual place.
    #[error(
        "no psmcd is running here; start one with `psmcd --config FILE`, or name its socket with --socket"
    )]
    NoDaemon,
    /// There are several daemons.
    #[error("several sites run here; choose one with --site: {}", names.join(", "))]
    Several {
        /// The sites' names.
        names: Vec<String>,
    },
    /// Nobody answers at the socket.
    #[error("no psmcd answers on {}; is it running?", path.display())]
    NotRunning {
        /// The socket's path.
        path: PathBuf,
    },
    /// The socket is another user's.
    #[error("permission denied on {}; run psmc as the user that psmcd runs as, usually root", path.display())]
    Permission {
        /// The socket's path.
        path: PathBuf,
    },
    /// Connecting failed in another way.
    #[error("cannot connect to {}: {source}", path.display())]
    Connect {
        /// The socket's path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The daemon went away before it answered.
    #[error("psmcd closed the connection without an answer; look at its log")]
    NoAnswer,
    /// The daemon takes too long.
    #[error("psmcd has not answered within {} s; look at its log", TIMEOUT.as_secs())]
    Timeout,
    /// It says something else than was asked for.
    #[error("psmcd answered something else than was asked; install the same release of psmc and psmcd")]
    WrongAnswer,
    /// The conversation failed.
    #[error("cannot talk to psmcd: {0}")]
    Frame(#[source] FrameError),
    /// The daemon refuses, in its own words.
    #[error("{0}")]
    Refused(String),
}

/// A connection to a daemon. It blocks: the tool has nothing else to do.
#[derive(Debug)]
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Connects to the socket at `path`.
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|error| connect_error(path, error))?;
        let limit = Some(TIMEOUT);
        let limited = stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(limit));
        limited.map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Ok(Self { stream: BufReader::new(stream) })
    }

    /// Connects to the daemon of a site, by its name.
    pub fn connect_to_site(name: &Name) -> Result<Self, ClientError> {
        Self::connect(SocketPath::of_site(name).as_path())
    }

    /// Connects to the only daemon of this machine.
    pub fn connect_to_only_site() -> Result<Self, ClientError> {
        Self::connect(&only_socket(Path::new(RUN_DIR))?)
    }

    /// Asks, and waits for the response.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the daemon answers with [`Response::Error`].
    pub fn ask(&mut self, request: &Request) -> Result<Response, ClientError> {
        let line = frame::encode(request, MAX_LINE).map_err(ClientError::Frame)?;
        let limit = Some(TIMEOUT + request.patience());
        self.stream.get_ref().set_read_timeout(limit).map_err(|error| ClientError::Frame(error.into()))?;
        // A daemon that turns a client away closes without reading: what it said is still there to be read.
        drop(self.stream.get_mut().write_all(&line));
        let line = frame::read_line_blocking(&mut self.stream).map_err(read_error)?;
        match frame::decode(&line.ok_or(ClientError::NoAnswer)?).map_err(ClientError::Frame)? {
            Response::Error { message } => Err(ClientError::Refused(message)),
            response @ (Response::Ok
            | Response::Noted { .. }
            | Response::Status(_)
            | Response::Paths(_)
            | Response::Peer(_)
            | Response::Routes(_)
            | Response::Registrations(_)
            | Response::Reloaded(_)
            | Response::Additions(_)) => Ok(response),
        }
    }
}

fn connect_error(path: &Path, source: io::Error) -> ClientError {
    let path = path.to_owned();
    let kind = source.kind();
    if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
        ClientError::NotRunning { path }
    } else if kind == io::ErrorKind::PermissionDenied {
        ClientError::Permission { path }
    } else {
        ClientError::Connect { path, source }
    }
}

fn read_error(error: FrameError) -> ClientError {
    let FrameError::Io(source) = &error else {
        return ClientError::Frame(error);
    };
    if matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        ClientError::Timeout
    } else if source.kind() == io::ErrorKind::ConnectionReset {
        ClientError::NoAnswer
    } else {
        ClientError::Frame(error)
    }
}

/// The one socket in a directory.
fn only_socket(directory: &Path) -> Result<PathBuf, ClientError> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut sockets: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sock"))
        .collect();
    sockets.sort();
    match sockets.as_slice() {
        [] => Err(ClientError::NoDaemon),
        [only] => Ok(only.clone()),
        several => Err(ClientError::Several {
            names: several
                .iter()
                .filter_map(|path| path.file_stem())
                .map(|s| s.to_string_lossy().into())
                .collect(),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_only_socket_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let socket = |name: &str| fs::write(directory.path().join(name), "").unwrap();
        assert!(matches!(only_socket(&directory.path().join("no")), Err(ClientError::NoDaemon)));
        socket("notes.txt");
        assert!(matches!(only_socket(directory.path()), Err(ClientError::NoDaemon)));
        socket("van.sock");
        assert!(only_socket(directory.path()).unwrap().ends_with("van.sock"));
        socket("hq.sock");
        assert_eq!(
            only_socket(directory.path()).unwrap_err().to_string(),
            "several sites run here; choose one with --site: hq, van"
        );
    }

    #[test]
    fn a_missing_daemon_is_named() {
        let error = Client::connect(Path::new("/nonexistent/van.sock")).unwrap_err();
        assert_eq!(error.to_string(), "no psmcd answers on /nonexistent/van.sock; is it running?");
    }
}
