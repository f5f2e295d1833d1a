//! A site that runs: the engine, its sockets and its connections, driven as the daemon drives them.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Instant;

use psmc_core::police::PoliceConfig;
use psmc_core::{
    Batch, DatagramOrigin, Event, MAX_SEGMENTS, PathConfig, PeerError, PeerId, PeerStatus, Site, SiteConfig,
    SocketId, Transmit,
};

use super::control::{Control, Notice, SETTINGS};
use super::flights::SimKeys;
use super::splits::Splits;
use super::{PathSetup, PeerSetup, SiteSetup};
use crate::packet::Packet;
use crate::stack::{Stack, UdpSource};
use crate::stack::{UdpOwner, UdpPort};
use crate::transport::{Owner, Route, StreamId};
use crate::world::{HostId, LinkId, SiteId};

/// The socket on the listening port, used by paths that are bound to nothing.
const LISTEN_SOCKET: SocketId = SocketId(0);

/// A site that runs.
pub(super) struct Engine {
    id: SiteId,
    host: HostId,
    listen: u16,
    site: Site,
    peers: BTreeMap<PeerId, PeerSetup>,
    sockets: BTreeMap<SocketId, UdpSource>,
    control: Control,
    splits: Splits,
    mtu: usize,
    batch: Batch,
}

impl Engine {
    /// Starts a site: its device, its sockets, its peers and its paths. All chance comes from the seed.
    pub(super) fn start(
        id: SiteId,
        setup: &SiteSetup,
        seed: [u8; 32],
        stack: &mut Stack,
    ) -> Result<Self, PeerError> {
        let config = SiteConfig { seed, ..setup.config.clone() };
        let mtu = usize::from(config.mtu);
        let networks: Vec<_> = setup.peers.iter().flat_map(|peer| peer.config.allowed_ips.clone()).collect();
        stack.network.add_tunnel(id, setup.host, &setup.addresses, &networks, mtu);
        let mut engine = Self {
            id,
            host: setup.host,
            listen: setup.listen,
            site: Site::new(config),
            peers: BTreeMap::new(),
            sockets: BTreeMap::new(),
            control: Control::new(id, setup.identity, BTreeMap::new(), 0),
            splits: Splits::default(),
            mtu,
            batch: Batch::new(MAX_SEGMENTS),
        };
        engine.open_listen_socket(stack);
        for peer in &setup.peers {
            engine.add_peer(peer, stack)?;
        }
        let identities = engine.peers.iter().map(|(id, peer)| (*id, peer.identity)).collect();
        engine.control = Control::new(id, setup.identity, identities, first_secret(seed));
        Ok(engine)
    }

    fn open_listen_socket(&mut self, stack: &mut Stack) {
        let owner = UdpOwner::Site(self.id, LISTEN_SOCKET);
        stack.udp.open(self.host, self.listen, UdpPort { owner, bound: None });
        stack.transport.listen(self.host, self.listen, Owner::Site(self.id), SETTINGS);
        let source = UdpSource { host: self.host, local: None, port: self.listen, bound: None };
        self.sockets.insert(LISTEN_SOCKET, source);
    }

    fn add_peer(&mut self, setup: &PeerSetup, stack: &mut Stack) -> Result<(), PeerError> {
        let peer = self.site.add_peer(setup.config.clone(), stack.now)?;
        for path in &setup.paths {
            self.add_path(peer, path, stack)?;
        }
        self.peers.insert(peer, setup.clone());
        Ok(())
    }

    fn add_path(&mut self, peer: PeerId, path: &PathSetup, stack: &mut Stack) -> Result<(), PeerError> {
        let socket = self.open_socket(path, stack);
        let config = PathConfig { socket, ..path.config.clone() };
        self.site.peer(peer)?.add_path(config, stack.now)?;
        if path.link.is_some_and(|link| !stack.network.is_up(link)) {
            self.site.handle_link(socket, false, stack.now);
        }
        Ok(())
    }

    fn open_socket(&mut self, path: &PathSetup, stack: &mut Stack) -> SocketId {
        if path.link.is_none() && path.address.is_none() {
            return LISTEN_SOCKET;
        }
        let next = self.sockets.keys().next_back().map_or(0, |last| last.0 + 1);
        let socket = SocketId(next);
        let owner = UdpOwner::Site(self.id, socket);
        // A host without a free port has no use for another path either.
        let port = stack.udp.open_any(self.host, UdpPort { owner, bound: path.link }).unwrap_or_default();
        let source = UdpSource { host: self.host, local: path.address, port, bound: path.link };
        self.sockets.insert(socket, source);
        socket
    }

    /// Ends without a word, as after SIGKILL: the kernel closes what was open.
    pub(super) fn kill(self, stack: &mut Stack) {
        stack.network.remove_tunnel(self.id);
        for source in self.sockets.values() {
            stack.udp.close(self.host, source.port);
        }
        stack.end_all(Owner::Site(self.id));
    }

    /// An inner packet has come to the TUN device.
    pub(super) fn handle_inner(&mut self, packet: &Packet, now: Instant) {
        if self.splits.takes(packet, &mut self.site, now) {
            return;
        }
        let mut buf = self.site.pool().take();
        buf.fill(packet.bytes());
        self.site.handle_packet(buf, now);
    }

    /// A datagram has arrived at a socket.
    pub(super) fn handle_datagram(&mut self, socket: SocketId, packet: &mut Packet, now: Instant) {
        let origin = DatagramOrigin {
            socket,
            local_ip: Some(packet.destination()),
            remote: packet.from(),
            ecn: packet.ecn(),
        };
        self.site.handle_datagram(packet.udp_payload_mut(), &origin, now);
    }

    /// Something has happened to a control connection.
    pub(super) fn handle_stream(&mut self, stream: StreamId, stack: &mut Stack) {
        self.control.handle_stream(stream, stack);
    }

    /// The interface of a link of the host has gone up or down.
    pub(super) fn handle_link(&mut self, link: LinkId, up: bool, now: Instant) {
        for (&socket, source) in &self.sockets {
            if source.bound == Some(link) {
                self.site.handle_link(socket, up, now);
            }
        }
    }

    /// Does what is due.
    pub(super) fn handle_timeout(&mut self, stack: &mut Stack) {
        self.control.handle_timeout(stack);
        self.splits.handle_timeout(stack.now);
        self.site.handle_timeout(stack.now);
    }

    /// When there is something to do. Valid after [`settle`](Self::settle).
    pub(super) fn poll_timeout(&self) -> Option<Instant> {
        let all = [self.site.poll_timeout(), self.control.poll_timeout(), self.splits.poll_timeout()];
        all.into_iter().flatten().min()
    }

    /// Carries out what the engine asks for.
    pub(super) fn settle(&mut self, stack: &mut Stack) {
        loop {
            self.deliver(stack);
            self.transmit(stack);
            self.deliver(stack);
            while let Some((connection, message)) = self.site.poll_message() {
                self.control.write(connection, &message, stack);
            }
            while let Some(event) = self.site.poll_event() {
                self.react(event, stack);
            }
            let has_split = self.splits.settle(self.id, &mut self.site, stack);
            let notices = self.control.take_notices();
            if notices.is_empty() && !has_split {
                return;
            }
            for notice in notices {
                self.take_notice(notice, stack.now);
            }
        }
    }

    /// The present state of the peer with that number in the setup.
    pub(super) fn set_police(&mut self, config: PoliceConfig) {
        self.site.set_police(Some(config));
    }

    pub(super) fn status(&self, peer: usize) -> Option<PeerStatus> {
        self.peers.keys().nth(peer).and_then(|peer| self.site.status(*peer))
    }

    fn deliver(&mut self, stack: &mut Stack) {
        while let Some(buf) = self.site.poll_packet() {
            if let Some(packet) = Packet::from_bytes(buf.packet().to_vec()) {
                stack.network.inject(self.id, packet, stack.now);
            }
            self.site.recycle(buf);
        }
    }

    fn transmit(&mut self, stack: &mut Stack) {
        while let Some(transmit) = self.site.poll_transmit(&mut self.batch, stack.now) {
            let Transmit { socket, remote, local_ip, ecn, segment_size, .. } = transmit;
            let Some(source) = self.sockets.get(&socket) else {
                continue;
            };
            let source = UdpSource { local: local_ip.or(source.local), ..*source };
            for datagram in self.batch.contents().chunks(segment_size) {
                stack.send_marked(&source, remote, ecn, datagram);
            }
        }
    }

    fn react(&mut self, event: Event, stack: &mut Stack) {
        match event {
            Event::Dial(peer) => self.control.dial(peer, self.routes_to(peer), stack),
            Event::Hangup(connection) => self.control.hang_up(connection, stack),
            Event::Stream { peer, stream, event } => {
                self.splits.on_event((peer, stream), event, self.mtu, &mut self.site, stack.now);
            }
            // Sockets stay open: what still comes for a path that is gone is refused by the engine.
            Event::PathForgotten { .. }
            | Event::Connected { .. }
            | Event::Closed { .. }
            | Event::PathChanged { .. }
            | Event::PathOpened { .. }
            | Event::KeysEnded { .. }
            | Event::GatewayChanged { .. }
            | Event::HopWanted { .. }
            | Event::BatchesLost { .. }
            | Event::Measured { .. }
            | Event::Counts { .. }
            | Event::PathMoved { .. } => {}
        }
    }

    /// The ways to a peer: along its paths, or else to its endpoint.
    fn routes_to(&self, peer: PeerId) -> Vec<Route> {
        let Some(setup) = self.peers.get(&peer) else {
            return Vec::new();
        };
        let along = |path: &PathSetup| self.route(path.config.remote, path);
        let mut routes: Vec<_> = setup.paths.iter().map(along).collect();
        routes.dedup();
        if routes.is_empty() {
            let plain = |remote| Route { host: self.host, local: None, remote, bound: None };
            routes.extend(setup.endpoint.map(plain));
        }
        routes
    }

    fn route(&self, remote: SocketAddr, path: &PathSetup) -> Route {
        Route { host: self.host, local: path.address, remote, bound: path.link }
    }

    fn take_notice(&mut self, notice: Notice, now: Instant) {
        match notice {
            Notice::Connected { peer, connection, role, secret } => {
                let keys = Box::new(SimKeys { secret });
                let known = self.site.handle_connected(peer, connection, role, keys, now);
                debug_assert_eq!(known, Ok(()), "only peers of the engine are let in");
            }
            Notice::Message(connection, message) => self.site.handle_message(connection, message, now),
            Notice::Disconnected(connection) => self.site.handle_disconnected(connection, now),
            Notice::DialFailed(peer) => self.site.handle_dial_failed(peer, now),
        }
    }
}

/// Secrets of different starts must differ: they are counted from here.
fn first_secret(seed: [u8; 32]) -> u64 {
    u64::from_be_bytes(std::array::from_fn(|index| seed[index]))
}
