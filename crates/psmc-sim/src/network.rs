//! Hosts, the links between them, and how packets find their way.

mod cable;
mod device;
mod host;
mod nat;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::IpAddr;
use std::time::Instant;

use ipnet::IpNet;
use psmc_wire::ip::Ecn;

pub use cable::{Conditioner, DroppedPacket, LinkEnd, LinkSetup};
pub use nat::NatKind;

use crate::agenda::Agenda;
use crate::link::{Arrival, LinkConfig, LinkCounters};
use crate::packet::Packet;
use crate::router::{Departure, RouterConfig, RouterCounters};
use crate::world::{HostId, LinkId, SiteId};
use cable::{Cable, source_among};
use device::{Device, Passing};
use host::{Hop, Host};
use nat::Nat;

/// A direction of a link: from the end with this number to the other one. Also the interface at that end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Way {
    pub(crate) link: LinkId,
    pub(crate) from: usize,
}

/// A packet that has reached its host.
#[derive(Debug)]
pub(crate) struct Delivery {
    pub(crate) host: HostId,
    pub(crate) to: Receiver,
    pub(crate) packet: Packet,
}

/// Who takes a packet at its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Receiver {
    /// The host itself; `by` is the link it came by, if it came by one.
    Host { by: Option<LinkId> },
    /// The tunnel of a site, as what its TUN device yields.
    Tunnel(SiteId),
}

/// Whatever has packets that leave it later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Actor {
    Way(Way),
    Device(HostId),
}

/// A TUN device.
#[derive(Debug)]
struct Tunnel {
    host: HostId,
    addresses: Vec<IpNet>,
    networks: Vec<IpNet>,
    mtu: usize,
}

/// The network.
///
/// After [`send`](Self::send), [`inject`](Self::inject) and [`handle_timeout`](Self::handle_timeout):
/// [`poll_delivery`](Self::poll_delivery) until `None`.
#[derive(Default)]
pub(crate) struct Network {
    hosts: Vec<Host>,
    cables: Vec<Cable>,
    devices: BTreeMap<HostId, Device>,
    tunnels: BTreeMap<SiteId, Tunnel>,
    agenda: Agenda<Actor>,
    delivered: VecDeque<Delivery>,
    /// Directions whose drops somebody asks for, and those drops.
    watched: BTreeSet<Way>,
    dropped: VecDeque<DroppedPacket>,
}

impl Network {
    /// A host without links.
    pub(crate) fn add_host(&mut self) -> HostId {
        self.hosts.push(Host::default());
        HostId(self.hosts.len() - 1)
    }

    /// A link between two hosts, and the routes to its own networks.
    pub(crate) fn add_link(&mut self, setup: LinkSetup, seeds: [u64; 2], now: Instant) -> LinkId {
        let link = LinkId(self.cables.len());
        for (from, end) in setup.ends.iter().enumerate() {
            let host = &mut self.hosts[end.host.0];
            host.add_addresses(&end.addresses, Hop::Link(Way { link, from }));
        }
        self.cables.push(Cable::new(setup, seeds, now));
        link
    }

    /// Adds a route; says whether the next hop is on a link of the host.
    pub(crate) fn add_route(&mut self, host: HostId, to: IpNet, via: IpAddr) -> bool {
        let routes = &self.hosts[host.0];
        let Some(hop) = routes.lookup(via, |hop| matches!(hop, Hop::Link(_))) else {
            return false;
        };
        self.hosts[host.0].routes.add(to, hop);
        true
    }

    /// A host passes on what is not for itself.
    pub(crate) fn set_forwarding(&mut self, host: HostId) {
        self.hosts[host.0].forwards = true;
    }

    /// A host passes on packets as a router does whose ports are at these links; says whether each port has a link of the
    /// host to itself.
    pub(crate) fn set_router(
        &mut self,
        host: HostId,
        config: RouterConfig,
        links: &[LinkId],
        seed: u64,
        now: Instant,
    ) -> bool {
        let distinct: BTreeSet<_> = links.iter().collect();
        let fits = distinct.len() == links.len()
            && links.len() == config.ports().len()
            && links.iter().all(|link| self.end_of(host, *link).is_some());
        if fits {
            self.set_forwarding(host);
            self.devices.insert(host, Device::new(config, links.to_vec(), seed, now));
        }
        fits
    }

    /// What the router of a host has done.
    pub(crate) fn router_counters(&self, host: HostId) -> Option<&RouterCounters> {
        self.devices.get(&host).map(Device::counters)
    }

    /// A host translates what leaves by a link.
    pub(crate) fn set_nat(&mut self, host: HostId, kind: NatKind, outside: LinkId) {
        self.hosts[host.0].nat = Some((outside, Nat::new(kind)));
    }

    /// A TUN device comes up, with its addresses and routes.
    pub(crate) fn add_tunnel(
        &mut self,
        site: SiteId,
        host: HostId,
        addresses: &[IpNet],
        networks: &[IpNet],
        mtu: usize,
    ) {
        let (addresses, networks) = (addresses.to_vec(), networks.to_vec());
        let place = &mut self.hosts[host.0];
        place.add_addresses(&addresses, Hop::Tunnel(site));
        for &network in &networks {
            place.routes.add(network, Hop::Tunnel(site));
        }
        self.tunnels.insert(site, Tunnel { host, addresses, networks, mtu });
    }

    /// A TUN device goes, with its addresses and routes.
    pub(crate) fn remove_tunnel(&mut self, site: SiteId) {
        let Some(tunnel) = self.tunnels.remove(&site) else {
            return;
        };
        let host = &mut self.hosts[tunnel.host.0];
        host.remove_addresses(&tunnel.addresses, Hop::Tunnel(site));
        for &network in &tunnel.networks {
            host.routes.remove(network, Hop::Tunnel(site));
        }
    }

    /// The interface of a host on a link gets other addresses.
    pub(crate) fn readdress(&mut self, host: HostId, link: LinkId, addresses: Vec<IpNet>) {
        let Some(from) = self.end_of(host, link) else {
            return;
        };
        let hop = Hop::Link(Way { link, from });
        let old = std::mem::replace(&mut self.cables[link.0].ends[from].addresses, addresses.clone());
        self.hosts[host.0].remove_addresses(&old, hop);
        self.hosts[host.0].add_addresses(&addresses, hop);
    }

    /// What leaves a host by a link is conditioned from now on; says whether it has such a link.
    pub(crate) fn set_conditioner(
        &mut self,
        host: HostId,
        link: LinkId,
        conditioner: Box<dyn Conditioner>,
    ) -> bool {
        let Some(from) = self.end_of(host, link) else {
            return false;
        };
        self.cables[link.0].set_conditioner(from, conditioner);
        true
    }

    /// Keeps what a link drops of the packets that enter at this end, from now on.
    pub(crate) fn watch_drops(&mut self, link: LinkId, from: usize) {
        self.watched.insert(Way { link, from });
    }

    /// The next packet of those.
    pub(crate) fn poll_dropped(&mut self) -> Option<DroppedPacket> {
        self.dropped.pop_front()
    }

    /// The interfaces of a link go up or down; what is on its way when they go down is lost.
    pub(crate) fn set_link_up(&mut self, link: LinkId, up: bool, now: Instant) {
        self.cables[link.0].set_up(up);
        for from in [0, 1] {
            self.drain(Way { link, from }, now);
        }
    }

    /// Both directions of a link become others.
    pub(crate) fn change_link(&mut self, link: LinkId, directions: [LinkConfig; 2], now: Instant) {
        self.cables[link.0].change(directions, now);
        for from in [0, 1] {
            self.drain(Way { link, from }, now);
        }
    }

    /// A host sends a packet, by a certain link if it is bound to one.
    pub(crate) fn send(&mut self, host: HostId, packet: Packet, bound: Option<LinkId>, now: Instant) {
        let place = &self.hosts[host.0];
        if !place.owns(packet.source()) {
            return;
        }
        if place.owns(packet.destination()) {
            return self.deliver(host, Receiver::Host { by: None }, packet);
        }
        if let Some(hop) = self.hop(host, packet.destination(), bound) {
            self.send_over(host, hop, packet, now);
        }
    }

    /// A packet comes out of a tunnel at its host.
    pub(crate) fn inject(&mut self, site: SiteId, packet: Packet, now: Instant) {
        if let Some(host) = self.tunnels.get(&site).map(|tunnel| tunnel.host) {
            self.accept(host, None, packet, now);
        }
    }

    /// Lets everything arrive that arrives by `now`.
    pub(crate) fn handle_timeout(&mut self, now: Instant) {
        while let Some(actor) = self.agenda.pop(now) {
            match actor {
                Actor::Way(way) => self.drain(way, now),
                Actor::Device(host) => self.drain_device(host, now),
            }
        }
    }

    /// The next packet that has reached its host.
    pub(crate) fn poll_delivery(&mut self) -> Option<Delivery> {
        self.delivered.pop_front()
    }

    /// When the next packet arrives.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.agenda.next()
    }

    /// The address from which a host speaks to another one, by a certain link if it is bound to one.
    pub(crate) fn source(&self, host: HostId, to: IpAddr, bound: Option<LinkId>) -> Option<IpAddr> {
        if self.hosts[host.0].owns(to) {
            return Some(to);
        }
        match self.hop(host, to, bound)? {
            Hop::Link(way) => self.cables[way.link.0].source(way.from, to),
            Hop::Tunnel(site) => source_among(&self.tunnels.get(&site)?.addresses, to),
        }
    }

    /// The longest packet that leaves a host towards another one.
    pub(crate) fn mtu(&self, host: HostId, to: IpAddr, bound: Option<LinkId>) -> Option<usize> {
        match self.hop(host, to, bound)? {
            Hop::Link(way) => Some(self.cables[way.link.0].mtu()),
            Hop::Tunnel(site) => self.tunnels.get(&site).map(|tunnel| tunnel.mtu),
        }
    }

    /// Whether the interfaces of a link are up.
    pub(crate) fn is_up(&self, link: LinkId) -> bool {
        self.cables[link.0].is_up()
    }

    /// The hosts at the ends of a link.
    pub(crate) fn hosts_of(&self, link: LinkId) -> [HostId; 2] {
        self.cables[link.0].ends.each_ref().map(|end| end.host)
    }

    /// What both directions of a link have done.
    pub(crate) fn counters(&self, link: LinkId) -> [&LinkCounters; 2] {
        self.cables[link.0].counters()
    }

    /// What both directions of a link are like.
    pub(crate) fn link_config(&self, link: LinkId) -> [&LinkConfig; 2] {
        self.cables[link.0].config()
    }

    fn end_of(&self, host: HostId, link: LinkId) -> Option<usize> {
        self.cables[link.0].ends.iter().position(|end| end.host == host)
    }

    /// Where a packet of a host goes. What is bound to a link goes out there even without a route if the other end is
    /// whom it is for, as Linux does it (it takes the destination to be on the link).
    fn hop(&self, host: HostId, to: IpAddr, bound: Option<LinkId>) -> Option<Hop> {
        let usable = |hop: &Hop| match hop {
            Hop::Link(way) => self.cables[way.link.0].is_up() && bound.is_none_or(|bound| bound == way.link),
            Hop::Tunnel(_) => bound.is_none(),
        };
        self.hosts[host.0].lookup(to, usable).or_else(|| {
            let link = bound.filter(|bound| self.is_up(*bound))?;
            let from = self.end_of(host, link)?;
            let other = self.cables[link.0].ends[1 - from].host;
            self.hosts[other.0].owns(to).then_some(Hop::Link(Way { link, from }))
        })
    }

    /// Everything that arrives at the end of a direction by `now`.
    fn drain(&mut self, way: Way, now: Instant) {
        let Way { link, from } = way;
        let host = self.cables[link.0].ends[1 - from].host;
        while let Some(arrival) = self.cables[link.0].poll_packet(from, now) {
            let Arrival { mut packet, copies, corrupt_bit, congestion_experienced, .. } = arrival;
            packet.damaged |= corrupt_bit.is_some();
            if congestion_experienced {
                packet.set_ecn(Ecn::Ce);
            }
            for _ in 1..copies {
                self.accept(host, Some(link), packet.clone(), now);
            }
            self.accept(host, Some(link), packet, now);
        }
        self.agenda.set(Actor::Way(way), self.cables[link.0].poll_timeout(from));
        self.note_drops(way, now);
    }

    fn note_drops(&mut self, way: Way, now: Instant) {
        let Way { link, from } = way;
        let is_watched = self.watched.contains(&way);
        while let Some((packet, reason)) = self.cables[link.0].poll_dropped(from) {
            if is_watched {
                self.dropped.push_back(DroppedPacket {
                    link,
                    from,
                    at: now,
                    reason,
                    packet: packet.into_bytes(),
                });
            }
        }
    }

    /// A packet has come to a host: it is for it, or goes on.
    fn accept(&mut self, host: HostId, by: Option<LinkId>, mut packet: Packet, now: Instant) {
        let place = &mut self.hosts[host.0];
        if let Some((outside, nat)) = &mut place.nat
            && by == Some(*outside)
        {
            // What belongs to nobody inside is for the host itself, or for nobody.
            nat.translate_inbound(&mut packet, now);
        }
        let is_own = place.owns(packet.destination());
        let port = by.and_then(|by| self.devices.get(&host)?.port(by));
        if is_own && port.is_some() {
            return self.pass(host, packet, [port, None], now);
        }
        if is_own {
            return self.deliver(host, Receiver::Host { by }, packet);
        }
        if self.hosts[host.0].forwards
            && packet.take_hop()
            && let Some(hop) = self.hop(host, packet.destination(), None)
        {
            self.forward(host, port, hop, packet, now);
        }
    }

    /// Passes on a packet, through the router if there is one and the packet came to one of its ports.
    fn forward(&mut self, host: HostId, input: Option<usize>, hop: Hop, mut packet: Packet, now: Instant) {
        if let Hop::Link(way) = hop
            && let Some((outside, nat)) = &mut self.hosts[host.0].nat
            && way.link == *outside
        {
            let address = self.cables[way.link.0].source(way.from, packet.destination());
            if !address.is_some_and(|address| nat.translate_outbound(&mut packet, address, now)) {
                return;
            }
        }
        let output = match hop {
            Hop::Link(way) => self.devices.get(&host).and_then(|device| device.port(way.link)),
            Hop::Tunnel(_) => None,
        };
        if input.is_some() && output.is_some() {
            return self.pass(host, packet, [input, output], now);
        }
        self.send_over(host, hop, packet, now);
    }

    /// Puts a packet into the router of a host.
    fn pass(&mut self, host: HostId, packet: Packet, ports: [Option<usize>; 2], now: Instant) {
        if let Some(device) = self.devices.get_mut(&host) {
            device.handle_packet(packet, ports, now);
            self.drain_device(host, now);
        }
    }

    /// Everything that leaves the router of a host by `now`.
    fn drain_device(&mut self, host: HostId, now: Instant) {
        while let Some(departure) = self.devices.get_mut(&host).and_then(|device| device.poll_packet(now)) {
            let Departure { packet: Passing { mut packet, by }, port, congestion_experienced, .. } =
                departure;
            if congestion_experienced {
                packet.set_ecn(Ecn::Ce);
            }
            let link = port.and_then(|port| self.devices.get(&host).map(|device| device.link(port)));
            let way = link.and_then(|link| Some(Way { link, from: self.end_of(host, link)? }));
            match way {
                Some(way) => self.send_over(host, Hop::Link(way), packet, now),
                None => self.deliver(host, Receiver::Host { by: Some(by) }, packet),
            }
        }
        let next = self.devices.get(&host).and_then(Device::poll_timeout);
        self.agenda.set(Actor::Device(host), next);
    }

    fn send_over(&mut self, host: HostId, hop: Hop, packet: Packet, now: Instant) {
        match hop {
            Hop::Link(way) => {
                let cable = &mut self.cables[way.link.0];
                cable.send(way.from, packet, now);
                self.agenda.set(Actor::Way(way), cable.poll_timeout(way.from));
                self.note_drops(way, now);
            }
            Hop::Tunnel(site) => self.deliver(host, Receiver::Tunnel(site), packet),
        }
    }

    fn deliver(&mut self, host: HostId, to: Receiver, packet: Packet) {
        // The checksum of a damaged packet is wrong.
        if !packet.damaged {
            self.delivered.push_back(Delivery { host, to, packet });
        }
    }
}
