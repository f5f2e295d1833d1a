//! Why a stream ended early.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

/// Why a stream ended early.
#[derive(Debug, thiserror::Error)]
pub enum TrafficError {
    /// There is no runtime in the namespace.
    #[error("cannot start")]
    Runtime(#[source] io::Error),
    /// The kernel does not know the congestion control.
    #[error("this kernel does not support congestion control \"{wanted}\"; available: {available}")]
    CongestionControl {
        /// What was asked for.
        wanted: String,
        /// What there is.
        available: String,
    },
    /// The kernel does not give us a socket of this kind.
    #[error("cannot make a socket for {what}")]
    Socket {
        /// For what.
        what: &'static str,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody takes the connection.
    #[error("cannot connect to {to}")]
    Connect {
        /// To where.
        to: SocketAddr,
        /// What the kernel said.
        source: io::Error,
    },
    /// Nobody answers.
    #[error("no connection to {to} within {} s", waited.as_secs_f64())]
    NoConnection {
        /// To where.
        to: SocketAddr,
        /// How long it was tried.
        waited: Duration,
    },
    /// A connection that stood is no more.
    #[error("connection lost")]
    Broken(#[source] io::Error),
    /// Time was up.
    #[error("timed out: only {arrived} of {wanted} bytes arrived")]
    Incomplete {
        /// Bytes that arrived.
        arrived: u64,
        /// Bytes that were to arrive.
        wanted: u64,
    },
    /// Nothing could be sent.
    #[error("cannot send")]
    Send(#[source] io::Error),
    /// Time was up, and nothing had got through.
    #[error("nothing arrived")]
    Nothing,
    /// Nobody wants the result any more.
    #[error("stopped")]
    Cancelled,
}

impl TrafficError {
    /// No socket for this.
    pub(super) const fn socket(what: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::Socket { what, source }
    }
}
