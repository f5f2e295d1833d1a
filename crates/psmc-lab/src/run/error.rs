//! What can go wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use psmc_testbed::netns::{NetnsError, UserNamespaceError};

use crate::clean::RegisterError;
use crate::emulator::EmulatorError;
use crate::traffic::TrafficError;

/// Why a scenario could not be run. A check that does not hold is no error: the results say so.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// An ordinary user could not become root of a user namespace.
    #[error(transparent)]
    UserNamespace(#[from] UserNamespaceError),
    /// The lab could not register, or has no place for its files.
    #[error(transparent)]
    Register(#[from] RegisterError),
    /// There is no runtime.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    /// It cannot be seen whether the machine stands still.
    #[error("cannot watch the processors")]
    Stalls(#[source] io::Error),
    /// A program is nowhere to be found.
    #[error("program \"{name}\"{wanted_by}, is neither in {} nor on the PATH", beside.display())]
    NoSuchProgram {
        /// Its name.
        name: String,
        /// Who wants it, in words.
        wanted_by: String,
        /// Where our own programs should be.
        beside: PathBuf,
    },
    /// The kernel lacks something that the traffic needs.
    #[error(transparent)]
    Traffic(TrafficError),
    /// A host could not be made or changed.
    #[error("cannot set up host {host}")]
    Host {
        /// Its name.
        host: String,
        /// What went wrong.
        source: NetnsError,
    },
    /// The namespaces of hosts cannot be told from others.
    #[error(transparent)]
    Identity(NetnsError),
    /// A link could not be made.
    #[error("cannot make link {link}")]
    Link {
        /// Its name.
        link: String,
        /// What went wrong.
        source: EmulatorError,
    },
    /// The links do not carry anything.
    #[error(transparent)]
    Emulator(EmulatorError),
    /// A file could not be written.
    #[error("cannot write {}", path.display())]
    File {
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A program of the system, which sets up a host, could not be run.
    #[error("cannot run {tool}: is {package} installed?")]
    Tool {
        /// Its name.
        tool: &'static str,
        /// The package that has it.
        package: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// Such a program refused.
    #[error("{tool} refused to set up host {host}: {message}")]
    ToolFailed {
        /// Its name.
        tool: &'static str,
        /// The host.
        host: String,
        /// What it printed.
        message: String,
    },
    /// A program did not start.
    #[error("cannot start {program} on host {host}")]
    Start {
        /// Its name.
        program: String,
        /// The host.
        host: String,
        /// What the system said.
        source: io::Error,
    },
    /// A daemon of a tunnel ended before the tunnel was up.
    #[error("psmcd of tunnel {tunnel} ended on host {host} ({how}); the end of its log:\n{log}")]
    DaemonEnded {
        /// The tunnel.
        tunnel: String,
        /// The host.
        host: String,
        /// Its exit status.
        how: String,
        /// The last lines of its log.
        log: String,
    },
    /// A tunnel does not come up.
    #[error("after {} s tunnel {tunnel} is not up ({state}); the ends of the logs:\n{logs}", waited.as_secs())]
    NotUp {
        /// The tunnel.
        tunnel: String,
        /// How long it has been tried.
        waited: Duration,
        /// What its paths do.
        state: String,
        /// The last lines of both logs.
        logs: String,
    },
    /// A signal came.
    #[error("stopped; everything that the lab created has been removed")]
    Interrupted,
}
