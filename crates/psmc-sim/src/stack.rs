//! What the programs of all hosts run on: the network, its sockets, and the time.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use psmc_wire::ip::Ecn;

use crate::ids::{HostId, LinkId};
use crate::network::Network;
use crate::packet::Packet;
use crate::transport::{Owner, Route, Settings, StreamId, Transport};
use crate::udp::UdpPorts;

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
