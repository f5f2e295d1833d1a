//! Plain tunnels: which there are, and where the sites are to which their ends are left.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use psmc_wire::ids::KeyBytes;
use psmc_wire::relay::Refusal;

use super::hub::Hub;
use super::{Denied, Member};
use crate::config::{Tunnel, TunnelEnd};
use crate::worker::WorkerDied;

impl Hub {
    /// Sets the plain tunnels that packets may use. False if the relay takes no IP-in-IP.
    pub(crate) async fn reload_tunnels(&self, tunnels: &[Tunnel]) -> Result<bool, WorkerDied> {
        self.ends.leave_to(sites_of(tunnels));
        self.reload_owners(tunnels).await;
        let pairs = tunnels.iter().map(Tunnel::pair).collect();
        let served =
            self.tunnels_worker().call(move |worker| worker.set_plain_tunnels(pairs, Instant::now())).await?;
        for site in self.ends.all() {
            if !self.place(site).await? {
                tracing::error!("routing loop: a site registers from inside its own tunnel");
            }
        }
        Ok(served)
    }

    /// A site to which an end of a plain tunnel is left registers by a connection from that address.
    pub(crate) async fn register_end(
        &self,
        member: &Member,
        by: ConnectionId,
        from: SocketAddr,
    ) -> Result<(), Denied> {
        let IpAddr::V4(at) = from.ip().to_canonical() else {
            let text = "an end of a tunnel registers over IPv4: dial the relay at its IPv4 address";
            return Err(Denied::new(Refusal::NotAllowed, text));
        };
        let site = member.account.key();
        if !self.ends.register(site, by, at) {
            return Ok(());
        }
        if !self.place(site).await? {
            self.ends.leave(site, by);
            let text = format!("the tunnel would lead into itself: {at} is behind one of its ends");
            return Err(Denied::new(Refusal::NotAllowed, text));
        }
        tracing::info!(site = %member.name, %at, "tunnel end registered");
        Ok(())
    }

    /// A connection of a site has ended.
    pub(crate) async fn leave(&self, member: &Member, by: ConnectionId) -> Result<(), WorkerDied> {
        let site = member.account.key();
        if self.ends.leave(site, by) {
            tracing::info!(site = %member.name, "tunnel end no longer registered");
            self.place(site).await?;
        }
        Ok(())
    }

    /// Tells the worker where a site is; false if a tunnel would lead into itself.
    async fn place(&self, site: KeyBytes) -> Result<bool, WorkerDied> {
        let ends = self.ends.clone();
        // Looked up there, so that what is done last is what was said last.
        self.tunnels_worker().call(move |worker| worker.place_site(site, ends.address(site))).await
    }
}

/// The sites to which these tunnels leave their ends.
fn sites_of(tunnels: &[Tunnel]) -> impl Iterator<Item = KeyBytes> {
    let sites = tunnels.iter().flat_map(|tunnel| &tunnel.ends).filter_map(TunnelEnd::site);
    sites.map(|key| KeyBytes(*key.as_bytes()))
}

/// To whom the ends of these tunnels are left, none of whom has registered yet.
pub(super) fn ends_of(tunnels: &[Tunnel]) -> Whereabouts {
    let ends = Whereabouts::default();
    ends.leave_to(sites_of(tunnels));
    ends
}

/// The sites to which ends are left, and where they are.
#[derive(Debug, Default)]
pub(crate) struct Whereabouts {
    sites: Mutex<BTreeMap<KeyBytes, Option<Registered>>>,
    connections: AtomicU64,
}

/// One of a relay's control connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ConnectionId(u64);

/// A site that is registered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Registered {
    /// By this connection: when it ends, so does the registration.
    by: ConnectionId,
    at: Ipv4Addr,
}

impl Whereabouts {
    /// Leaves ends to these sites from now on. Those of them that are registered stay so.
    pub(crate) fn leave_to(&self, sites: impl Iterator<Item = KeyBytes>) {
        let mut known = self.sites();
        let registered = |key| known.get(&key).copied().flatten();
        let left_to = sites.map(|key| (key, registered(key))).collect();
        *known = left_to;
    }

    /// A name for a connection that no other has.
    pub(crate) fn next_connection(&self) -> ConnectionId {
        ConnectionId(self.connections.fetch_add(1, Ordering::Relaxed))
    }

    /// Whether an end is left to this site.
    pub(crate) fn has(&self, site: KeyBytes) -> bool {
        self.sites().contains_key(&site)
    }

    /// A site to which an end is left registers by a connection from this address, and takes over from an earlier
    /// one. Says whether it is elsewhere than before: sites repeat themselves to see that the relay lives.
    pub(crate) fn register(&self, site: KeyBytes, by: ConnectionId, at: Ipv4Addr) -> bool {
        let mut sites = self.sites();
        let Some(registered) = sites.get_mut(&site) else { return false };
        let before = registered.replace(Registered { by, at });
        before.is_none_or(|before| before.at != at)
    }

    /// A connection has ended; says whether the site was registered by that one.
    pub(crate) fn leave(&self, site: KeyBytes, by: ConnectionId) -> bool {
        let mut sites = self.sites();
        let Some(registered) = sites.get_mut(&site) else { return false };
        registered.take_if(|registered| registered.by == by).is_some()
    }

    /// Where a site is.
    pub(crate) fn address(&self, site: KeyBytes) -> Option<Ipv4Addr> {
        self.sites().get(&site)?.map(|registered| registered.at)
    }

    /// All sites to which ends are left.
    pub(crate) fn all(&self) -> Vec<KeyBytes> {
        self.sites().keys().copied().collect()
    }

    fn sites(&self) -> MutexGuard<'_, BTreeMap<KeyBytes, Option<Registered>>> {
        // Each change is made in one step, so that a poisoned lock holds a whole map too.
        self.sites.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const VAN: KeyBytes = KeyBytes([1; 32]);
    const TRUCK: KeyBytes = KeyBytes([2; 32]);
    const HOME: Ipv4Addr = Ipv4Addr::new(203, 0, 113, 5);
    const ROAD: Ipv4Addr = Ipv4Addr::new(198, 51, 100, 7);

    #[test]
    fn a_site_is_where_it_has_registered_from_most_recently() {
        let ends = Whereabouts::default();
        ends.leave_to([VAN].into_iter());
        let [first, second] = [(); 2].map(|()| ends.next_connection());
        assert!(ends.register(VAN, first, HOME));
        assert!(!ends.register(VAN, first, HOME), "that is known");
        assert!(ends.register(VAN, second, ROAD));
        assert!(!ends.leave(VAN, first), "the second counts");
        assert_eq!(ends.address(VAN), Some(ROAD));
        assert!(ends.leave(VAN, second));
        assert_eq!(ends.address(VAN), None);
        assert!(!ends.register(TRUCK, first, HOME), "no end is left to it");
        assert_eq!((ends.has(TRUCK), ends.address(TRUCK)), (false, None));
    }

    #[test]
    fn other_sites_do_not_notice_a_change() {
        let ends = Whereabouts::default();
        ends.leave_to([VAN, TRUCK].into_iter());
        let connection = ends.next_connection();
        ends.register(VAN, connection, HOME);
        ends.register(TRUCK, connection, ROAD);
        ends.leave_to([VAN].into_iter());
        assert_eq!((ends.address(VAN), ends.address(TRUCK)), (Some(HOME), None));
        assert_eq!(ends.all(), [VAN]);
    }
}
