//! The shortest ways between all hosts and all networks.

mod table;

use std::collections::{BTreeSet, VecDeque};
use std::net::IpAddr;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};

use super::network::Network;
use super::reach::Demands;
use crate::scenario::model::{HostId, LinkEnd, LinkId, Route};
use table::{Defaults, Table};

/// The routes that every host needs to reach every network: the fewest hops; of those the link that stands first.
///
/// A host with a single link needs a default route only. A host that binds to its links gets a route by each of them that
/// leads there, the best first. No host with several uplinks carries what goes from one of them to another: it is a
/// customer there, and has default routes where they say the same as a route to each network.
pub(super) fn find(network: &Network, demands: &Demands) -> Vec<Vec<Route>> {
    let uplinks = demands.uplinks(network);
    let hosts = || (0..network.hosts.len()).map(HostId);
    let mut tables: Vec<Table> =
        hosts().map(|host| Table::new(defaults(network, host, &uplinks[host.0]))).collect();
    for index in 0..network.links.len() {
        for family in [Family::V4, Family::V6] {
            let to: Vec<IpNet> = family.networks(network, LinkId(index)).collect();
            if to.is_empty() {
                continue;
            }
            let ways = Ways::to(network, LinkId(index), family, &uplinks, &by_tunnel(&to, demands));
            for (host, table) in hosts().zip(&mut tables).filter(|(host, _)| !ways.is_at(*host)) {
                table.add(family, &to, ways.from(host, demands.binds(host)));
            }
        }
    }
    tables.iter().zip(&network.hosts).map(|(table, host)| table.routes(&host.routes)).collect()
}

fn defaults(network: &Network, host: HostId, uplinks: &BTreeSet<LinkId>) -> Defaults {
    match network.ports[host.0].len() {
        1 => Defaults::Always,
        links if links == uplinks.len() => Defaults::Equivalent,
        _ => Defaults::Never,
    }
}

/// The sites that reach all of these networks through a tunnel.
fn by_tunnel(to: &[IpNet], demands: &Demands) -> Vec<HostId> {
    let covers = |networks: &[IpNet]| to.iter().all(|to| networks.iter().any(|network| network.contains(to)));
    demands.by_tunnel.iter().filter(|(_, networks)| covers(networks)).map(|(site, _)| *site).collect()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    V4,
    V6,
}

impl Family {
    fn includes(self, net: &IpNet) -> bool {
        matches!((self, net), (Self::V4, IpNet::V4(_)) | (Self::V6, IpNet::V6(_)))
    }

    fn everything(self) -> IpNet {
        match self {
            Self::V4 => IpNet::V4(Ipv4Net::default()),
            Self::V6 => IpNet::V6(Ipv6Net::default()),
        }
    }

    /// The networks of a link, each once.
    fn networks(self, network: &Network, link: LinkId) -> impl Iterator<Item = IpNet> {
        let addresses = &network.links[link.0].ends[0].addresses;
        let networks = addresses.iter().filter(move |net| self.includes(net)).map(IpNet::trunc);
        let mut all: Vec<IpNet> = networks.collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter()
    }
}

/// How every host reaches the networks of one link.
struct Ways<'a> {
    network: &'a Network,
    target: LinkId,
    family: Family,
    /// Of every host.
    uplinks: &'a [BTreeSet<LinkId>],
    /// Hops from each host; `None` where no way leads.
    distances: Vec<Option<u32>>,
    /// By what each host sends.
    towards: Vec<Option<Towards>>,
}

/// By what a host sends to the target.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Towards {
    Link(LinkId),
    Tunnel,
}

impl<'a> Ways<'a> {
    /// Walks outwards from the ends of the link, and from the sites that reach it by a tunnel.
    fn to(
        network: &'a Network,
        target: LinkId,
        family: Family,
        uplinks: &'a [BTreeSet<LinkId>],
        by_tunnel: &[HostId],
    ) -> Self {
        let nowhere = vec![None; network.hosts.len()];
        let mut ways = Self {
            network,
            target,
            family,
            uplinks,
            distances: nowhere,
            towards: vec![None; network.hosts.len()],
        };
        let mut queue = VecDeque::new();
        let ends = network.links[target.0].ends.iter().map(|end| (end.host, Towards::Link(target)));
        for (host, towards) in ends.chain(by_tunnel.iter().map(|site| (*site, Towards::Tunnel))) {
            if ways.distances[host.0].replace(0).is_none() {
                ways.towards[host.0] = Some(towards);
                queue.push_back((host, 0));
            }
        }
        while let Some((host, distance)) = queue.pop_front() {
            if distance > 0 {
                ways.towards[host.0] = ways.hops(host).min().map(|(_, link, _)| Towards::Link(link));
            }
            for port in &network.ports[host.0] {
                let neighbour = network.far_end(*port).host;
                if ways.forwards(host, port.0) && ways.distances[neighbour.0].is_none() {
                    ways.distances[neighbour.0] = Some(distance + 1);
                    queue.push_back((neighbour, distance + 1));
                }
            }
        }
        ways
    }

    /// Whether a host has an address on the link.
    fn is_at(&self, host: HostId) -> bool {
        self.network.links[self.target.0].ends.iter().any(|end| end.host == host)
    }

    /// The next hops from a host, the best first; none if it needs no route. All of them, or the best alone.
    fn from(&self, host: HostId, all: bool) -> Vec<IpAddr> {
        if self.distances[host.0].is_none_or(|distance| distance == 0) {
            return Vec::new();
        }
        let mut hops: Vec<(u32, LinkId, IpAddr)> = self.hops(host).collect();
        hops.sort_unstable();
        let (best, others) = hops.split_at(1.min(hops.len()));
        let others = others.iter().filter(|(_, link, _)| all && !self.comes_back(host, *link));
        best.iter().chain(others).map(|(_, _, via)| *via).collect()
    }

    /// Every neighbour that knows a way: how far it has to go, by which link it is reached, and its address there.
    fn hops(&self, host: HostId) -> impl Iterator<Item = (u32, LinkId, IpAddr)> {
        self.network.ports[host.0].iter().filter_map(move |port| {
            let far = self.network.far_end(*port);
            let distance = self.distances[far.host.0].filter(|_| self.forwards(far.host, port.0))?;
            let via = far.addresses.iter().find(|net| self.family.includes(net))?;
            Some((distance, port.0, via.addr()))
        })
    }

    /// Whether a host carries packets that come by this link: a NAT only those from inside, a customer none from uplink to
    /// uplink.
    fn forwards(&self, host: HostId, link: LinkId) -> bool {
        let includes = |end: &LinkEnd| end.addresses.iter().any(|net| self.family.includes(net));
        let from_outside = self.network.hosts[host.0].nat.is_some_and(|nat| nat.outside == link);
        let carries = self.towards[host.0].is_some_and(|towards| match towards {
            Towards::Link(next) => !(self.is_uplink(host, link) && self.is_uplink(host, next)),
            Towards::Tunnel => !self.is_uplink(host, link),
        });
        link != self.target
            && !from_outside
            && carries
            && self.network.links[link.0].ends.iter().all(includes)
    }

    fn is_uplink(&self, host: HostId, link: LinkId) -> bool {
        self.uplinks[host.0].contains(&link)
    }

    /// Whether the neighbour on a link sends packets back to this host.
    fn comes_back(&self, host: HostId, link: LinkId) -> bool {
        let mut at = self.across(host, link);
        while self.distances[at.0].is_some_and(|distance| distance > 0) {
            let Some(Towards::Link(link)) = self.towards[at.0] else { return true };
            at = self.across(at, link);
            if at == host {
                return true;
            }
        }
        false
    }

    /// The host at the far end of a link.
    fn across(&self, host: HostId, link: LinkId) -> HostId {
        let ends = &self.network.links[link.0].ends;
        if ends[0].host == host { ends[1].host } else { ends[0].host }
    }
}
