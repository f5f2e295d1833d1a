//! Ends of plain tunnels that are wherever a site of ours registers from.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use psmc_wire::ids::KeyBytes;

/// The sites to which ends are left, and where they are.
#[derive(Debug, Default)]
pub(crate) struct Ends {
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

impl Ends {
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
        let ends = Ends::default();
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
        let ends = Ends::default();
        ends.leave_to([VAN, TRUCK].into_iter());
        let connection = ends.next_connection();
        ends.register(VAN, connection, HOME);
        ends.register(TRUCK, connection, ROAD);
        ends.leave_to([VAN].into_iter());
        assert_eq!((ends.address(VAN), ends.address(TRUCK)), (Some(HOME), None));
        assert_eq!(ends.all(), [VAN]);
    }
}
