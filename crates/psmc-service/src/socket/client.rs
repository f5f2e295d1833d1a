//! The side of whoever asks.

use std::fs;
use std::io::{self, BufReader, Write};
use std::marker::PhantomData;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::frame::{self, FrameError, MAX_LINE};
use super::{Protocol, Reply, Report, StatusOf, StatusRequest, StatusResponse};

/// How long to wait for a response that is not to come later: longer than a program itself waits before it says that it is stuck.
pub const TIMEOUT: Duration = Duration::from_secs(15);

/// Why a program could not be asked.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No such program has a socket in the usual place.
    #[error(
        "no {program} is running here; start one with `{program} --config FILE`, or name its socket with --socket"
    )]
    NoDaemon {
        /// The program.
        program: &'static str,
    },
    /// There are several.
    #[error("several {program} run here; choose one with --socket: {}", list(sockets))]
    Several {
        /// The program.
        program: &'static str,
        /// Their sockets.
        sockets: Vec<PathBuf>,
    },
    /// Nobody answers at the socket.
    #[error("no {program} answers on {}; is it running?", path.display())]
    NotRunning {
        /// The program.
        program: &'static str,
        /// The socket's path.
        path: PathBuf,
    },
    /// The socket is another user's.
    #[error("permission denied on {}; run this as the user that {program} runs as, usually root", path.display())]
    Permission {
        /// The program.
        program: &'static str,
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
    /// The program went away before it answered.
    #[error("{program} closed the connection without an answer; look at its log")]
    NoAnswer {
        /// The program.
        program: &'static str,
    },
    /// The program takes too long.
    #[error("{program} has not answered within {} s; look at its log", TIMEOUT.as_secs())]
    Timeout {
        /// The program.
        program: &'static str,
    },
    /// It says something else than was asked for.
    #[error("{program} answered something else than was asked; install the same release on both sides")]
    WrongAnswer {
        /// The program.
        program: &'static str,
    },
    /// The conversation failed.
    #[error("cannot talk to {program}: {source}")]
    Frame {
        /// The program.
        program: &'static str,
        /// What is wrong.
        source: FrameError,
    },
    /// The program refuses, in its own words.
    #[error("{0}")]
    Refused(String),
}

fn list(paths: &[PathBuf]) -> String {
    paths.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ")
}

/// A connection to a program. It blocks: a tool has nothing else to do.
#[derive(Debug)]
pub struct Client<P> {
    stream: BufReader<UnixStream>,
    protocol: PhantomData<P>,
}

impl<P: Protocol> Client<P> {
    /// Connects to the socket at `path`.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn connect(path: &Path) -> Result<Self, ClientError> {
        let stream = UnixStream::connect(path).map_err(|error| connect_error(P::PROGRAM, path, error))?;
        let limit = Some(TIMEOUT);
        let limited = stream.set_read_timeout(limit).and_then(|()| stream.set_write_timeout(limit));
        limited.map_err(|source| ClientError::Connect { path: path.to_owned(), source })?;
        Ok(Self { stream: BufReader::new(stream), protocol: PhantomData })
    }

    /// Asks, and waits for the response.
    ///
    /// # Errors
    /// [`ClientError::Refused`] if the program refuses.
    pub fn ask(&mut self, request: &P::Request) -> Result<P::Response, ClientError> {
        let program = P::PROGRAM;
        let failed = |source| ClientError::Frame { program, source };
        let line = frame::encode(request, MAX_LINE).map_err(failed)?;
        let limit = Some(TIMEOUT + P::patience(request));
        self.stream.get_ref().set_read_timeout(limit).map_err(|error| failed(error.into()))?;
        // A program that turns a client away closes without reading: what it said is still there to be read.
        drop(self.stream.get_mut().write_all(&line));
        let line = frame::read_line_blocking(&mut self.stream).map_err(|error| read_error(program, error))?;
        let response: P::Response =
            frame::decode(&line.ok_or(ClientError::NoAnswer { program })?).map_err(failed)?;
        response.granted().map_err(ClientError::Refused)
    }
}

impl<T: Report> Client<StatusOf<T>> {
    /// How the program is.
    ///
    /// # Errors
    /// [`ClientError`].
    pub fn status(&mut self) -> Result<T, ClientError> {
        match self.ask(&StatusRequest::Status)? {
            StatusResponse::Status(status) => Ok(status),
            StatusResponse::Error { message } => Err(ClientError::Refused(message)),
        }
    }
}

fn connect_error(program: &'static str, path: &Path, source: io::Error) -> ClientError {
    let path = path.to_owned();
    let kind = source.kind();
    if matches!(kind, io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
        ClientError::NotRunning { program, path }
    } else if kind == io::ErrorKind::PermissionDenied {
        ClientError::Permission { program, path }
    } else {
        ClientError::Connect { path, source }
    }
}

fn read_error(program: &'static str, error: FrameError) -> ClientError {
    let FrameError::Io(source) = &error else {
        return ClientError::Frame { program, source: error };
    };
    if matches!(source.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut) {
        ClientError::Timeout { program }
    } else if source.kind() == io::ErrorKind::ConnectionReset {
        ClientError::NoAnswer { program }
    } else {
        ClientError::Frame { program, source: error }
    }
}

/// The one socket of a program in the directory of those.
///
/// # Errors
/// [`ClientError::NoDaemon`] or [`ClientError::Several`].
pub fn only_socket(program: &'static str, directory: &Path) -> Result<PathBuf, ClientError> {
    let entries = fs::read_dir(directory).into_iter().flatten().filter_map(Result::ok);
    let mut sockets: Vec<PathBuf> = entries
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "sock"))
        .collect();
    sockets.sort();
    match sockets.as_slice() {
        [] => Err(ClientError::NoDaemon { program }),
        [only] => Ok(only.clone()),
        [_, ..] => Err(ClientError::Several { program, sockets }),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::Test;
    use super::*;

    #[test]
    fn the_only_socket_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let only = |directory: &Path| only_socket("psmcd", directory);
        let socket = |name: &str| fs::write(directory.path().join(name), "").unwrap();
        assert!(matches!(only(&directory.path().join("no")), Err(ClientError::NoDaemon { .. })));
        socket("notes.txt");
        assert!(matches!(only(directory.path()), Err(ClientError::NoDaemon { .. })));
        socket("van.sock");
        assert!(only(directory.path()).unwrap().ends_with("van.sock"));
        socket("hq.sock");
        let several = only(directory.path()).unwrap_err().to_string();
        assert!(several.starts_with("several psmcd run here; choose one with --socket: /"), "{several}");
        assert!(several.contains("/hq.sock, /"), "{several}");
    }

    #[test]
    fn a_missing_program_is_named() {
        let error = Client::<StatusOf<Test>>::connect(Path::new("/nonexistent/van.sock")).unwrap_err();
        assert_eq!(error.to_string(), "no psmc-test answers on /nonexistent/van.sock; is it running?");
    }
}
