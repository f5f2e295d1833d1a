//! A site: the whole engine, all peers and paths, without a socket or a clock.

mod settings;
mod streams;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use psmc_wire::control::Message;
use psmc_wire::crypto::{KeySource, Role};
use psmc_wire::datagram::Header;
use psmc_wire::hop::{HopChallenge, HopHeader, INNER};
use psmc_wire::ids::KeyBytes;
use psmc_wire::{BufPool, PacketBuf, PathId, probe};
use rand_core::SeedableRng;
use rand_pcg::Pcg64Mcg;
use thiserror::Error;

use crate::batch::{Batch, PathAddress, SocketId, Transmit};
use crate::classify::{self, Classes};
use crate::conditioners::{ConditionerStatus, Conditioners};
use crate::config::{PeerConfig, SiteConfig};
use crate::event::Event;
use crate::flows::{FlowConfig, FlowRecord, Flows};
use crate::ids::{ConnectionId, PeerId};
use crate::probes::Probes;
use crate::routing::Standing;
use crate::samples::{Sampler, Samples};
use crate::session::{DatagramOrigin, PathError, PeerHandle, Refusal, Session, SilentPath};
use crate::shared::Shared;
use crate::status::{PeerStatus, RefusalCounters};
use crate::tap::{Tap, TapConfig, Tapped};

/// Free packet buffers kept for reuse: as many as a queue and a round trip of a fast path hold.
const MAX_FREE_BUFFERS: usize = 16 * 1024;

/// Room for a packet in a buffer beyond the MTU, so that a device may read a little more than it should.
const BUFFER_SLACK: usize = 64;

/// What a driver must not ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PeerError {
    /// The peer was never added, or has been removed.
    #[error("there is no such peer")]
    Unknown,
    /// A prefix belongs to another peer.
    #[error("{0} belongs to another peer of the same priority already")]
    PrefixTaken(ipnet::IpNet),
    /// A path could not be added or changed.
    #[error(transparent)]
    Path(#[from] PathError),
}

/// The engine of a site.
///
/// It does no I/O and reads no clock: a driver tells it what has happened, with the time at which it did, and
/// carries out what it asks for. After any call of a `handle_*` method, and after adding or changing anything, be it by
/// the handles of [`peer`](Self::peer) and [`path`](PeerHandle::path):
///
/// 1. [`poll_packet`](Self::poll_packet) until `None`: deliver these inner packets, give the buffers back with
///    [`recycle`](Self::recycle);
/// 2. [`poll_transmit`](Self::poll_transmit) until `None`: send these batches;
/// 3. [`poll_message`](Self::poll_message) and [`poll_event`](Self::poll_event) until `None`;
/// 4. [`poll_timeout`](Self::poll_timeout): call [`handle_timeout`](Self::handle_timeout) at that time.
///
/// Many `handle_*` calls may come before one round of polls; that is what makes batches. Polling too often is
/// harmless, and so is a timeout that comes early or twice. Time must not run backwards between calls; if it
/// does, nothing worse happens than that things are done late.
///
/// The [front page](crate#two-sites-in-memory) has a driver of two sites.
pub struct Site {
    peers: BTreeMap<PeerId, Session>,
    connections: BTreeMap<ConnectionId, PeerId>,
    shared: Shared,
    refusals: RefusalCounters,
    next_peer: u32,
    /// Sessions that may have something to send.
    busy: BTreeSet<PeerId>,
    timeouts: BTreeSet<(Instant, PeerId)>,
    timeout_of: BTreeMap<PeerId, Instant>,
}

impl Site {
    /// A site without peers.
    #[must_use]
    pub fn new(config: SiteConfig) -> Self {
        // Labels travel in the clear and tell about their generator: the key of the flows must not depend on it.
        let (for_rng, flow_key) = halves(config.seed);
        let rng = Pcg64Mcg::from_seed(for_rng);
        let classes = Classes::new(config.classes);
        let shared = Shared {
            name: config.name,
            software: config.software,
            mtu: config.mtu,
            hidden: config.hidden,
            relays: BTreeMap::new(),
            aead: config.aead,
            key_limits: config.key_limits,
            conditioners: Conditioners::new(classes.list(), flow_key[0] ^ flow_key[1].rotate_left(32)),
            classes,
            clamp_mss: config.clamp_mss,
            police: None,
            flow_key,
            secrets: 0,
            rng,
            pool: BufPool::new(usize::from(config.mtu) + BUFFER_SLACK, MAX_FREE_BUFFERS),
            delivered: std::collections::VecDeque::new(),
            events: std::collections::VecDeque::new(),
            messages: std::collections::VecDeque::new(),
            routes: crate::routing::AllowedIps::new(config.broadcasts),
            labels: BTreeMap::new(),
            probes: Probes::default(),
            tap: None,
            flows: None,
            sampler: None,
            losses: Vec::new(),
        };
        Self {
            peers: BTreeMap::new(),
            connections: BTreeMap::new(),
            shared,
            refusals: RefusalCounters::default(),
            next_peer: 0,
            busy: BTreeSet::new(),
            timeouts: BTreeSet::new(),
            timeout_of: BTreeMap::new(),
        }
    }

    /// Adds a peer. It is dialled as soon as its endpoint is known; data flows once it has a path.
    ///
    /// # Errors
    /// [`PeerError::PrefixTaken`] if one of its prefixes belongs to another peer of the same priority; nothing is added then.
    pub fn add_peer(&mut self, config: PeerConfig, now: Instant) -> Result<PeerId, PeerError> {
        let peer = PeerId(self.next_peer);
        self.shared.routes.set_standing(peer, Standing::Down);
        for &prefix in &config.allowed_ips {
            if self.shared.routes.claim(prefix, config.gateway.priority, peer).is_err() {
                self.shared.routes.release_all(peer);
                return Err(PeerError::PrefixTaken(prefix));
            }
        }
        self.next_peer += 1;
        let session = Session::new(peer, config, &mut self.shared, now);
        self.peers.insert(peer, session);
        self.busy.insert(peer);
        Ok(peer)
    }

    /// Removes a peer with all that belongs to it, after telling it so.
    pub fn remove_peer(&mut self, peer: PeerId) {
        let Some(mut session) = self.peers.remove(&peer) else {
            return;
        };
        session.close(&mut self.shared);
        if let Some(flows) = &mut self.shared.flows {
            flows.end(Some(peer));
        }
        self.shared.probes.forget(peer);
        self.shared.routes.release_all(peer);
        self.connections.retain(|_, owner| *owner != peer);
        self.set_timeout(peer, None);
        self.busy.remove(&peer);
    }

    /// A peer, to be changed. Whatever it has to send because of that is polled next.
    ///
    /// # Errors
    /// [`PeerError::Unknown`] if there is no such peer.
    pub fn peer(&mut self, peer: PeerId) -> Result<PeerHandle<'_>, PeerError> {
        let session = self.peers.get_mut(&peer).ok_or(PeerError::Unknown)?;
        self.busy.insert(peer);
        Ok(PeerHandle::new(session, &mut self.shared))
    }

    /// Says that this site has registered with a relay as a gateway, and where that takes its datagrams. To be called again
    /// when that place is another one. Paths that peers lead through this relay are answered there from then on.
    pub fn register_relay(&mut self, relay: KeyBytes, address: PathAddress, now: Instant) {
        self.shared.relays.insert(relay, address);
        for (&peer, session) in &mut self.peers {
            session.on_registered(relay, address, &mut self.shared, now);
            self.busy.insert(peer);
        }
    }

    /// Says that this site has left a relay at which it was a gateway. Paths through it go on as long as it leads them.
    pub fn leave_relay(&mut self, relay: KeyBytes) {
        self.shared.relays.remove(&relay);
    }

    /// What a path is called, and where it leads.
    #[must_use]
    pub fn path_label(&self, peer: PeerId, path: PathId) -> Option<(&str, SocketAddr)> {
        let paths = self.peers.get(&peer)?.paths();
        let path = paths.iter().find(|other| other.id == path)?;
        Some((&path.config.name, path.address.remote))
    }

    /// The network interface under a socket went down or came up.
    pub fn handle_link(&mut self, socket: SocketId, up: bool, now: Instant) {
        for (&peer, session) in &mut self.peers {
            session.on_link(socket, up, &mut self.shared, now);
            self.busy.insert(peer);
        }
    }

    /// The datagrams of a batch, or those of `segment_size` bytes, were larger than the interface takes (`EMSGSIZE`).
    pub fn handle_refused(&mut self, transmit: &Transmit, now: Instant) {
        for (&peer, session) in &mut self.peers {
            session.on_refused(transmit, now);
            self.busy.insert(peer);
        }
    }

    /// A batch could not leave from the address from which it should: that is none of this machine's any more. What follows
    /// leaves from whatever address leads to the peer, until the peer is heard at another one.
    pub fn handle_source_gone(&mut self, transmit: &Transmit) {
        for (&peer, session) in &mut self.peers {
            session.on_source_gone(transmit);
            self.busy.insert(peer);
        }
    }

    /// An address of this machine is gone. Peers that have called there are told where they are answered from.
    pub fn handle_address_gone(&mut self, gone: IpAddr, now: Instant) {
        for (&peer, session) in &mut self.peers {
            session.on_address_gone(gone, now);
            self.busy.insert(peer);
        }
    }

    /// The addresses of this machine at which peers call on the paths that they have opened.
    #[must_use]
    pub fn called_addresses(&self) -> BTreeSet<IpAddr> {
        self.peers.values().flat_map(Session::called_addresses).collect()
    }

    /// The paths that this site has opened and that do not answer, though their links are up and nothing else is waited for.
    #[must_use]
    pub fn silent_paths(&self) -> Vec<SilentPath> {
        self.peers.values().flat_map(Session::silent_paths).collect()
    }

    /// Keeps copies of inner packets as they pass, for whoever [takes](Self::take_tapped) them; no more with `None`. Those that
    /// wait are forgotten.
    pub fn set_tap(&mut self, tap: Option<TapConfig>) {
        self.shared.tap = tap.map(|config| Box::new(Tap::new(config)));
    }

    /// The inner packets that have passed since this was last asked, oldest first, and how many more have, for which there was no
    /// room. A packet that is sent again, or twice, passes each time.
    pub fn take_tapped(&mut self) -> (Vec<Tapped>, u64) {
        self.shared.tap.as_mut().map(|tap| tap.take()).unwrap_or_default()
    }

    /// Counts what each flow carries, for whoever [takes](Self::take_flows) the records; no more with `None`: what is not taken by
    /// then is forgotten. Flows that are known already go on.
    pub fn set_flows(&mut self, config: Option<FlowConfig>) {
        match (config, &mut self.shared.flows) {
            (Some(config), Some(flows)) => flows.set_config(config),
            (config, flows) => {
                *flows = config.map(|config| Box::new(Flows::new(config, &self.shared.classes)));
            }
        }
    }

    /// The records of flows that have ended, or have lasted for the active timeout; to be asked for about ten times a second. Those
    /// that do not come at once come the next time; after the last ones there are none.
    ///
    /// All records of a peer together have the bytes and packets of its [`SessionCounters`](crate::SessionCounters), from
    /// [`set_flows`](Self::set_flows) on and once all its flows have ended.
    pub fn take_flows(&mut self, now: Instant) -> Vec<FlowRecord> {
        self.shared.flows.as_mut().map(|flows| flows.take(now)).unwrap_or_default()
    }

    /// Ends all flows, so that their records can be taken.
    pub fn end_flows(&mut self) {
        if let Some(flows) = &mut self.shared.flows {
            flows.end(None);
        }
    }

    /// Keeps samples of the inner packets that pass, for whoever [takes](Self::take_samples) them, or no more. They cost nothing while
    /// they are not kept, and little while they are: of many packets few are looked at.
    pub fn set_sampling(&mut self, on: bool) {
        self.shared.sampler =
            on.then(|| self.shared.sampler.take().unwrap_or_else(|| Box::new(Sampler::new())));
    }

    /// The samples since this was last asked; none while none are kept. To be asked at least four times a second.
    pub fn take_samples(&mut self) -> Samples {
        self.shared.sampler.as_mut().map(|sampler| sampler.take()).unwrap_or_default()
    }

    /// The peer to which an address in the tunnel belongs.
    #[must_use]
    pub fn owner_of(&self, address: IpAddr) -> Option<PeerId> {
        self.shared.routes.lookup(address)
    }

    /// The networks of a peer that another one has at present, because that works, or comes first.
    #[must_use]
    pub fn waits_for(&self, peer: PeerId) -> Vec<IpNet> {
        self.shared.routes.waits_for(peer)
    }

    /// Where the datagrams of a path go at the moment.
    #[must_use]
    pub fn path_address(&self, peer: PeerId, path: PathId) -> Option<PathAddress> {
        self.peers.get(&peer)?.path_address(path)
    }

    /// The network says (ICMP) that it has not delivered a datagram to `remote`, of which `front` is the front: somebody on the
    /// way has no way there, or nobody takes it there any more. That is believed as far as silence would be, if the datagram is
    /// one that was really sent; it costs a forger nothing to say so, and the path a round trip, once a second at most.
    pub fn handle_undelivered(&mut self, remote: SocketAddr, front: &[u8], now: Instant) {
        let datagram = if HopHeader::parse(front).is_ok() { &front[INNER] } else { front };
        let Ok(header) = Header::parse(datagram) else { return };
        let mut sessions = self.peers.iter_mut();
        let Some((&peer, session)) = sessions.find(|(_, session)| session.is_labelled(header.label)) else {
            return;
        };
        session.on_undelivered(remote, &header, &mut self.shared, now);
        self.busy.insert(peer);
    }

    /// A control connection to a peer is up: dialled by this site because of an [`Event::Dial`], or accepted.
    ///
    /// # Errors
    /// [`PeerError::Unknown`] if there is no such peer: the connection should be ended.
    pub fn handle_connected(
        &mut self,
        peer: PeerId,
        connection: ConnectionId,
        role: Role,
        keys: Box<dyn KeySource>,
        now: Instant,
    ) -> Result<(), PeerError> {
        let session = self.peers.get_mut(&peer).ok_or(PeerError::Unknown)?;
        session.handle_connected(connection, role, keys, &mut self.shared, now);
        self.busy.insert(peer);
        self.connections.insert(connection, peer);
        Ok(())
    }

    /// A message has arrived on a control connection.
    pub fn handle_message(&mut self, connection: ConnectionId, message: Message, now: Instant) {
        let peer = self.connections.get(&connection).copied();
        let Some((peer, session)) = peer.and_then(|peer| Some((peer, self.peers.get_mut(&peer)?))) else {
            return self.refuse(Refusal::OutOfTurn, None);
        };
        if let Err(refusal) = session.handle_message(connection, message, &mut self.shared, now) {
            self.refuse(refusal, None);
        }
        self.busy.insert(peer);
    }

    /// A control connection has ended, for whatever reason.
    pub fn handle_disconnected(&mut self, connection: ConnectionId, now: Instant) {
        let Some(peer) = self.connections.remove(&connection) else {
            return;
        };
        if let Some(session) = self.peers.get_mut(&peer) {
            session.handle_disconnected(connection, &mut self.shared, now);
            self.busy.insert(peer);
        }
    }

    /// An [`Event::Dial`] has led to nothing.
    pub fn handle_dial_failed(&mut self, peer: PeerId, now: Instant) {
        if let Some(session) = self.peers.get_mut(&peer) {
            session.handle_dial_failed(now);
            self.busy.insert(peer);
        }
    }

    /// An inner packet has been read from the TUN device.
    pub fn handle_packet(&mut self, packet: PacketBuf, now: Instant) {
        let headers = match classify::classify(packet.packet(), self.shared.flow_key) {
            Ok(headers) => headers,
            Err(_) => return self.refuse(Refusal::BadPacket, Some(packet)),
        };
        let peer = self.shared.routes.lookup_destination(headers.destination);
        let Some((peer, session)) = peer.and_then(|peer| Some((peer, self.peers.get_mut(&peer)?))) else {
            return self.refuse(Refusal::NoRoute, Some(packet));
        };
        session.handle_packet(packet, &headers, &mut self.shared, now);
        self.busy.insert(peer);
    }

    /// A datagram has arrived. It is opened in place: its bytes are garbage afterwards.
    pub fn handle_datagram(&mut self, datagram: &mut [u8], origin: &DatagramOrigin, now: Instant) {
        let header = match Header::parse(datagram) {
            Ok(header) => header,
            Err(_) => return self.handle_other(datagram, origin, now),
        };
        let peer = self.shared.labels.get(&header.label).copied();
        let Some((peer, session)) = peer.and_then(|peer| Some((peer, self.peers.get_mut(&peer)?))) else {
            return self.refuse(Refusal::UnknownLabel, None);
        };
        let result = session.handle_datagram(&header, datagram, origin, &mut self.shared, now);
        if !result.is_err_and(Refusal::is_of_strangers) {
            self.busy.insert(peer);
        }
        if let Err(refusal) = result {
            self.refuse(refusal, None);
        }
    }

    /// A datagram that is sealed by nobody has arrived: a relay's challenge, a peer's question about a NAT, or nothing. A hidden site
    /// knows of no questions.
    fn handle_other(&mut self, datagram: &[u8], origin: &DatagramOrigin, now: Instant) {
        if let Ok(challenge) = HopChallenge::parse(datagram) {
            let peer = self.shared.labels.get(&challenge.label).copied();
            let session = peer.and_then(|peer| Some((peer, self.peers.get_mut(&peer)?)));
            let Some((peer, session)) = session else { return self.refuse(Refusal::UnknownLabel, None) };
            match session.handle_hop_challenge(&challenge, datagram, origin, &self.shared) {
                Ok(()) => drop(self.busy.insert(peer)),
                Err(refusal) => self.refuse(refusal, None),
            }
            return;
        }
        let Ok(token) = probe::question_token(datagram) else { return self.refuse(Refusal::Malformed, None) };
        let DatagramOrigin { socket, local_ip, remote, .. } = *origin;
        if !self.shared.probes.on_question(token, PathAddress { socket, local_ip, remote }, now) {
            self.refuse(Refusal::UnknownLabel, None);
        }
    }

    /// The machine was suspended for so long, which the clock does not show: keys have grown older meanwhile, here as at the peers.
    pub fn note_suspended(&mut self, time: Duration) {
        for (peer, session) in &mut self.peers {
            session.note_suspended(time);
            self.busy.insert(*peer);
        }
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Instant) {
        while let Some(&(at, peer)) = self.timeouts.first()
            && at <= now
        {
            self.set_timeout(peer, None);
            if let Some(session) = self.peers.get_mut(&peer) {
                session.handle_timeout(&mut self.shared, now);
                self.busy.insert(peer);
            }
        }
        for (towards, entry) in std::mem::take(&mut self.shared.losses) {
            let others = self.peers.iter_mut().filter(|(peer, _)| **peer != towards);
            let told = others
                .filter_map(|(peer, session)| session.note_lost_elsewhere(&entry, now).then_some(*peer));
            self.busy.extend(told);
        }
    }

    /// The next inner packet to deliver.
    pub fn poll_packet(&mut self) -> Option<PacketBuf> {
        self.shared.delivered.pop_front()
    }

    /// Fills `batch` with datagrams of one path that should be sent now.
    pub fn poll_transmit(&mut self, batch: &mut Batch, now: Instant) -> Option<Transmit> {
        if let Some(answer) = self.shared.probes.poll(batch) {
            return Some(answer);
        }
        while let Some(&peer) = self.busy.first() {
            let Some(session) = self.peers.get_mut(&peer) else {
                self.busy.remove(&peer);
                continue;
            };
            if let Some(transmit) = session.poll_transmit(batch, &mut self.shared, now) {
                return Some(transmit);
            }
            session.tend_standing(&mut self.shared, now);
            let timeout = session.next_timeout(now);
            self.busy.remove(&peer);
            self.set_timeout(peer, timeout);
        }
        None
    }

    /// The next message to write to a control connection.
    pub fn poll_message(&mut self) -> Option<(ConnectionId, Message)> {
        self.shared.messages.pop_front()
    }

    /// The next event.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.shared.events.pop_front()
    }

    /// When [`handle_timeout`](Self::handle_timeout) should be called. Valid once
    /// [`poll_transmit`](Self::poll_transmit) has said `None`.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.timeouts.first().map(|&(at, _)| at)
    }

    /// The pool from which packets for [`handle_packet`](Self::handle_packet) should come.
    pub fn pool(&mut self) -> &mut BufPool {
        &mut self.shared.pool
    }

    /// Gives back a buffer from [`poll_packet`](Self::poll_packet).
    pub fn recycle(&mut self, packet: PacketBuf) {
        self.shared.pool.put(packet);
    }

    /// What was refused so far, of all peers and of nobody.
    #[must_use]
    pub fn refusals(&self) -> &RefusalCounters {
        &self.refusals
    }

    /// The largest inner packet, in bytes, that every path of every peer carries in one piece which may carry data, as far
    /// as is known. `None` without such paths.
    #[must_use]
    pub fn least_room(&self) -> Option<usize> {
        self.peers.values().filter_map(Session::least_room).min()
    }

    /// What the conditioners of the classes have done, of packets to all peers.
    #[must_use]
    pub fn conditioners(&self) -> Vec<ConditionerStatus> {
        self.shared.conditioners.status()
    }

    /// The present state of a peer.
    #[must_use]
    pub fn status(&self, peer: PeerId) -> Option<PeerStatus> {
        self.peers.get(&peer).map(Session::status)
    }

    fn refuse(&mut self, refusal: Refusal, packet: Option<PacketBuf>) {
        self.refusals.count(refusal);
        if let Some(packet) = packet {
            self.shared.pool.put(packet);
        }
    }

    fn set_timeout(&mut self, peer: PeerId, timeout: Option<Instant>) {
        let old = match timeout {
            Some(at) => self.timeout_of.insert(peer, at),
            None => self.timeout_of.remove(&peer),
        };
        if old == timeout {
            return;
        }
        if let Some(old) = old {
            self.timeouts.remove(&(old, peer));
        }
        if let Some(at) = timeout {
            self.timeouts.insert((at, peer));
        }
    }
}

/// Two secrets that know nothing of each other.
fn halves(seed: [u8; 32]) -> ([u8; 16], [u64; 2]) {
    let word = |from: usize| u64::from_be_bytes(std::array::from_fn(|i| seed[from + i]));
    (std::array::from_fn(|i| seed[i]), [word(16), word(24)])
}

impl std::fmt::Debug for Site {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Site").field("peers", &self.peers.len()).finish_non_exhaustive()
    }
}
