//! Whether packets arrive: the forwarding of all hosts, done on paper; and what hosts with several uplinks ask of the routes.

use std::collections::BTreeSet;
use std::net::IpAddr;

use ipnet::IpNet;

use super::names::Directory;
use super::network::Network;
use crate::scenario::draft::Draft;
use crate::scenario::model::{HostId, LinkId, Sites, TrafficKind, Tunnel};

/// The network and the tunnels over it.
pub(super) struct Map<'a> {
    pub(super) network: &'a Network,
    pub(super) tunnels: &'a [Tunnel],
}

/// How a packet ends that does not arrive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lost {
    /// Nobody has the address.
    NoSuchAddress,
    /// This host does not know where to send it.
    NoRoute(HostId),
    /// It goes round in circles.
    Loop,
}

/// How many hosts forward a packet before its time to live ends: the default of Linux.
const TIME_TO_LIVE: usize = 64;

/// A packet on its way.
struct Packet {
    at: HostId,
    /// The link by which it came there.
    by: Option<LinkId>,
    /// What its source address is by now.
    source: Option<IpAddr>,
}

impl Packet {
    /// One that has not left yet.
    fn of(host: HostId) -> Self {
        Self { at: host, by: None, source: None }
    }
}

impl Map<'_> {
    /// Whether packets from a host to an address arrive, and the answers too.
    pub(super) fn both_ways(&self, from: HostId, address: IpAddr) -> Result<HostId, Lost> {
        let (to, source) = self.arrive(from, address)?;
        if let Some(source) = source {
            self.arrive(to, source)?;
        }
        Ok(to)
    }

    /// The same if they leave by this link, whatever the host's best route is.
    pub(super) fn both_ways_by(&self, from: HostId, link: LinkId, address: IpAddr) -> Result<HostId, Lost> {
        let port = self.network.ports[from.0].iter().copied().find(|port| port.0 == link);
        let port = port.filter(|port| self.network.leads(from, *port, address)).ok_or(Lost::NoRoute(from))?;
        let packet = self.leave(&Packet::of(from), port, address);
        let (to, source) = self.carry(packet, address)?;
        if let Some(source) = source {
            self.arrive(to, source)?;
        }
        Ok(to)
    }

    /// Who gets packets from a host to an address, and the source that they then have.
    fn arrive(&self, from: HostId, address: IpAddr) -> Result<(HostId, Option<IpAddr>), Lost> {
        self.carry(Packet::of(from), address)
    }

    fn carry(&self, mut packet: Packet, address: IpAddr) -> Result<(HostId, Option<IpAddr>), Lost> {
        let owner = self.owner(address).ok_or(Lost::NoSuchAddress)?;
        for _ in 0..TIME_TO_LIVE {
            if packet.at == owner {
                return Ok((owner, packet.source));
            }
            packet = self.forward(&packet, address)?;
        }
        Err(Lost::Loop)
    }

    fn owner(&self, address: IpAddr) -> Option<HostId> {
        let on_link = self.network.owners.get(&address).copied();
        on_link.or_else(|| {
            let ends = self.tunnels.iter().flat_map(|tunnel| &tunnel.ends);
            ends.into_iter().find(|end| has(&end.addresses, address)).map(|end| end.host)
        })
    }

    fn forward(&self, packet: &Packet, address: IpAddr) -> Result<Packet, Lost> {
        let host = packet.at;
        if let Some((at, own)) = self.by_tunnel(host, address) {
            return Ok(Packet { at, by: None, source: packet.source.or(own) });
        }
        let port = self.next_port(host, address).ok_or(Lost::NoRoute(host))?;
        Ok(self.leave(packet, port, address))
    }

    /// The packet at the far end of a port. A NAT has given it another source if that is its outside.
    fn leave(&self, packet: &Packet, port: (LinkId, usize), address: IpAddr) -> Packet {
        let near = &self.network.links[port.0.0].ends[port.1];
        let own = near.addresses.iter().map(IpNet::addr).find(|own| own.is_ipv4() == address.is_ipv4());
        let nat = self.network.hosts[near.host.0].nat;
        let translated =
            packet.by.is_some_and(|by| by != port.0) && nat.is_some_and(|nat| nat.outside == port.0);
        let source = if translated { own } else { packet.source.or(own) };
        Packet { at: self.network.far_end(port).host, by: Some(port.0), source }
    }

    /// The far site of the tunnel that leads to an address, and the near one's own address in it.
    fn by_tunnel(&self, host: HostId, address: IpAddr) -> Option<(HostId, Option<IpAddr>)> {
        self.tunnels.iter().find_map(|tunnel| {
            let near = tunnel.ends.iter().position(|end| end.host == host)?;
            let (near, far) = (&tunnel.ends[near], &tunnel.ends[1 - near]);
            let leads = has(&far.addresses, address) || far.networks.iter().any(|net| net.contains(&address));
            let own = near.addresses.iter().map(IpNet::addr).find(|own| own.is_ipv4() == address.is_ipv4());
            leads.then_some((far.host, own))
        })
    }

    /// The link by which a host sends to an address if nothing binds it to another.
    pub(super) fn next_link(&self, host: HostId, address: IpAddr) -> Option<LinkId> {
        self.next_port(host, address).map(|port| port.0)
    }

    /// The port by which a host sends to an address: on the link itself, or by its most special route.
    fn next_port(&self, host: HostId, address: IpAddr) -> Option<(LinkId, usize)> {
        self.network.on_link(host, address).or_else(|| {
            let routes = self.network.hosts[host.0].routes.iter().filter(|route| route.to.contains(&address));
            // Of several as special as that the first counts, and `min` takes the first of equals.
            let best = routes.min_by_key(|route| u8::MAX - route.to.prefix_len())?;
            self.network.on_link(host, best.via)
        })
    }
}

fn has(addresses: &[IpNet], address: IpAddr) -> bool {
    addresses.iter().any(|net| net.addr() == address)
}

/// What tunnels and MPTCP ask of the routes.
pub(super) struct Demands {
    /// Networks that a site reaches through a tunnel, so that no route of ours has to lead there.
    pub(super) by_tunnel: Vec<(HostId, Vec<IpNet>)>,
    /// Hosts that bind to each of their links, and need a route by all of them.
    binding: BTreeSet<HostId>,
    /// Both ends of every tunnel, and of every stream of MPTCP.
    pairs: Vec<[HostId; 2]>,
}

impl Demands {
    pub(super) fn of(draft: &Draft, sites: &[Sites], directory: &Directory) -> Self {
        let streams = draft.traffic.iter().filter_map(|stream| match stream.kind.as_ref()? {
            TrafficKind::Tcp { multipath: true, .. } => {
                let host = |name| directory.hosts.find(name).map(HostId);
                Some([host(stream.from.as_ref()?)?, host(stream.to.as_ref()?)?])
            }
            TrafficKind::Tcp { .. }
            | TrafficKind::Quic { .. }
            | TrafficKind::Udp { .. }
            | TrafficKind::Requests { .. }
            | TrafficKind::Ping { .. } => None,
        });
        let streams: Vec<[HostId; 2]> = streams.collect();
        let tunnels = sites.iter().map(|sites| sites.each_ref().map(|end| end.host));
        let dialling = sites.iter().map(|sites| sites[0].host);
        Self {
            by_tunnel: sites.iter().flat_map(by_tunnel).collect(),
            binding: dialling.chain(streams.iter().flatten().copied()).collect(),
            pairs: tunnels.chain(streams.iter().copied()).collect(),
        }
    }

    /// Whether a host binds to each of its links.
    pub(super) fn binds(&self, host: HostId) -> bool {
        self.binding.contains(&host)
    }

    /// For every host its uplinks: the links by which it reaches the far end of a tunnel or of MPTCP.
    pub(super) fn uplinks(&self, network: &Network) -> Vec<BTreeSet<LinkId>> {
        let mut peers = vec![Vec::new(); network.hosts.len()];
        for [first, second] in &self.pairs {
            peers[first.0].push(*second);
            peers[second.0].push(*first);
        }
        let hosts = (0..network.hosts.len()).map(HostId);
        hosts.zip(peers).map(|(host, peers)| uplinks(network, host, &peers)).collect()
    }
}

fn by_tunnel(sites: &Sites) -> [(HostId, Vec<IpNet>); 2] {
    [0, 1].map(|end| (sites[1 - end].host, sites[end].networks.clone()))
}

/// The links of a host whose far end reaches one of its peers without it.
fn uplinks(network: &Network, host: HostId, peers: &[HostId]) -> BTreeSet<LinkId> {
    if peers.is_empty() || network.ports[host.0].len() < 2 {
        return BTreeSet::new();
    }
    let mut parts = vec![None; network.hosts.len()];
    let ports = &network.ports[host.0];
    for (part, port) in ports.iter().enumerate() {
        fill(network, host, network.far_end(*port).host, part, &mut parts);
    }
    let wanted: BTreeSet<Option<usize>> = peers.iter().map(|peer| parts[peer.0]).collect();
    let leads = |port: &&(LinkId, usize)| wanted.contains(&parts[network.far_end(**port).host.0]);
    ports.iter().filter(leads).map(|port| port.0).collect()
}

/// Marks all hosts that hang together with `from` when `without` is taken away, unless they are marked.
fn fill(network: &Network, without: HostId, from: HostId, part: usize, parts: &mut [Option<usize>]) {
    let mut open = vec![from];
    while let Some(host) = open.pop() {
        if host != without && parts[host.0].is_none() {
            parts[host.0] = Some(part);
            open.extend(network.ports[host.0].iter().map(|port| network.far_end(*port).host));
        }
    }
}
