//! The control side: connections of sites, what they ask for, and streams between them.

mod connection;
mod ends;
mod framing;
mod gateways;
pub(crate) mod hub;
pub(crate) mod member;
mod splice;
mod tunnels;

use psmc_wire::relay::Refusal;
use tokio::net::TcpStream;
use tokio_rustls::TlsStream;

pub(crate) use connection::serve;
pub(crate) use ends::{ConnectionId, Ends};
pub(crate) use hub::Hub;
pub(crate) use splice::Streams;

use crate::worker::WorkerDied;

/// A site's connection, which can become an end of a stream.
pub(crate) type Stream = TlsStream<TcpStream>;

/// Why a request is not met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Denied {
    pub(crate) reason: Refusal,
    pub(crate) text: String,
}

impl Denied {
    pub(crate) fn new(reason: Refusal, text: impl Into<String>) -> Self {
        Self { reason, text: text.into() }
    }

    pub(crate) fn full() -> Self {
        Self::new(Refusal::Limit, "the relay has as many sessions as it may: try another relay")
    }

    pub(crate) fn no_gateway() -> Self {
        Self::new(Refusal::NoGateway, "no gateway with this key is connected to this relay")
    }
}

impl From<WorkerDied> for Denied {
    fn from(error: WorkerDied) -> Self {
        Self::new(Refusal::Limit, error.to_string())
    }
}
