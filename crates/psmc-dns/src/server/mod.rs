//! The authoritative server: questions, transfers, updates and notifications, over UDP, TCP and TLS.
//!
//! [`Server::respond`] is all of the policy: bytes in, bytes out. What listens, fetches and tells others is around it.

mod counters;
mod hosted;
mod limit;
mod listen;
mod notify;
mod replay;
mod respond;
mod secondary;
mod transfer;
mod tsig;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

use hickory_proto::rr::Name;

use crate::store::Store;
use crate::update::{TsigKey, unix_now};

pub use counters::{Counters, Counts};
pub use hosted::{Access, Hosted, Role, Secondary};
pub use listen::{MAX_CONNECTIONS, serve_tcp, serve_tls, serve_udp};
pub(crate) use listen::{read_message, write_message};
pub use notify::tell_secondaries;
pub use secondary::follow_primary;

use hosted::Outcome;
use replay::Replays;

/// How a request came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    /// In a datagram.
    Udp,
    /// Over a connection: TCP, or TLS.
    Stream,
}

/// The zones, and what is needed to answer for them.
#[derive(Debug)]
pub struct Server {
    zones: BTreeMap<Name, Arc<Hosted>>,
    keys: Vec<TsigKey>,
    store: Arc<Store>,
    sources: Vec<IpAddr>,
    replays: Replays,
    /// What it has done so far.
    pub counters: Counters,
}

impl Server {
    /// A server of these zones, which knows these keys, and speaks to others from one of the addresses `sources`, by
    /// which they know it.
    #[must_use]
    pub fn new(zones: Vec<Arc<Hosted>>, keys: Vec<TsigKey>, store: Arc<Store>, sources: Vec<IpAddr>) -> Self {
        let zones = zones.into_iter().map(|zone| (zone.origin().clone(), zone)).collect();
        Self { zones, keys, store, sources, replays: Replays::default(), counters: Counters::default() }
    }

    /// Its zones, by name.
    pub fn zones(&self) -> impl Iterator<Item = &Arc<Hosted>> {
        self.zones.values()
    }

    /// Where to speak to `peer` from.
    fn source_for(&self, peer: SocketAddr) -> SocketAddr {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let own = self.sources.iter().find(|source| source.is_ipv4() == peer.is_ipv4());
        SocketAddr::new(own.copied().unwrap_or(any), 0)
    }

    /// Makes the signatures of a zone anew that are due.
    pub async fn renew(&self, hosted: &Hosted) {
        if let Outcome::Failed(error) = hosted.renew(&self.store, unix_now()).await {
            tracing::error!(zone = %hosted.origin(), error, "the zone is not signed anew");
        }
    }

    /// Where zones that change are kept.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}
