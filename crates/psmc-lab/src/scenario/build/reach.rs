//! Whether packets arrive: the forwarding of all hosts, done on paper.

use std::net::IpAddr;

use ipnet::IpNet;

use super::network::Network;
use crate::scenario::model::{HostId, LinkId, Tunnel};

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
