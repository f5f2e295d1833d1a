//! What the programs of all hosts run on: the network, its sockets, and the time.
//!
//! Who takes the datagrams that arrive at a port.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use psmc_core::SocketId;
use psmc_wire::ip::Ecn;

use crate::network::Network;
use crate::packet::Packet;
use crate::transport::{Owner, Route, Settings, StreamId, Transport};
use crate::world::{HostId, LinkId, SiteId, TrafficId};

/// The network with its sockets, at a time.
pub(crate) struct Stack {
    pub(crate) now: Instant,
    pub(crate) network: Network,
    pub(crate) transport: Transport,
    pub(crate) udp: UdpPorts,
}

impl Stack {
    /// Without hosts.
    pub(crate) fn new(seed: u64, now: Instant) -> Self {
        Self {
            now,
            network: Network::default(),
            transport: Transport::new(seed, now),
            udp: UdpPorts::default(),
        }
    }

    /// Sends a datagram from a port of a host, from the address that fits if there is none given.
    pub(crate) fn send_datagram(&mut self, from: &UdpSource, to: SocketAddr, payload: &[u8]) {
        self.send_marked(from, to, Ecn::NotEct, payload);
    }

    /// The same with this ECN codepoint.
    pub(crate) fn send_marked(&mut self, from: &UdpSource, to: SocketAddr, ecn: Ecn, payload: &[u8]) {
        let UdpSource { host, local, port, bound } = *from;
        let Some(ip) = local.or_else(|| self.network.source(host, to.ip(), bound)) else {
            return;
        };
        if ip.is_ipv4() == to.is_ipv4() {
            let mut packet = Packet::udp(SocketAddr::new(ip, port), to, payload);
            packet.set_ecn(ecn);
            self.network.send(host, packet, bound, self.now);
        }
    }

    /// Opens a connection; `None` if there is no way.
    pub(crate) fn connect(&mut self, owner: Owner, route: &Route, settings: Settings) -> Option<StreamId> {
        self.transport.connect(owner, route, settings, &mut self.network, self.now)
    }

    /// Sends bytes on a connection.
    pub(crate) fn write(&mut self, stream: StreamId, bytes: &[u8]) {
        self.transport.write(stream, bytes, &mut self.network, self.now);
    }

    /// Sends so many bytes that mean nothing on a connection.
    pub(crate) fn fill(&mut self, stream: StreamId, count: u64) {
        self.transport.fill(stream, count, &mut self.network, self.now);
    }

    /// Ends the sending half of a connection once everything is sent; its owner still sees what becomes of it.
    pub(crate) fn finish(&mut self, stream: StreamId) {
        self.transport.finish(stream, &mut self.network, self.now);
    }

    /// Lets go of a connection, which ends once everything is sent.
    pub(crate) fn close(&mut self, stream: StreamId) {
        self.transport.close(stream, &mut self.network, self.now);
    }

    /// Lets go of a connection, which ends at once.
    pub(crate) fn abort(&mut self, stream: StreamId) {
        self.transport.abort(stream, &mut self.network, self.now);
    }

    /// Ends all connections of an owner.
    pub(crate) fn end_all(&mut self, owner: Owner) {
        self.transport.end_all(owner, &mut self.network, self.now);
    }

    /// Lets everything happen that is due.
    pub(crate) fn handle_timeout(&mut self) {
        self.network.handle_timeout(self.now);
        self.transport.handle_timeout(&mut self.network, self.now);
    }

    /// When something is due.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        [self.network.poll_timeout(), self.transport.poll_timeout()].into_iter().flatten().min()
    }
}

/// Where a datagram is sent from.
#[derive(Clone, Copy, Debug)]
pub(crate) struct UdpSource {
    /// From which host.
    pub(crate) host: HostId,
    /// From which of its addresses; the one that fits if `None`.
    pub(crate) local: Option<IpAddr>,
    /// From which port.
    pub(crate) port: u16,
    /// By which link; the routes say which if `None`.
    pub(crate) bound: Option<LinkId>,
}

/// The first port for sockets that nobody gave one (RFC 6335 §6).
const FIRST_EPHEMERAL: u16 = 49152;

/// Who takes a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum UdpOwner {
    Site(SiteId, SocketId),
    Traffic(TrafficId),
}

/// A port that is open: its owner, and the link that it is bound to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UdpPort {
    pub(crate) owner: UdpOwner,
    pub(crate) bound: Option<LinkId>,
}

/// The UDP sockets of all hosts.
#[derive(Debug, Default)]
pub(crate) struct UdpPorts {
    ports: BTreeMap<(HostId, u16), UdpPort>,
    next: BTreeMap<HostId, u16>,
}

impl UdpPorts {
    /// Opens a port, instead of whoever had it.
    pub(crate) fn open(&mut self, host: HostId, port: u16, claim: UdpPort) {
        self.ports.insert((host, port), claim);
    }

    /// Opens a port that is free; `None` if there is none.
    pub(crate) fn open_any(&mut self, host: HostId, claim: UdpPort) -> Option<u16> {
        let next = self.next.entry(host).or_insert(FIRST_EPHEMERAL);
        let mut candidates = (*next..=u16::MAX).chain(FIRST_EPHEMERAL..*next);
        let port = candidates.find(|port| !self.ports.contains_key(&(host, *port)))?;
        *next = port.checked_add(1).unwrap_or(FIRST_EPHEMERAL);
        self.open(host, port, claim);
        Some(port)
    }

    /// Closes a port.
    pub(crate) fn close(&mut self, host: HostId, port: u16) {
        self.ports.remove(&(host, port));
    }

    /// Who takes a datagram that came to a port by that link.
    pub(crate) fn owner(&self, host: HostId, port: u16, by: Option<LinkId>) -> Option<UdpOwner> {
        let claim = self.ports.get(&(host, port))?;
        claim.bound.is_none_or(|bound| Some(bound) == by).then_some(claim.owner)
    }
}
