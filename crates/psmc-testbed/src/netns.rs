//! Network namespaces without names: hosts of our own for tests and for `psmc demo`.
//!
//! A [`Namespace`] is in no directory and needs no clean-up: it is gone when its value, and whatever runs in it, is.

mod identity;
mod offload;
mod privilege;
mod setup;
mod shape;

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::panic::resume_unwind;
use std::process::{Child, Command};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use nix::sched::{CloneFlags, setns, unshare};
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::Signal;

use psmc_net::netlink::NetlinkError;

pub use identity::NamespaceId;
pub use privilege::{UserNamespaceError, enter_user_namespace, is_privileged};
pub use setup::link_pair;
pub use shape::Queue;

/// What went wrong with a [`Namespace`].
#[derive(Debug, thiserror::Error)]
pub enum NetnsError {
    /// The kernel gave us no namespace.
    #[error(
        "cannot make a network namespace: run as root, or call enter_user_namespace before any thread starts"
    )]
    Create(#[source] io::Error),
    /// A namespace was made but no runtime, which netlink needs.
    #[error("cannot start a runtime in a network namespace")]
    Runtime(#[source] io::Error),
    /// An interface, address or route could not be set up.
    #[error("cannot set up a network namespace")]
    Netlink(#[from] NetlinkError),
    /// A kernel parameter could not be set.
    #[error("cannot set the kernel parameter {key} to {value}: is /proc/sys mounted writable?")]
    Sysctl {
        /// Its name, as `sysctl` writes it.
        key: String,
        /// The value it should have had.
        value: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The offloads of an interface could not be changed.
    #[error("cannot turn off the offloads of {interface}")]
    Offload {
        /// The interface.
        interface: String,
        /// What the kernel answered.
        source: io::Error,
    },
    /// The kernel does not tell one namespace from another.
    #[error("cannot tell which network namespace it is, which takes Linux 5.14 or later")]
    Identity(#[source] io::Error),
    /// An external tool could not be run.
    #[error("cannot run `{command}`: is iproute2 installed?")]
    Tool {
        /// The whole command line.
        command: String,
        /// Why it did not start.
        source: io::Error,
    },
    /// An external tool failed.
    #[error("`{command}` failed: {message}")]
    ToolFailed {
        /// The whole command line.
        command: String,
        /// What it wrote to its standard error.
        message: String,
    },
}

/// A network namespace of our own, its loopback interface up.
///
/// [`run`](Self::run) executes a closure in it, [`spawn`](Self::spawn) a program. Sockets, TUN devices and netlink
/// connections made inside stay in it wherever they are used later. On drop its programs are killed; the kernel
/// removes the namespace when the last socket in it is closed.
#[derive(Debug)]
pub struct Namespace {
    fd: OwnedFd,
    /// `None` only while dropping, which is how the keeper learns of it.
    spawner: Option<mpsc::Sender<SpawnRequest>>,
    keeper: Option<JoinHandle<()>>,
}

impl Namespace {
    /// Makes a namespace.
    ///
    /// # Errors
    /// [`NetnsError::Create`] without the right to make one; others when its loopback interface does not come up.
    pub fn new() -> Result<Self, NetnsError> {
        let (report, fd) = mpsc::channel();
        let (spawner, requests) = mpsc::channel();
        let keeper = thread::Builder::new()
            .name("netns".to_owned())
            .spawn(move || keep(&report, &requests))
            .map_err(NetnsError::Create)?;
        let fd = fd.recv().unwrap_or_else(|gone| Err(io::Error::other(gone))).map_err(NetnsError::Create)?;
        let namespace = Self { fd, spawner: Some(spawner), keeper: Some(keeper) };
        namespace.prepare()?;
        Ok(namespace)
    }

    /// Executes `f` in the namespace, on a thread of its own, and returns what it returns.
    ///
    /// Several may run at the same time, and inside one another.
    ///
    /// # Panics
    /// When `f` does, with its payload; and when the process has lost the right to enter the namespace since it
    /// was made.
    pub fn run<T: Send>(&self, f: impl FnOnce() -> T + Send) -> T {
        let enter_and_run = || {
            let entered = setns(&self.fd, CloneFlags::CLONE_NEWNET);
            assert!(entered.is_ok(), "cannot enter a network namespace: {entered:?}");
            f()
        };
        match thread::scope(|scope| scope.spawn(enter_and_run).join()) {
            Ok(value) => value,
            Err(payload) => resume_unwind(payload),
        }
    }

    /// Runs the future that `make` returns to its end, on a single-threaded runtime inside the namespace.
    ///
    /// # Errors
    /// When there are no file descriptors left for a runtime.
    ///
    /// # Panics
    /// As [`run`](Self::run).
    pub fn block_on<F: Future<Output: Send>>(
        &self,
        make: impl FnOnce() -> F + Send,
    ) -> io::Result<F::Output> {
        self.run(|| {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
            Ok(runtime.block_on(async { make().await }))
        })
    }

    /// Starts a program in the namespace. It is killed when the namespace is dropped; what it starts itself is not,
    /// unless it sees to that.
    ///
    /// # Errors
    /// As [`Command::spawn`].
    pub fn spawn(&self, command: &mut Command) -> io::Result<Child> {
        let keeper_is_gone = || io::Error::other("the network namespace is being dropped");
        let (report, outcome) = mpsc::channel();
        // The keeper must own the command for a moment: it is the thread whose end kills the child.
        let moved = std::mem::replace(command, Command::new(""));
        let spawner = self.spawner.as_ref().ok_or_else(keeper_is_gone)?;
        spawner.send(SpawnRequest { command: moved, report }).map_err(|_| keeper_is_gone())?;
        let (returned, child) = outcome.recv().map_err(|_| keeper_is_gone())?;
        *command = returned;
        child
    }

    /// The namespace as `setns` and netlink take it, for moving links.
    #[must_use]
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        drop(self.spawner.take());
        if let Some(keeper) = self.keeper.take() {
            // A keeper that panicked has ended as well, and so have its children.
            let _ = keeper.join();
        }
    }
}

#[derive(Debug)]
struct SpawnRequest {
    command: Command,
    report: mpsc::Sender<(Command, io::Result<Child>)>,
}

/// The keeper: makes the namespace and is the parent of every program in it until the requests end.
fn keep(report: &mpsc::Sender<io::Result<OwnedFd>>, requests: &mpsc::Receiver<SpawnRequest>) {
    // Whoever asked waits for each answer, so that none is lost.
    let _ = report.send(make_namespace());
    for SpawnRequest { mut command, report } in requests {
        let child = die_with_parent(&mut command).spawn();
        let _ = report.send((command, child));
    }
}

fn make_namespace() -> io::Result<OwnedFd> {
    unshare(CloneFlags::CLONE_NEWNET)?;
    Ok(File::open("/proc/thread-self/ns/net")?.into())
}

/// Makes the kernel kill the child when the thread that starts it ends.
fn die_with_parent(command: &mut Command) -> &mut Command {
    // SAFETY: between fork and exec only async-signal-safe functions may run; this is one system call.
    #[expect(unsafe_code, reason = "the only way to act between fork and exec")]
    unsafe {
        command.pre_exec(|| Ok(set_pdeathsig(Signal::SIGKILL)?))
    }
}

#[cfg(test)]
mod tests;
