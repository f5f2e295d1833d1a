//! Byte streams to where only relays lead.

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use psmc_net::keys::PublicKey;
use psmc_net::tls::Identity;
use psmc_net::tls::tcp::connect_tcp;
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::Far;
use tokio::io::{AsyncRead, AsyncWrite};

use super::RelayError;
use super::client::RelayClient;
use super::grants::Grants;
use crate::config::{Endpoint, Relay};
use crate::daemon::paths::resolve;

/// A TCP connection that takes longer is given up.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(3);

/// A byte stream.
pub(in crate::daemon) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// A byte stream, over TCP or within others.
pub(in crate::daemon) type BoxedStream = Box<dyn Stream>;

/// As whom a site calls.
#[derive(Clone)]
pub(in crate::daemon) struct Caller {
    pub(in crate::daemon) identity: Identity,
    pub(in crate::daemon) name: String,
    pub(in crate::daemon) grants: Grants,
}

/// Where a way ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::daemon) enum Goal {
    /// At this address.
    Address(SocketAddr),
    /// At the site with this key, which has registered with the last relay. There is one at least.
    Gateway(PublicKey),
}

impl Goal {
    /// How a relay is told of it.
    pub(super) fn far(self) -> Far {
        match self {
            Self::Address(address) => Far::Address(address),
            Self::Gateway(key) => Far::Gateway(KeyBytes(*key.as_bytes())),
        }
    }
}

/// Where a connection leaves this machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::daemon) struct LocalEnd {
    pub(in crate::daemon) interface: Option<String>,
    pub(in crate::daemon) local: Option<IpAddr>,
}

/// Opens a byte stream to `to` through these relays, each reached through those before it.
pub(in crate::daemon) async fn reach(
    caller: &Caller,
    local_end: &LocalEnd,
    relays: &[Relay],
    to: Goal,
) -> Result<BoxedStream, RelayError> {
    let mut stops = Vec::with_capacity(relays.len() + 1);
    for relay in relays {
        stops.push(Goal::Address(address_of(&relay.address).await?));
    }
    stops.push(to);
    let Goal::Address(first) = stops[0] else {
        unreachable!("the way to a gateway begins with a relay");
    };
    let first = connect_tcp(local_end.interface.as_deref(), local_end.local, first, CONNECT_TIMEOUT).await?;
    let mut stream: BoxedStream = Box::new(first);
    for (relay, next) in relays.iter().zip(&stops[1..]) {
        stream = RelayClient::open(caller, relay, stream).await?.connect(next.far()).await?;
    }
    Ok(stream)
}

/// The address of an endpoint.
pub(super) async fn address_of(endpoint: &Endpoint) -> Result<SocketAddr, RelayError> {
    resolve(endpoint).await.map_err(|_| RelayError::Unresolved(endpoint.clone()))
}
