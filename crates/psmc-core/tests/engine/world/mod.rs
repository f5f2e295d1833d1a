//! Two sites and the links between them, in virtual time: deterministic, and as fast as the engine.

#![allow(
    dead_code,
    unreachable_pub,
    unused_imports,
    reason = "the benchmark that shares it uses another part"
)]
#![allow(clippy::cast_possible_truncation, reason = "worlds are small")]

pub mod crypto;
mod evil;
mod link;
mod refusal;
mod relay;

use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::{Duration, Instant};

use evil::Handed;
pub use evil::{Evil, Trick};
pub use link::{EcnTreatment, Link};
use psmc_core::{
    Batch, ClampMss, ClassConfig, CongestionConfig, ConnectionId, DatagramOrigin, Event, KeyLimits,
    PathConfig, PathHandle, PathState, PeerConfig, PeerError, PeerId, PeerStatus, ReorderPolicy, RepairKind,
    SchedulerKind, Site, SiteConfig, SocketId, Tier,
};
use psmc_wire::PathId;
use psmc_wire::control::{Capabilities, Message};
use psmc_wire::crypto::{Aead, Role};
use psmc_wire::ip::Ecn;
use refusal::Refusals;
pub use relay::Relays;

/// The end of the world that opens the paths and dials.
pub const VAN: usize = 0;
/// The other end.
pub const HQ: usize = 1;

/// The one socket of [`HQ`]; the sockets of [`VAN`] are numbered as the links.
pub const HQ_SOCKET: SocketId = SocketId(1000);

/// The most iterations in which time may stand still before the world is sure to spin.
const MAX_STANDSTILL: u32 = 1000;

/// A control connection: both ends, and what is on its way.
struct Connection {
    ends: [Option<ConnectionId>; 2],
    in_flight: VecDeque<(Instant, usize, Message)>,
}

/// What both sites are configured with.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    pub scheduler: SchedulerKind,
    /// Which of the ends knows where to dial the other one.
    pub can_dial: [bool; 2],
    /// The largest inner packet; the paths carry 100 bytes more, unless their interfaces are said to carry less.
    pub mtu: u16,
    /// What each end is told that plain UDP may have, bits per second.
    pub udp_rate_limits: [Option<u64>; 2],
    pub reorder: ReorderPolicy,
    pub ordered_udp: bool,
    pub bad_path_rule: bool,
    pub congestion: CongestionConfig,
    pub repair: RepairKind,
    pub clamp_mss: ClampMss,
    /// Whether the headquarters heed only what comes through relays.
    pub hq_is_hidden: bool,
    pub key_limits: KeyLimits,
    /// Whether the sites end TCP connections.
    pub split: bool,
    /// Whether the sites are of a release that knows of no exchange of keys within the session.
    pub without_exchange: bool,
}

impl From<SchedulerKind> for Setup {
    fn from(scheduler: SchedulerKind) -> Self {
        let reorder = ReorderPolicy::Deadline;
        let congestion = CongestionConfig::Model;
        let (ordered_udp, bad_path_rule) = (false, false);
        Self {
            scheduler,
            can_dial: [true, false],
            mtu: 1400,
            udp_rate_limits: [None; 2],
            reorder,
            ordered_udp,
            bad_path_rule,
            congestion,
            repair: RepairKind::Auto,
            clamp_mss: ClampMss::Auto,
            hq_is_hidden: false,
            key_limits: KeyLimits::default(),
            split: false,
            without_exchange: false,
        }
    }
}

pub struct End {
    pub site: Site,
    pub peer: PeerId,
    pub events: Vec<Event>,
    /// Inner packets delivered here: when, and which.
    pub delivered: Vec<(Instant, Vec<u8>)>,
    /// How often the engine asked for a dial.
    pub dials: u32,
    dial_at: Option<Instant>,
}

impl End {
    /// Its path of that id, to be changed.
    pub fn path(&mut self, id: PathId) -> PathHandle<'_> {
        self.site.peer(self.peer).expect("the peer exists").path(id).expect("the path exists")
    }
}

pub struct World {
    pub now: Instant,
    pub start: Instant,
    pub ends: [End; 2],
    pub links: Vec<Link>,
    /// The relays that stand in links.
    pub relays: Relays,
    /// What is said of datagrams that nobody takes.
    refusals: Refusals,
    /// What evil relays do, by the link that they stand in.
    pub evils: BTreeMap<usize, Evil>,
    /// Whether control connections can be made, and carry anything.
    pub control_up: bool,
    /// Whether the links carry nothing but control connections.
    pub udp_blocked: bool,
    /// The end that can't reach the other one with its dials.
    pub refuse_dials_of: Option<usize>,
    /// Rounds of work done so far: each is at least one event.
    pub iterations: u64,
    /// The last datagrams that an end has taken, the newest first: for replays.
    pub tapped: VecDeque<(usize, usize, Vec<u8>)>,
    /// What was said on control connections: when, by which end, and what.
    pub posted: Vec<(Instant, usize, Message)>,
    connections: Vec<Connection>,
    next_connection: u64,
    seed: u64,
    batch: Batch,
    setup: Setup,
    classes: Vec<ClassConfig>,
}

pub fn path_config(link: usize) -> PathConfig {
    PathConfig {
        name: format!("link{link}"),
        socket: SocketId(link as u32),
        remote: address(link, HQ),
        weight: 1,
        tier: Tier::Primary,
        direction: psmc_core::Direction::Both,
        max_rate: None,
        mtu: 1500,
        congestion: CongestionConfig::Model,
    }
}

/// The outer address of an end on a link.
/// What an end is told of the other one.
pub fn peer_config(end: usize, setup: Setup) -> PeerConfig {
    PeerConfig {
        name: ["hq", "van"][end].to_owned(),
        allowed_ips: vec![format!("10.77.0.{}/32", end + 1).parse().expect("a prefix")],
        gateway: psmc_core::Gateway::default(),
        can_dial: setup.can_dial[end],
        smaller_key: end == VAN,
        scheduler: setup.scheduler,
        bad_path_rule: setup.bad_path_rule,
        reorder: setup.reorder,
        ordered_udp: setup.ordered_udp,
        udp_rate_limit: setup.udp_rate_limits[end],
        repair: setup.repair,
        split: setup.split,
        keepalive: Duration::from_secs(10),
    }
}

pub fn address(link: usize, end: usize) -> SocketAddr {
    let ip = Ipv4Addr::new(10, 1, link as u8, end as u8 + 1);
    SocketAddr::new(IpAddr::V4(ip), 5115)
}

impl World {
    pub fn new(links: Vec<Link>, setup: impl Into<Setup>) -> Self {
        Self::with_classes(links, setup, ClassConfig::defaults())
    }

    /// A world of two sites with these traffic classes.
    pub fn with_classes(links: Vec<Link>, setup: impl Into<Setup>, classes: Vec<ClassConfig>) -> Self {
        let (now, setup) = (Instant::now(), setup.into());
        let end = |index| Self::make_end(index, 1, setup, &classes, now);
        let mut world = Self {
            now,
            start: now,
            ends: [end(VAN), end(HQ)],
            links,
            relays: Relays::default(),
            refusals: Refusals::default(),
            evils: BTreeMap::new(),
            control_up: true,
            udp_blocked: false,
            refuse_dials_of: None,
            iterations: 0,
            tapped: VecDeque::new(),
            posted: Vec::new(),
            connections: Vec::new(),
            next_connection: 0,
            seed: 1,
            batch: Batch::new(64),
            setup,
            classes,
        };
        world.open_paths();
        world
    }

    /// A connected world: every path is active.
    pub fn connected(links: Vec<Link>, setup: impl Into<Setup>) -> Self {
        Self::connected_with(links, setup, ClassConfig::defaults())
    }

    /// A connected world of two sites with these traffic classes.
    pub fn connected_with(links: Vec<Link>, setup: impl Into<Setup>, classes: Vec<ClassConfig>) -> Self {
        let mut world = Self::with_classes(links, setup, classes);
        world.run_for(Duration::from_secs(1));
        world
    }

    fn make_end(index: usize, seed: u8, setup: Setup, classes: &[ClassConfig], now: Instant) -> End {
        let mut site = Site::new(SiteConfig {
            name: ["van", "hq"][index].to_owned(),
            software: format!("world 1.{index}"),
            mtu: setup.mtu,
            aead: Aead::Aes256Gcm,
            classes: classes.to_vec(),
            clamp_mss: setup.clamp_mss,
            hidden: setup.hq_is_hidden && index == HQ,
            broadcasts: Vec::new(),
            key_limits: setup.key_limits,
            seed: std::array::from_fn(|i| {
                if i == 0 { seed.wrapping_mul(2).wrapping_add(index as u8) } else { 0 }
            }),
        });
        let peer = site.add_peer(peer_config(index, setup), now).expect("free prefixes");
        End { site, peer, events: Vec::new(), delivered: Vec::new(), dials: 0, dial_at: None }
    }

    fn open_paths(&mut self) {
        for link in 0..self.links.len() {
            if !self.relays.stands_in(link) {
                self.add_path(path_config(link)).expect("room for a path");
            }
        }
    }

    /// Opens a path from the van, with the MTU of its interface and the congestion control of the world.
    pub fn add_path(&mut self, config: PathConfig) -> Result<PathId, PeerError> {
        let van = &mut self.ends[VAN];
        let Setup { mtu, congestion, .. } = self.setup;
        let mtu = self.links[config.socket.0 as usize].interface_mtu.unwrap_or(mtu + 100);
        let config = PathConfig { mtu, congestion, ..config };
        Ok(van.site.peer(van.peer)?.add_path(config, self.now)?)
    }

    /// Kills an end and starts it again from nothing.
    pub fn restart(&mut self, end: usize) {
        self.restart_silently(end);
        self.drop_connections();
    }

    /// Kills an end and starts it again from nothing; the other one is not told, its connections look alive.
    pub fn restart_silently(&mut self, end: usize) {
        self.seed += 1;
        let delivered = std::mem::take(&mut self.ends[end].delivered);
        self.ends[end] = Self::make_end(end, self.seed as u8, self.setup, &self.classes, self.now);
        self.ends[end].delivered = delivered;
        if end == VAN {
            self.open_paths();
        }
        for connection in &mut self.connections {
            connection.ends[end] = None;
        }
    }

    /// Breaks all control connections.
    pub fn drop_connections(&mut self) {
        for connection in std::mem::take(&mut self.connections) {
            for (end, id) in connection.ends.into_iter().enumerate() {
                if let Some(id) = id {
                    self.ends[end].site.handle_disconnected(id, self.now);
                }
            }
        }
    }

    pub fn send(&mut self, from: usize, packet: &[u8]) {
        let site = &mut self.ends[from].site;
        let mut buf = site.pool().take();
        buf.fill(packet);
        site.handle_packet(buf, self.now);
    }

    pub fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        self.run_until(end);
    }

    /// Lets everything happen that happens until `end`.
    pub fn run_until(&mut self, end: Instant) {
        self.settle();
        let mut standstill = 0;
        while let Some(at) = self.next_event().filter(|&at| at <= end) {
            standstill = if at <= self.now { standstill + 1 } else { 0 };
            assert!(standstill < MAX_STANDSTILL, "time stands still: a timeout makes no progress");
            self.iterations += 1;
            self.now = self.now.max(at);
            self.deliver_datagrams();
            self.deliver_refusals();
            self.deliver_messages();
            self.dial();
            for end in &mut self.ends {
                end.site.handle_timeout(self.now);
            }
            self.settle();
        }
        self.now = end;
        self.settle();
    }

    fn next_event(&self) -> Option<Instant> {
        let links = self.links.iter().filter_map(Link::next_arrival);
        let connections = self.connections.iter().filter(|_| self.control_delay().is_some());
        let messages = connections.filter_map(|c| c.in_flight.front().map(|(at, ..)| *at));
        let ends = self.ends.iter().flat_map(|end| [end.site.poll_timeout(), end.dial_at]).flatten();
        links.chain(messages).chain(ends).chain(self.refusals.next_arrival()).min()
    }

    fn deliver_datagrams(&mut self) {
        for link in 0..self.links.len() {
            while let Some((to, mut datagram, from_address, ecn)) = self.links[link].take_arrived(self.now) {
                let (copy, before) = (datagram.clone(), self.refused(to));
                self.inject_marked(link, to, &mut datagram, from_address, ecn);
                if self.refused(to) == before {
                    self.tapped.push_front((link, to, copy));
                    self.tapped.truncate(64);
                }
            }
        }
    }

    /// How much an end has refused.
    pub fn refused(&self, end: usize) -> u64 {
        self.ends[end].site.refusals().iter().map(|(_, count)| count).sum()
    }

    /// A datagram arrives at an end from that link, whoever sent it.
    pub fn inject(&mut self, link: usize, to: usize, datagram: &mut [u8], remote: SocketAddr) {
        self.inject_marked(link, to, datagram, remote, Ecn::NotEct);
    }

    fn inject_marked(&mut self, link: usize, to: usize, datagram: &mut [u8], remote: SocketAddr, ecn: Ecn) {
        let origin = DatagramOrigin {
            socket: if to == VAN { SocketId(link as u32) } else { HQ_SOCKET },
            local_ip: Some(address(link, to).ip()),
            remote,
            ecn,
        };
        self.ends[to].site.handle_datagram(datagram, &origin, self.now);
    }

    fn deliver_messages(&mut self) {
        if self.control_delay().is_none() {
            return;
        }
        for connection in &mut self.connections {
            while let Some((_, to, message)) = connection.in_flight.pop_front_if(|(at, ..)| *at <= self.now) {
                if let Some(id) = connection.ends[to] {
                    self.ends[to].site.handle_message(id, message, self.now);
                }
            }
        }
    }

    fn dial(&mut self) {
        for from in [VAN, HQ] {
            if self.ends[from].dial_at.take_if(|at| *at <= self.now).is_some() {
                self.connect(from);
            }
        }
    }

    /// The time that a control message takes, or `None` if no link carries it.
    fn control_delay(&self) -> Option<Duration> {
        let usable = self.links.iter().filter(|link| link.is_open() && self.control_up);
        usable.map(|link| link.delay).min()
    }

    fn connect(&mut self, from: usize) {
        let peer = self.ends[from].peer;
        if self.control_delay().is_none() || self.refuse_dials_of == Some(from) {
            return self.ends[from].site.handle_dial_failed(peer, self.now);
        }
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        for end in [VAN, HQ] {
            let role = if end == from { Role::Dialer } else { Role::Acceptor };
            let keys = Box::new(crypto::TestKeys { connection: self.next_connection });
            let peer = self.ends[end].peer;
            self.ends[end].site.handle_connected(peer, id, role, keys, self.now).expect("the peer exists");
        }
        self.connections.push(Connection { ends: [Some(id); 2], in_flight: VecDeque::new() });
    }

    /// Carries out what both engines ask for.
    pub fn settle(&mut self) {
        for end in [VAN, HQ] {
            self.transmit(end);
            while let Some(packet) = self.ends[end].site.poll_packet() {
                self.ends[end].delivered.push((self.now, packet.packet().to_vec()));
                self.ends[end].site.recycle(packet);
            }
            while let Some((id, message)) = self.ends[end].site.poll_message() {
                self.post(end, id, message);
            }
            while let Some(event) = self.ends[end].site.poll_event() {
                self.react(end, event);
            }
            self.transmit(end);
        }
    }

    fn transmit(&mut self, end: usize) {
        while let Some(transmit) = self.ends[end].site.poll_transmit(&mut self.batch, self.now) {
            let link = match transmit.socket {
                HQ_SOCKET => usize::from(octet(transmit.local_ip.expect("replies have a source"))),
                SocketId(link) => {
                    assert_eq!(transmit.local_ip, None, "a site that moves sends from where it is");
                    link as usize
                }
            };
            let SocketAddr::V4(to) = transmit.remote else { panic!("all addresses are IPv4") };
            assert_eq!(usize::from(to.ip().octets()[2]), link, "sent into the wrong link");
            let is_batch = transmit.segments > 1 && !transmit.apart;
            self.links[link].batches += u64::from(is_batch);
            if is_batch && self.links[link].loses_batches {
                continue;
            }
            let mut honest = Vec::new();
            let to = transmit.remote;
            for datagram in self.batch.contents().chunks(transmit.segment_size).filter(|_| !self.udp_blocked)
            {
                let delay = self.links[link].delay;
                if self.refusals.refuse(link, (end, to), datagram, self.now + delay) {
                    continue;
                }
                let relayed = self.relays.pass_on(link, end, datagram, self.now);
                let handed = relayed.map(|(datagram, address)| (1 - end, datagram, address));
                honest.extend(handed);
                honest.extend(std::iter::from_fn(|| self.relays.poll(link, self.now)));
            }
            for (to, datagram, address) in honest {
                self.hand(
                    Handed { link, from: 1 - to, datagram, address, late: Duration::ZERO },
                    transmit.ecn,
                );
            }
        }
    }

    /// Puts into a link what whoever stands in it makes of a datagram.
    fn hand(&mut self, honest: Handed, ecn: Ecn) {
        let handed = match self.evils.get_mut(&honest.link) {
            Some(evil) => evil.handle(honest, self.links.len()),
            None => vec![honest],
        };
        for Handed { link, from, datagram, address, late } in handed {
            self.links[link].send(from, &datagram, address, ecn, late, self.now);
        }
    }

    fn post(&mut self, from: usize, id: ConnectionId, mut message: Message) {
        if let Message::Hello(hello) = &mut message
            && self.setup.without_exchange
        {
            hello.capabilities = Capabilities::default();
        }
        // What can't be carried is carried later: a control connection loses nothing while it lasts.
        let at = self.now + self.control_delay().unwrap_or_default();
        self.posted.push((self.now, from, message.clone()));
        if let Some(connection) = self.connections.iter_mut().find(|c| c.ends[from] == Some(id)) {
            connection.in_flight.push_back((at, 1 - from, message));
        }
    }

    fn react(&mut self, end: usize, event: Event) {
        match event {
            Event::Dial(_) => {
                let delay = self.control_delay().unwrap_or_default();
                self.ends[end].dials += 1;
                self.ends[end].dial_at = Some(self.now + 2 * delay);
            }
            Event::Hangup(id) => {
                for connection in &mut self.connections {
                    if connection.ends[end] == Some(id) {
                        connection.ends[end] = None;
                        self.ends[end].site.handle_disconnected(id, self.now);
                    }
                }
            }
            Event::Connected { .. }
            | Event::Closed { .. }
            | Event::PathChanged { .. }
            | Event::PathOpened { .. }
            | Event::GatewayChanged { .. }
            | Event::KeysEnded { .. }
            | Event::PathForgotten { .. }
            | Event::HopWanted { .. }
            | Event::BatchesLost { .. }
            | Event::Measured { .. }
            | Event::Counts { .. }
            | Event::Stream { .. }
            | Event::PathMoved { .. } => {}
        }
        self.ends[end].events.push(event);
    }

    /// The number of the control connection made last: its keys follow from it.
    pub fn last_connection(&self) -> u64 {
        self.next_connection
    }

    /// Control connections that are up at either end.
    pub fn connections(&self) -> usize {
        self.connections.iter().filter(|connection| connection.ends != [None; 2]).count()
    }

    /// The control connection of an end that counts.
    pub fn connection_of(&self, end: usize) -> ConnectionId {
        self.connections.iter().rev().find_map(|connection| connection.ends[end]).expect("they are connected")
    }

    pub fn status(&self, end: usize) -> PeerStatus {
        self.ends[end].site.status(self.ends[end].peer).expect("the peer exists")
    }

    pub fn path_states(&self, end: usize) -> BTreeMap<String, PathState> {
        self.status(end).paths.into_iter().map(|path| (path.name, path.state)).collect()
    }

    /// The numbers of the packets that a site delivered, in the order of their delivery.
    pub fn numbers(&self, end: usize) -> Vec<u32> {
        self.ends[end].delivered.iter().map(|(_, packet)| number(packet)).collect()
    }

    /// The numbers of the packets of one flow that a site delivered.
    pub fn flow_numbers(&self, end: usize, flow: u16) -> Vec<u32> {
        let delivered = self.ends[end].delivered.iter();
        delivered.filter(|(_, packet)| packet[20..22] == flow.to_be_bytes()).map(|(_, p)| number(p)).collect()
    }

    /// What a site delivered, without the times.
    pub fn packets(&self, end: usize) -> Vec<Vec<u8>> {
        self.ends[end].delivered.iter().map(|(_, packet)| packet.clone()).collect()
    }
}

fn octet(ip: IpAddr) -> u8 {
    let IpAddr::V4(ip) = ip else { panic!("all addresses are IPv4") };
    ip.octets()[2]
}

/// An IPv4 packet from the van to headquarters or back, of `len` bytes, which carries its number. Its sender
/// understands ECN, so that the queue marks it where it would drop it: whatever is lost is lost by paths.
pub fn packet(from: usize, protocol: u8, flow: u16, number: u32, len: usize) -> Vec<u8> {
    let len = len.max(28);
    let mut packet = vec![0; len];
    packet[0] = 0x45;
    packet[1] = ECT_0;
    packet[2..4].copy_from_slice(&u16::try_from(len).expect("a short packet").to_be_bytes());
    packet[8] = 64;
    packet[9] = protocol;
    let [source, destination] = if from == VAN { [2, 1] } else { [1, 2] };
    packet[12..16].copy_from_slice(&[10, 77, 0, source]);
    packet[16..20].copy_from_slice(&[10, 77, 0, destination]);
    packet[20..22].copy_from_slice(&flow.to_be_bytes());
    packet[22..24].copy_from_slice(&[0x1f, 0x90]);
    packet[24..28].copy_from_slice(&number.to_be_bytes());
    packet
}

/// "ECN-capable transport" (RFC 3168 §5).
const ECT_0: u8 = 0b10;

/// Protocol numbers of flows that want order, and of those that don't.
pub const TCP: u8 = 6;
pub const UDP: u8 = 17;

/// The number that a packet carries.
pub fn number(packet: &[u8]) -> u32 {
    u32::from_be_bytes(packet[24..28].try_into().expect("four bytes"))
}
