//! The control side: connections of sites, what they ask for, and streams between them.

mod connection;
pub(crate) mod hub;
mod served;
mod shedding;
mod streams;
mod tunnels;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use psmc_core::relay::Account;
use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::{Grant, Refusal};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, watch};
use tokio_rustls::TlsStream;

pub(crate) use connection::serve;
pub(crate) use hub::Hub;
pub(crate) use streams::Streams;
pub(crate) use tunnels::{ConnectionId, Whereabouts};

use crate::config::Site;
use crate::worker::WorkerDied;

/// A site's connection, which can become an end of a stream.
pub(crate) type SiteStream = TlsStream<TcpStream>;

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

    pub(crate) fn no_longer() -> Self {
        Self::new(Refusal::Grant, "the site is no longer allowed")
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

/// Control connections of one site, streams included: one that stands, one that replaces it, and its streams.
const MAX_CONNECTIONS: usize = 32;

/// Streams that one site may have asked for at a time: each of its peers needs one, or two while it renews its keys.
const MAX_STREAMS: usize = 16;

/// Until when a listed site is served.
const FOR_EVER: u64 = u64::MAX;

/// A site that is served, because the configuration lists it or the coordinator has granted it.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    pub(crate) account: Arc<Account>,
    pub(crate) session_rate: Option<u64>,
    pub(crate) is_coordinator: bool,
    /// Whether the configuration lists it, so that no grant changes anything.
    is_listed: bool,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) streams: Arc<Semaphore>,
    gateway: AtomicBool,
    /// In seconds since 1970.
    expires_s: AtomicU64,
    rates: Mutex<Rates>,
    revoked: Arc<watch::Sender<bool>>,
}

/// What all sessions of a site may carry: the least of the two counts.
#[derive(Clone, Copy, Debug, Default)]
struct Rates {
    granted: Option<u64>,
    capped: Option<u64>,
}

impl Member {
    /// A site that the configuration lists. It goes on with the connections and sessions of `before`, what it was until now.
    pub(crate) fn listed(site: &Site, before: Option<&Self>) -> Self {
        let key = KeyBytes(*site.public_key.as_bytes());
        let rate = site.max_rate.map(psmc_toml::Rate::bits_per_second);
        let new = Self::new(key, site.name.to_string(), site.max_sessions, rate);
        let kept = before.unwrap_or(&new);
        let (account, revoked) = (kept.account.clone(), kept.revoked.clone());
        let (connections, streams) = (kept.connections.clone(), kept.streams.clone());
        account.set_max_sessions(site.max_sessions);
        let capped = before.and_then(|before| before.rates().capped);
        let member = Self {
            account,
            connections,
            streams,
            revoked,
            session_rate: site.session_rate.map(psmc_toml::Rate::bits_per_second),
            gateway: AtomicBool::new(site.gateway),
            is_listed: true,
            ..new
        };
        member.cap(capped);
        member
    }

    pub(crate) fn granted(name: &str, grant: &Grant) -> Self {
        let member = Self::new(grant.site, name.to_owned(), grant.sessions.into(), grant.max_rate);
        member.renew(grant);
        member
    }

    pub(crate) fn coordinator(key: KeyBytes) -> Self {
        Self { is_coordinator: true, ..Self::new(key, "coordinator".to_owned(), 0, None) }
    }

    fn new(key: KeyBytes, name: String, sessions: u32, rate: Option<u64>) -> Self {
        Self {
            name,
            account: Arc::new(Account::new(key, sessions, rate)),
            session_rate: None,
            is_coordinator: false,
            is_listed: false,
            connections: Arc::new(Semaphore::new(MAX_CONNECTIONS)),
            streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            gateway: AtomicBool::new(false),
            expires_s: AtomicU64::new(FOR_EVER),
            rates: Mutex::new(Rates { granted: rate, capped: None }),
            revoked: Arc::new(watch::Sender::new(false)),
        }
    }

    /// Takes over what a newer grant says. One for a listed site gives it nothing that the configuration does not.
    pub(crate) fn renew(&self, grant: &Grant) {
        if self.is_listed {
            return;
        }
        self.expires_s.store(grant.expires_s, Ordering::Relaxed);
        self.gateway.store(grant.gateway, Ordering::Relaxed);
        self.account.set_max_sessions(grant.sessions.into());
        self.change_rates(|rates| rates.granted = grant.max_rate);
    }

    /// Whether the configuration lists it.
    pub(crate) fn is_listed(&self) -> bool {
        self.is_listed
    }

    /// Ends all its connections.
    pub(crate) fn revoke(&self) {
        self.revoked.send_replace(true);
    }

    /// Ready when it is not served any more.
    pub(crate) async fn until_revoked(&self) {
        // Fails only when the sender is gone, which `self` holds.
        let _ = self.revoked.subscribe().wait_for(|revoked| *revoked).await;
    }

    /// Tells whether it is not served any more.
    pub(crate) fn watch_revoked(&self) -> watch::Receiver<bool> {
        self.revoked.subscribe()
    }

    /// Whether it is served at that time, in seconds since 1970.
    pub(crate) fn counts_at(&self, unix_time: u64) -> bool {
        unix_time <= self.expires_s.load(Ordering::Relaxed)
    }

    /// Whether it has connections to this relay.
    pub(crate) fn is_connected(&self) -> bool {
        self.connections.available_permits() < MAX_CONNECTIONS
    }

    /// Whether it is not served after that time any more.
    pub(crate) fn ends_by(&self, unix_time: u64) -> bool {
        self.expires_s.load(Ordering::Relaxed) <= unix_time
    }

    /// Whether others may reach it by its key.
    pub(crate) fn is_gateway(&self) -> bool {
        self.gateway.load(Ordering::Relaxed)
    }

    /// Caps what all its sessions may carry.
    pub(crate) fn cap(&self, rate: Option<u64>) {
        self.change_rates(|rates| rates.capped = rate);
    }

    /// What all its sessions may carry in each direction, in bits per second.
    pub(crate) fn rate(&self) -> Option<u64> {
        self.account.limits[0].rate()
    }

    fn change_rates(&self, change: impl FnOnce(&mut Rates)) {
        let mut rates = self.rates();
        change(&mut rates);
        self.account.set_rate([rates.granted, rates.capped].into_iter().flatten().min());
    }

    fn rates(&self) -> MutexGuard<'_, Rates> {
        // Each rate is replaced in one step, so that a poisoned lock holds whole ones too.
        self.rates.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
