//! A machine with a network stack of its own.
//!
//! Where packets to an address go.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;
use prefix_trie::joint::map::JointPrefixMap;

use super::Way;
use super::nat::Nat;
use crate::world::{LinkId, SiteId};

/// The way that a packet leaves its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hop {
    /// By a link.
    Link(Way),
    /// Into the tunnel of a site.
    Tunnel(SiteId),
}

/// A host: its addresses, its routes, and what it does to packets that it forwards.
#[derive(Debug, Default)]
pub(super) struct Host {
    addresses: BTreeSet<IpAddr>,
    pub(super) routes: Routes<Hop>,
    pub(super) nat: Option<(LinkId, Nat)>,
    /// Whether it passes on what is not for itself.
    pub(super) forwards: bool,
}

impl Host {
    /// An interface has these addresses: their networks are behind it.
    pub(super) fn add_addresses(&mut self, addresses: &[IpNet], hop: Hop) {
        for address in addresses {
            self.addresses.insert(address.addr());
            self.routes.add(*address, hop);
        }
    }

    /// An interface has these addresses no more.
    pub(super) fn remove_addresses(&mut self, addresses: &[IpNet], hop: Hop) {
        for address in addresses {
            self.addresses.remove(&address.addr());
            self.routes.remove(*address, hop);
        }
    }

    /// Whether an address is one of its own.
    pub(super) fn owns(&self, address: IpAddr) -> bool {
        self.addresses.contains(&address)
    }

    /// Where packets to an address go.
    pub(super) fn lookup(&self, address: IpAddr, usable: impl Fn(&Hop) -> bool) -> Option<Hop> {
        self.routes.lookup(address, usable)
    }
}

/// The routes of a host: for each prefix the next hops, in the order of preference.
#[derive(Debug)]
pub(super) struct Routes<T> {
    hops: JointPrefixMap<IpNet, Vec<T>>,
}

impl<T> Default for Routes<T> {
    fn default() -> Self {
        Self { hops: JointPrefixMap::new() }
    }
}

impl<T: Copy + PartialEq> Routes<T> {
    /// Adds a route, behind those to the same prefix.
    pub(super) fn add(&mut self, prefix: IpNet, hop: T) {
        let hops = self.hops.entry(prefix.trunc()).or_default();
        if !hops.contains(&hop) {
            hops.push(hop);
        }
    }

    /// Removes a route.
    pub(super) fn remove(&mut self, prefix: IpNet, hop: T) {
        if let Some(hops) = self.hops.get_mut(&prefix.trunc()) {
            hops.retain(|other| *other != hop);
        }
    }

    /// The usable hop with the longest prefix that contains `address`, and the first one of those.
    pub(super) fn lookup(&self, address: IpAddr, usable: impl Fn(&T) -> bool) -> Option<T> {
        let of_prefix = |hops: &Vec<T>| hops.iter().find(|hop| usable(hop)).copied();
        let prefix = IpNet::from(address);
        // Nearly always the longest prefix has a usable hop, and is found much faster alone.
        let longest = self.hops.get_lpm(&prefix).and_then(|(_, hops)| of_prefix(hops));
        longest.or_else(|| self.hops.cover_values(&prefix).filter_map(of_prefix).last())
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use proptest::prelude::*;

    use super::*;

    prop_compose! {
        /// Few addresses, so that routes meet.
        fn prefix()(bits in 0..16u32, len in 0..=4u8) -> IpNet {
            IpNet::new(IpAddr::V4(Ipv4Addr::from(bits << 28)), len).unwrap().trunc()
        }
    }

    proptest! {
        #[test]
        fn lookup_agrees_with_a_list(
            routes in proptest::collection::vec((prefix(), 0..4u8), 0..20),
            removed in proptest::collection::vec(any::<prop::sample::Index>(), 0..5),
            address in 0..16u32,
            down in 0..4u8,
        ) {
            let mut list: Vec<(IpNet, u8)> = Vec::new();
            let mut table = Routes::default();
            for &route in &routes {
                table.add(route.0, route.1);
                if !list.contains(&route) {
                    list.push(route);
                }
            }
            for index in removed {
                if let Some(&route) = routes.get(index.index(routes.len().max(1))) {
                    table.remove(route.0, route.1);
                    list.retain(|other| *other != route);
                }
            }
            let address = IpAddr::V4(Ipv4Addr::from(address << 28));
            let fits = list.iter().filter(|(net, hop)| net.contains(&address) && *hop != down);
            let longest = fits.clone().map(|(net, _)| net.prefix_len()).max();
            let expected = fits.clone().find(|(net, _)| Some(net.prefix_len()) == longest).map(|(_, hop)| *hop);
            prop_assert_eq!(table.lookup(address, |hop| *hop != down), expected);
        }
    }
}
