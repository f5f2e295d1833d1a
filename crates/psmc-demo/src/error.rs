//! What can go wrong.

use std::io;
use std::path::PathBuf;
use std::time::Duration;

use psmc_net::packet::PacketError;
use psmc_service::programs::NotInstalled;
use psmc_testbed::netns::{NetnsError, UserNamespaceError};

use psmc_api::ClientError;

/// Why the demonstration failed.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    /// An ordinary user could not become root of a user namespace.
    #[error(transparent)]
    UserNamespace(#[from] UserNamespaceError),
    /// The hosts or the links between them could not be made or changed.
    #[error(transparent)]
    Network(#[from] NetnsError),
    /// It needs programs that are no part of this one.
    #[error(transparent)]
    NotInstalled(#[from] NotInstalled),
    /// No TUN device can be made, so there would be no tunnel.
    #[error(
        "cannot open /dev/net/tun, and without it there is no tunnel: if it is there, run this as root, or let everybody use it, as \
         most systems do (`sudo chmod 666 /dev/net/tun`); if it is not, `sudo modprobe tun`"
    )]
    NoTun(#[source] io::Error),
    /// There is no runtime.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    /// The directory for configurations and logs is of no use.
    #[error("cannot use {}; choose another directory with TMPDIR or --keep", path.display())]
    Directory {
        /// The directory, or the file in it.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A daemon did not start.
    #[error("cannot start {site}")]
    Start {
        /// Its site.
        site: String,
        /// What the system said.
        source: io::Error,
    },
    /// A daemon ended by itself.
    #[error("{site} ended ({how}); the end of its log:\n{log}")]
    Ended {
        /// Its site.
        site: String,
        /// Its exit status.
        how: String,
        /// The last lines of its log.
        log: String,
    },
    /// A daemon does not say how it is.
    #[error("{site} does not answer: {error}\nthe end of its log:\n{log}")]
    Status {
        /// Its site.
        site: String,
        /// What went wrong.
        error: ClientError,
        /// The last lines of its log.
        log: String,
    },
    /// A relay does not say how it is.
    #[error("the relay {relay} does not answer: {error}\nthe end of its log:\n{log}")]
    Relay {
        /// Its name.
        relay: &'static str,
        /// What went wrong.
        error: String,
        /// The last lines of its log.
        log: String,
    },
    /// The tunnel does not come up.
    #[error("after {} s the tunnel is not up ({state}); the end of the logs:\n{logs}", waited.as_secs())]
    NotUp {
        /// How long it has been tried.
        waited: Duration,
        /// What the paths do.
        state: String,
        /// The last lines of both logs.
        logs: String,
    },
    /// A TCP connection failed.
    #[error("TCP {over} failed")]
    Tcp {
        /// Over a link or through the tunnel.
        over: String,
        /// What the system said.
        source: io::Error,
    },
    /// What arrives cannot be looked at.
    #[error(transparent)]
    Packets(#[from] PacketError),
    /// What was captured and kept cannot be searched.
    #[error("cannot search what the clients have been told")]
    Capture(#[source] io::Error),
    /// A resolver could not be asked.
    #[error("cannot ask {of}")]
    Dns {
        /// Which one, or for what.
        of: String,
        /// What the system said.
        source: io::Error,
    },
    /// BIND did not start.
    #[error("cannot start BIND of {of}; is it installed (on Debian: apt install bind9)?")]
    Bind {
        /// Its host.
        of: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// What arrived is not what was sent.
    #[error("the file that arrived is not the file that was sent: its SHA-256 differs")]
    Corrupt,
    /// A signal came.
    #[error("stopped; everything that the demo created has been removed")]
    Interrupted,
    /// The results could not be printed.
    #[error("cannot print the results")]
    Output(#[source] io::Error),
}
