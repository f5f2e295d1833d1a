//! Which rules and routes lead packets into the tunnel, and none of the tunnel's own.
//!
//! All routes into the tunnel are in a table of this site's own, which the tunnel's own datagrams never ask: their sockets
//! carry a mark, and the rules for that table are for packets without it. The rules of a family are asked in this order:
//!
//! ```text
//!   [`BACK`]      between an uplink's address and a peer's: the uplink, so that a strict rp_filter lets answers in
//!   [`NETWORKS`]  not marked: this site's table, but for its default route
//!   [`LOCAL`]     not marked: the main table, but for its default route, so that what is local stays local
//!   [`DEFAULT`]   not marked: this site's table
//!   32766         the main table, as on every host
//! ```
//!
//! [`LOCAL`] and [`DEFAULT`] are there only if a peer has a default route. A network of a peer is more specific than what is
//! local, or less: as in one table the longest prefix wins, for a network of the main table that lies within a peer's is
//! *thrown* in this site's table, which has the next rule asked. Of two that are the same the local one wins.

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;

use ipnet::IpNet;
use psmc_net::keys::PublicKey;
use psmc_net::netlink::{Hop, MAIN_TABLE, Netlink, NetlinkError, Packets, RouteWay, Rule};

/// The priorities of the rules: before those that `ip rule add` makes without a priority, behind those of VRFs (1000).
const BACK: u32 = 5114;
const NETWORKS: u32 = 5115;
const LOCAL: u32 = 5116;
const DEFAULT: u32 = 5117;

/// What all numbers of sites begin with, far from the few that people choose themselves.
const NUMBERS: u32 = 0x5000_0000;

/// The bits of a table's number that tell sites from each other. The lowest tells the two tables of a site from each other.
const TABLE_BITS: u32 = 0x0fff_fffe;

/// The same of marks, of which programs use single bits for purposes of their own (kube-proxy 14 and 15, Cilium 8 to 11,
/// Tailscale 16 to 23). That two sites of a host have the same mark only keeps one tunnel out of the other.
const MARK_BITS: u32 = 0x0000_00ff;

/// The numbers by which a site finds its rules and tables again, also those that a daemon has left that was killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Numbers {
    /// On all of the site's own sockets.
    pub(crate) mark: NonZeroU32,
    /// The table with the routes into the tunnel.
    pub(crate) table: u32,
    /// The table with the routes back to peers.
    pub(crate) back_table: u32,
}

/// What the routes depend on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(in crate::daemon) struct View {
    /// The index of the tunnel's interface.
    pub(in crate::daemon) tun: u32,
    /// The networks behind peers, and those of the site's addresses in the tunnel.
    pub(in crate::daemon) networks: BTreeSet<IpNet>,
    /// Those networks within them that the main table leads elsewhere.
    pub(in crate::daemon) local: BTreeSet<IpNet>,
    /// Networks that are to be reached outside the tunnel.
    pub(in crate::daemon) excluded: BTreeSet<IpNet>,
    /// The way to a peer's address from one of ours, where the kernel would not let its answers in.
    pub(in crate::daemon) back: BTreeMap<(Ipv4Addr, Ipv4Addr), Hop>,
}

impl Numbers {
    /// Those of the site with this key.
    pub(crate) fn of(key: PublicKey) -> Self {
        let [first, second, third, fourth, ..] = *key.as_bytes();
        let own = u32::from_be_bytes([first, second, third, fourth]);
        let table = NUMBERS | own & TABLE_BITS;
        let mark = NonZeroU32::MIN.saturating_add((NUMBERS | own & MARK_BITS) - 1);
        Self { mark, table, back_table: table | 1 }
    }

    /// Whether a rule is this site's.
    pub(in crate::daemon) fn owns(&self, rule: &Rule) -> bool {
        let is_local = rule.table == MAIN_TABLE
            && rule.priority == LOCAL
            && rule.packets == Packets::Unmarked(self.mark.get());
        is_local || [self.table, self.back_table].contains(&rule.table)
    }

    /// Removes all rules and routes.
    ///
    /// # Errors
    /// What the kernel says.
    pub(in crate::daemon) async fn remove_all(&self, netlink: &Netlink) -> Result<(), NetlinkError> {
        let none = View::default();
        netlink.match_rules(&self.rules(&none), |rule| self.owns(rule)).await?;
        netlink.match_table(self.table, &none.table()).await?;
        netlink.match_table(self.back_table, &none.back_table()).await.map(drop)
    }

    /// The rules that there should be.
    pub(in crate::daemon) fn rules(&self, view: &View) -> BTreeSet<Rule> {
        let unmarked = Packets::Unmarked(self.mark.get());
        let mut rules = BTreeSet::new();
        for net in &view.networks {
            let is_v6 = net.addr().is_ipv6();
            let rule = |priority, table, without_default| Rule {
                priority,
                is_v6,
                packets: unmarked,
                table,
                without_default,
            };
            if net.prefix_len() == 0 {
                rules.insert(rule(LOCAL, MAIN_TABLE, true));
                rules.insert(rule(DEFAULT, self.table, false));
            } else {
                rules.insert(rule(NETWORKS, self.table, true));
            }
        }
        rules.extend(view.back.keys().map(|&(from, to)| Rule {
            priority: BACK,
            is_v6: false,
            packets: Packets::Between(from, to),
            table: self.back_table,
            without_default: false,
        }));
        rules
    }
}

impl View {
    /// The routes into the tunnel, and what is thrown.
    pub(in crate::daemon) fn table(&self) -> BTreeMap<IpNet, RouteWay> {
        let into = self.networks.iter().map(|&net| (net, RouteWay::Into(self.tun)));
        let mut table: BTreeMap<_, _> = into.collect();
        let specific = || self.networks.iter().filter(|net| net.prefix_len() > 0);
        let local = self.local.iter().filter(|local| specific().any(|net| net.contains(*local)));
        table.extend(local.map(|&local| (local, RouteWay::Throw)));
        for never in nowhere_but_here() {
            if self.networks.iter().any(|net| *net != never && net.contains(&never)) {
                table.entry(never).or_insert(RouteWay::Throw);
            }
        }
        table.extend(self.excluded.iter().map(|&excluded| (excluded, RouteWay::Throw)));
        table
    }

    /// The routes back to peers. Over whichever of these uplinks an answer comes, the kernel finds that it may.
    pub(in crate::daemon) fn back_table(&self) -> BTreeMap<IpNet, RouteWay> {
        let mut hops: BTreeMap<IpNet, BTreeSet<Hop>> = BTreeMap::new();
        for (&(_, to), &hop) in &self.back {
            hops.entry(IpAddr::from(to).into()).or_default().insert(hop);
        }
        hops.into_iter().map(|(to, hops)| (to, RouteWay::Hops(hops))).collect()
    }

    /// The networks of peers that are local, too, so that nothing of them goes through the tunnel.
    pub(in crate::daemon) fn hidden(&self) -> BTreeSet<IpNet> {
        self.networks.intersection(&self.local).copied().filter(|net| net.prefix_len() > 0).collect()
    }
}

/// Destinations that mean nothing beyond the link, or whoever has joined a group: multicast (RFC 5771, RFC 4291 section 2.7),
/// broadcast (RFC 919), link-local (RFC 3927, RFC 4291 section 2.5.6).
fn nowhere_but_here() -> [IpNet; 5] {
    ["224.0.0.0/4", "255.255.255.255/32", "169.254.0.0/16", "fe80::/10", "ff00::/8"]
        .map(|net| net.parse().unwrap_or_default())
}

#[cfg(test)]
#[path = "steering_tests.rs"]
mod tests;
