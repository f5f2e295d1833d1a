//! A machine with a network stack of its own.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::Way;
use super::nat::Nat;
use super::routes::Routes;
use crate::ids::{LinkId, SiteId};

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
