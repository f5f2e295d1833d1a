//! TCP connections of all hosts.

mod congestion;
mod notification;
mod segment;
mod sender;
mod tcp;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

pub use congestion::CongestionControl;
pub(crate) use tcp::{Birth, Settings, Tcp, refusal};

use crate::agenda::Agenda;
use crate::network::Network;
use crate::packet::Packet;
use crate::world::{HostId, LinkId, SiteId, TrafficId};

/// The first port for connections that nobody gave one (RFC 6335 §6).
const FIRST_EPHEMERAL: u16 = 49152;

/// An end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct StreamId(u64);

/// Whose connection it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    Site(SiteId),
    Traffic(TrafficId),
}

/// Something has happened to a connection: its owner should look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Changed {
    pub(crate) owner: Owner,
    pub(crate) stream: StreamId,
}

type Addresses = (HostId, SocketAddr, SocketAddr);

struct Stream {
    tcp: Tcp,
    addresses: Addresses,
    /// Nobody looks at it any more once its owner has let go.
    owner: Option<Owner>,
    bound: Option<LinkId>,
    announced: bool,
}

/// All connections, and who waits for some.
///
/// What a call sends goes to the network at once. After every call: [`poll_changed`](Self::poll_changed) until `None`.
pub(crate) struct Transport {
    streams: BTreeMap<StreamId, Stream>,
    by_addresses: BTreeMap<Addresses, StreamId>,
    listeners: BTreeMap<(HostId, u16), (Owner, Settings)>,
    agenda: Agenda<StreamId>,
    changed: VecDeque<StreamId>,
    next_stream: u64,
    next_port: BTreeMap<HostId, u16>,
    rng: Pcg64Mcg,
    origin: Instant,
}

impl Transport {
    /// Without connections.
    pub(crate) fn new(seed: u64, origin: Instant) -> Self {
        Self {
            streams: BTreeMap::new(),
            by_addresses: BTreeMap::new(),
            listeners: BTreeMap::new(),
            agenda: Agenda::default(),
            changed: VecDeque::new(),
            next_stream: 0,
            next_port: BTreeMap::new(),
            rng: Pcg64Mcg::seed_from_u64(seed),
            origin,
        }
    }

    /// Takes connections at a port of a host from here on.
    pub(crate) fn listen(&mut self, host: HostId, port: u16, owner: Owner, settings: Settings) {
        self.listeners.insert((host, port), (owner, settings));
    }

    /// Ends everything of an owner, as the kernel does with the sockets of a program that is killed.
    pub(crate) fn end_all(&mut self, owner: Owner, network: &mut Network, now: Instant) {
        self.listeners.retain(|_, (other, _)| *other != owner);
        let of_owner = |(&id, stream): (&StreamId, &Stream)| (stream.owner == Some(owner)).then_some(id);
        let streams: Vec<_> = self.streams.iter().filter_map(of_owner).collect();
        for stream in streams {
            self.abort(stream, network, now);
        }
    }

    /// Opens a connection, by a certain link if it is bound to one; `None` if there is no way.
    pub(crate) fn connect(
        &mut self,
        owner: Owner,
        route: &Route,
        settings: Settings,
        network: &mut Network,
        now: Instant,
    ) -> Option<StreamId> {
        let Route { host, remote, bound, .. } = *route;
        let ip = route.local.or_else(|| network.source(host, remote.ip(), bound))?;
        let settings = settings.fitted(network.mtu(host, remote.ip(), bound)?);
        let local = SocketAddr::new(ip, self.free_port(host, ip, remote)?);
        let tcp = Tcp::connect(local, remote, settings, self.birth(), now);
        let id = self.insert(Stream {
            tcp,
            addresses: (host, local, remote),
            owner: Some(owner),
            bound,
            announced: false,
        });
        self.after_call(id, network, now);
        Some(id)
    }

    /// A packet has arrived at its host.
    pub(crate) fn handle_packet(
        &mut self,
        host: HostId,
        packet: Packet,
        network: &mut Network,
        now: Instant,
    ) {
        let (local, remote) = (packet.to(), packet.from());
        let addresses = (host, local, remote);
        let known = self.by_addresses.get(&addresses).copied();
        let Some(id) = known.or_else(|| self.accept(addresses, network, now)) else {
            let refusal = refusal(packet.into_bytes(), local, now).and_then(Packet::from_bytes);
            return refusal.map_or((), |refusal| network.send(host, refusal, None, now));
        };
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.tcp.handle_packet(packet.into_bytes(), now);
        }
        self.after_call(id, network, now);
    }

    /// Sends bytes.
    pub(crate) fn write(&mut self, id: StreamId, bytes: &[u8], network: &mut Network, now: Instant) {
        self.with(id, network, now, |tcp| tcp.write(bytes, now));
    }

    /// Sends so many bytes that mean nothing.
    pub(crate) fn fill(&mut self, id: StreamId, count: u64, network: &mut Network, now: Instant) {
        self.with(id, network, now, |tcp| tcp.fill(count, now));
    }

    /// Ends the sending half of a connection once everything is sent; its owner still sees what becomes of it.
    pub(crate) fn finish(&mut self, id: StreamId, network: &mut Network, now: Instant) {
        self.with(id, network, now, |tcp| tcp.close(now));
    }

    /// Lets go of a connection, which ends once everything is sent.
    pub(crate) fn close(&mut self, id: StreamId, network: &mut Network, now: Instant) {
        self.disown(id);
        self.with(id, network, now, |tcp| tcp.close(now));
    }

    /// Lets go of a connection, which ends at once.
    pub(crate) fn abort(&mut self, id: StreamId, network: &mut Network, now: Instant) {
        self.disown(id);
        self.with(id, network, now, |tcp| tcp.abort(now));
    }

    /// The end of a connection, as it is.
    pub(crate) fn get(&self, id: StreamId) -> Option<&Tcp> {
        self.streams.get(&id).map(|stream| &stream.tcp)
    }

    /// The other end of a connection, which is at this host, unless something between them translates addresses.
    pub(crate) fn other_end(&self, id: StreamId, host: HostId) -> Option<StreamId> {
        let (_, local, remote) = self.streams.get(&id)?.addresses;
        self.by_addresses.get(&(host, remote, local)).copied()
    }

    /// What has arrived on a connection since it was last taken.
    pub(crate) fn take_received(&mut self, id: StreamId) -> Vec<u8> {
        self.streams.get_mut(&id).map(|stream| stream.tcp.take_received()).unwrap_or_default()
    }

    /// Does what is due.
    pub(crate) fn handle_timeout(&mut self, network: &mut Network, now: Instant) {
        while let Some(id) = self.agenda.pop(now) {
            self.with(id, network, now, |tcp| tcp.handle_timeout(now));
        }
    }

    /// The next connection to which something has happened.
    pub(crate) fn poll_changed(&mut self) -> Option<Changed> {
        loop {
            let stream = self.changed.pop_front()?;
            if let Some(entry) = self.streams.get_mut(&stream) {
                entry.announced = false;
                if let Some(owner) = entry.owner {
                    return Some(Changed { owner, stream });
                }
            }
        }
    }

    /// When there is something to do.
    pub(crate) fn poll_timeout(&self) -> Option<Instant> {
        self.agenda.next()
    }

    fn accept(&mut self, addresses: Addresses, network: &Network, now: Instant) -> Option<StreamId> {
        let (host, local, remote) = addresses;
        let &(owner, settings) = self.listeners.get(&(host, local.port()))?;
        let settings = settings.fitted(network.mtu(host, remote.ip(), None)?);
        let tcp = Tcp::accept(local, settings, self.birth(), now);
        Some(self.insert(Stream { tcp, addresses, owner: Some(owner), bound: None, announced: false }))
    }

    fn insert(&mut self, stream: Stream) -> StreamId {
        let id = StreamId(self.next_stream);
        self.next_stream += 1;
        self.by_addresses.insert(stream.addresses, id);
        self.streams.insert(id, stream);
        id
    }

    fn disown(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id) {
            stream.owner = None;
        }
    }

    fn with(&mut self, id: StreamId, network: &mut Network, now: Instant, work: impl FnOnce(&mut Tcp)) {
        if let Some(stream) = self.streams.get_mut(&id) {
            work(&mut stream.tcp);
            self.after_call(id, network, now);
        }
    }

    /// Sends what an end has to send, and sees to it that it is looked at.
    fn after_call(&mut self, id: StreamId, network: &mut Network, now: Instant) {
        let Some(stream) = self.streams.get_mut(&id) else {
            return;
        };
        while let Some(packet) = stream.tcp.poll_transmit() {
            if let Some(packet) = Packet::from_bytes(packet) {
                network.send(stream.addresses.0, packet, stream.bound, now);
            }
        }
        if stream.owner.is_none() && stream.tcp.is_over() {
            let addresses = stream.addresses;
            self.by_addresses.remove(&addresses);
            self.streams.remove(&id);
            return self.agenda.set(id, None);
        }
        let timeout = stream.tcp.poll_timeout(now);
        if !std::mem::replace(&mut stream.announced, true) {
            self.changed.push_back(id);
        }
        self.agenda.set(id, timeout);
    }

    fn birth(&mut self) -> Birth {
        Birth { seed: self.rng.next_u64(), origin: self.origin }
    }

    fn free_port(&mut self, host: HostId, ip: IpAddr, remote: SocketAddr) -> Option<u16> {
        let next = self.next_port.entry(host).or_insert(FIRST_EPHEMERAL);
        let is_free =
            |port: &u16| !self.by_addresses.contains_key(&(host, SocketAddr::new(ip, *port), remote));
        let port = (*next..=u16::MAX).chain(FIRST_EPHEMERAL..*next).find(is_free)?;
        *next = port.checked_add(1).unwrap_or(FIRST_EPHEMERAL);
        Some(port)
    }
}

/// How a connection is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Route {
    /// From which host.
    pub(crate) host: HostId,
    /// From which of its addresses; the one that fits if `None`.
    pub(crate) local: Option<IpAddr>,
    /// Where to.
    pub(crate) remote: SocketAddr,
    /// By which link; the routes say which if `None`.
    pub(crate) bound: Option<LinkId>,
}
