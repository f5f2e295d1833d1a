//! The authoritative server: questions, transfers, updates and notifications, over UDP, TCP and TLS.
//!
//! [`Server::respond`] is all of the policy: bytes in, bytes out. What listens, fetches and tells others is around it.

mod hosted;
mod limit;
mod listen;
mod notify;
mod respond;
mod secondary;
mod transfer;
mod tsig;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use hickory_proto::rr::{Name, RecordType};
use psmc_routes::update::TsigKey;
use psmc_service::clock::unix_seconds;
use tokio::sync::Semaphore;

use crate::store::Store;

pub use hosted::{Access, Hosted, Paused, Role, Secondary};
pub use listen::{MAX_CONNECTIONS, MAX_PER_SOURCE, serve_tcp, serve_tls, serve_udp};
pub use notify::tell_secondaries;
pub use secondary::follow_primary;

use hosted::Outcome;
use tsig::Replays;

/// Zones that are fetched from one primary at a time: BIND sends ten, as it comes, and refuses the others.
const MAX_FETCHES: usize = 8;

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
    /// What the configuration may replace.
    contents: RwLock<Arc<Contents>>,
    store: Arc<Store>,
    sources: Vec<IpAddr>,
    replays: Replays,
    /// How many zones may be fetched from each primary at this moment.
    rooms: Mutex<BTreeMap<SocketAddr, Arc<Semaphore>>>,
    /// What it has done so far.
    pub counters: Counters,
}

impl Server {
    /// A server of these zones and keys, which speaks to others from one of the addresses `sources`, by which they know it.
    #[must_use]
    pub fn new(contents: Contents, store: Arc<Store>, sources: Vec<IpAddr>) -> Self {
        let contents = RwLock::new(Arc::new(contents));
        Self {
            contents,
            store,
            sources,
            replays: Replays::default(),
            rooms: Mutex::default(),
            counters: Counters::default(),
        }
    }

    /// The permits to fetch zones from a primary.
    fn room_at(&self, primary: SocketAddr) -> Arc<Semaphore> {
        let mut rooms = self.rooms.lock().unwrap_or_else(PoisonError::into_inner);
        rooms.entry(primary).or_insert_with(|| Arc::new(Semaphore::new(MAX_FETCHES))).clone()
    }

    /// What it serves at this moment.
    #[must_use]
    pub fn contents(&self) -> Arc<Contents> {
        self.contents.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Serves this from now on; what is being answered is answered from what there was.
    pub fn replace(&self, contents: Contents) {
        *self.contents.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(contents);
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
        if let Outcome::Failed(error) = hosted.renew(&self.store, unix_seconds()).await {
            tracing::error!(zone = %hosted.origin(), error, "re-signing the zone failed");
        }
    }

    /// Where zones that change are kept.
    #[must_use]
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }
}

/// Zones and keys, which the configuration replaces together.
#[derive(Debug, Default)]
pub struct Contents {
    zones: BTreeMap<Name, Arc<Hosted>>,
    keys: Vec<TsigKey>,
}

impl Contents {
    /// These zones and keys.
    #[must_use]
    pub fn new(zones: impl IntoIterator<Item = Arc<Hosted>>, keys: Vec<TsigKey>) -> Self {
        let zones = zones.into_iter().map(|zone| (zone.origin().clone(), zone)).collect();
        Self { zones, keys }
    }

    /// The zones, by name.
    pub fn zones(&self) -> impl Iterator<Item = &Arc<Hosted>> {
        self.zones.values()
    }

    /// The zone of this name.
    #[must_use]
    pub fn zone(&self, origin: &Name) -> Option<&Arc<Hosted>> {
        self.zones.get(&origin.to_lowercase())
    }

    /// The TSIG keys.
    fn keys(&self) -> &[TsigKey] {
        &self.keys
    }

    /// The zone that a name is in. The DS records of a zone are in the one above it.
    fn zone_of(&self, name: &Name, kind: RecordType) -> Option<&Arc<Hosted>> {
        let name = name.to_lowercase();
        let labels = name.iter().count();
        let above = usize::from(kind == RecordType::DS && labels > 0);
        let mut candidates = (0..=labels - above).rev().map(|labels| name.trim_to(labels));
        let found = candidates.find_map(|origin| self.zones.get(&origin));
        found.or_else(|| self.zones.get(&name))
    }
}

psmc_service::counters! {
    /// Questions that were answered.
    answered,
    /// Updates that changed a zone.
    updated,
    /// Transfers to secondaries.
    transferred,
    /// Requests that were refused: names of other zones, missing permission, wrong signatures, replays.
    refused,
    /// Requests that could not be parsed.
    malformed,
    /// Datagrams that got no response, or a short one, because too many came from their network.
    limited,
    /// Requests and connections that were dropped because too many were being served.
    overloaded,
}
