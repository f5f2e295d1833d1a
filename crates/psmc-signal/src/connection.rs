//! Connections of the signal channel: [`Link`] dials and keeps one, [`Greeting`] and [`Channel`] are the end that accepts.
//!
//! Everything is bounded: [`QUEUE`] messages wait in either direction, none is longer than
//! [`MAX_MESSAGE`](psmc_wire::control::MAX_MESSAGE) bytes, and who sends faster than
//! [`Pace`](psmc_net::framing::Pace) allows is read more slowly.

mod channel;
mod link;
#[cfg(test)]
mod tests;

use psmc_net::framing::FramingError;
use psmc_net::tls::TlsError;
use psmc_net::tls::tcp::TcpError;
use thiserror::Error;

pub use channel::{Channel, Greeting};
pub use link::{Coordinator, Event, Link, Options, SendError, Sender};

/// Messages that wait in a queue at most: those of a service with a thousand clients and as many relays, twice.
pub const QUEUE: usize = 160;

/// Why there is no connection any more, or none yet.
#[derive(Debug, Error)]
pub enum ConnectionError {
    /// There is no way to the other side.
    #[error(transparent)]
    Tcp(#[from] TcpError),
    /// The other side is another one, or wants another one.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Messages come or go no more.
    #[error(transparent)]
    Framing(FramingError),
    /// The coordinator does not want this dialler, and says why.
    #[error("the coordinator refuses: {0}")]
    Refused(String),
    /// The first message is none that begins a connection.
    #[error("the other side does not begin as the signal channel begins")]
    Impolite,
    /// Nothing came for six seconds.
    #[error("the other side is silent")]
    Silent,
    /// The coordinator took too long.
    #[error("no welcome within {0:?}: is the line full?")]
    TimedOut(std::time::Duration),
    /// This side has nothing to say any more.
    #[error("closed here")]
    Closed,
}

impl From<FramingError> for ConnectionError {
    /// A dialler learns from its first read whether its key is accepted; then that is the error.
    fn from(error: FramingError) -> Self {
        match error {
            FramingError::Broken(source) => Self::Tls(source.into()),
            FramingError::Ended | FramingError::Stuck | FramingError::Malformed(_) => Self::Framing(error),
        }
    }
}
