//! The engine with a peer that has the keys, and sends whatever it likes: datagrams that are sealed as they should be, with
//! any frames, and any control messages. In between time passes, and hosts of this side send packets and use streams.
//!
//! The bytes are operations: a byte says which, and of which path; two say how many bytes follow for it.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_core::{
    Batch, ClampMss, ClassConfig, ConnectionId, DatagramOrigin, Direction, Event, Gateway, KeyLimits,
    PathConfig, PeerConfig, PeerId, ReorderPolicy, RepairKind, SchedulerKind, Site, SiteConfig, SocketId,
    StreamEvent, Tier,
};
use psmc_wire::PathId;
use psmc_wire::control::Message;
use psmc_wire::crypto::{
    Aead, AuthError, BadPublicKey, EXCHANGE_KEY_LEN, KeyExchange, KeySource, NONCE_LEN, PacketKey, Role,
    TAG_LEN,
};
use psmc_wire::datagram::{Header, TIMESTAMP_LEN};
use psmc_wire::frame::{StreamOpening, StreamOutcome};

/// What the peer sends.
pub fn engine(mut bytes: &[u8]) {
    let mut world = World::new();
    for _ in 0..MAX_OPERATIONS {
        let Some(([operation, high, low], rest)) = bytes.split_first_chunk() else { break };
        let length = usize::from(u16::from_be_bytes([*high, *low])).min(rest.len());
        let (argument, rest) = rest.split_at(length);
        bytes = rest;
        world.act(*operation, argument);
    }
    // Whatever has come, all that is due can be done.
    world.pass(Duration::from_secs(60));
}

/// A site, and a peer of which only the keys are left.
struct World {
    now: Instant,
    site: Site,
    peer: PeerId,
    /// The header of the last datagram that the peer has sent as it should.
    header: Header,
    /// The number of the next datagram of each path.
    numbers: [u32; PATHS],
    streams: Vec<psmc_wire::StreamId>,
}

impl World {
    /// Two sites come to know each other, with two paths between them; then one is forgotten.
    fn new() -> Self {
        let mut now = Instant::now();
        let mut sites = [0, 1].map(|end| Site::new(site_config(end)));
        let peers = [0, 1].map(|end| sites[end].add_peer(peer_config(end), now).expect("it is the only one"));
        for path in 0..2 {
            let mut peer = sites[VAN].peer(peers[VAN]).expect("it was added");
            peer.add_path(path_config(path), now).expect("there is room");
        }
        for (end, role) in [(VAN, Role::Dialer), (HQ, Role::Acceptor)] {
            let connected =
                sites[end].handle_connected(peers[end], CONNECTION, role, Box::new(OpenKeys), now);
            connected.expect("it was added");
        }
        let mut header = None;
        for _ in 0..20 {
            for end in [VAN, HQ] {
                let (mut batch, mut datagrams) = (Batch::new(64), Vec::new());
                while let Some(transmit) = sites[end].poll_transmit(&mut batch, now) {
                    let path = transmit.remote.port() - PORT;
                    let chunks = batch.contents().chunks(transmit.segment_size);
                    datagrams.extend(chunks.map(|datagram| (path, datagram.to_vec())));
                }
                while let Some((connection, message)) = sites[end].poll_message() {
                    sites[1 - end].handle_message(connection, message, now);
                }
                for (path, mut datagram) in datagrams {
                    if end == VAN {
                        header = Header::parse(&datagram).ok().or(header);
                    }
                    sites[1 - end].handle_datagram(&mut datagram, &origin(end, path), now);
                }
                while sites[end].poll_event().is_some() {}
                sites[end].handle_timeout(now);
            }
            now += Duration::from_millis(10);
        }
        let [_, site] = sites;
        let header = header.expect("the paths are validated");
        Self {
            now,
            site,
            peer: peers[HQ],
            header,
            numbers: [header.packet_number + 1; PATHS],
            streams: Vec::new(),
        }
    }

    fn act(&mut self, operation: u8, argument: &[u8]) {
        let path = usize::from(operation >> 4) % PATHS;
        match operation % 8 {
            0..=2 => self.datagram(path, argument),
            3 => {
                if let Ok(message) = Message::decode(argument) {
                    self.site.handle_message(CONNECTION, message, self.now);
                }
            }
            4 => {
                let time = argument.iter().fold(0_u64, |time, byte| time << 8 | u64::from(*byte));
                self.pass(Duration::from_micros(time % 5_000_000));
            }
            5 => {
                let mut packet = self.site.pool().take();
                packet.fill(&argument[..argument.len().min(MTU)]);
                self.site.handle_packet(packet, self.now);
            }
            6 => self.use_streams(argument),
            _ => self.open_stream(),
        }
        self.poll();
    }

    /// A datagram that only the peer can have sealed, whatever is in it.
    fn datagram(&mut self, path: usize, frames: &[u8]) {
        let number = &mut self.numbers[path];
        let header = Header {
            path: PathId(u16::try_from(path).expect("there are few")),
            packet_number: *number,
            ..self.header
        };
        *number = number.wrapping_add(1);
        let mut datagram = header.encode().to_vec();
        datagram.extend([0; TIMESTAMP_LEN]);
        datagram.extend_from_slice(&frames[..frames.len().min(MTU)]);
        datagram.extend([TAG; TAG_LEN]);
        let link = u16::try_from(path % 2).expect("there are two");
        self.site.handle_datagram(&mut datagram, &origin(VAN, link), self.now);
    }

    /// The connections that the peer has opened are answered, written to, read from and ended.
    fn use_streams(&mut self, argument: &[u8]) {
        let Some((how, text)) = argument.split_first() else { return };
        let Some(id) = self.streams.get(usize::from(how >> 4) % self.streams.len().max(1)).copied() else {
            return;
        };
        let Ok(peer) = self.site.peer(self.peer) else { return };
        let Ok(mut stream) = peer.stream(id) else { return };
        match how % 8 {
            0 => stream.answer(StreamOutcome::Open, self.now),
            1 => stream.answer(StreamOutcome::Refused, self.now),
            2 | 3 => {
                let length = text.len().min(stream.room()).min(stream.chunk());
                let mut buffer = stream.pool().take();
                buffer.fill(&text[..length]);
                stream.write(buffer, self.now);
            }
            4 => stream.finish(self.now),
            5 | 6 => {
                let waiting: usize = stream.chunks().map(<[u8]>::len).sum();
                stream.consume(waiting, self.now);
                let _ = stream.take_end();
            }
            _ => stream.reset(self.now),
        }
    }

    fn open_stream(&mut self) {
        let address = |text: &str| text.parse::<SocketAddr>().expect("an address");
        let opening =
            StreamOpening { client: address("10.77.0.2:4000"), server: address("10.77.0.1:80"), dscp: 0 };
        if let Ok(mut peer) = self.site.peer(self.peer)
            && let Ok(id) = peer.open_stream(opening, self.now)
        {
            self.streams.push(id);
        }
    }

    /// Time passes, from one thing that is due to the next one.
    fn pass(&mut self, time: Duration) {
        let end = self.now + time;
        for _ in 0..MAX_TIMEOUTS {
            self.poll();
            let Some(next) = self.site.poll_timeout().filter(|at| *at <= end) else { break };
            self.now = self.now.max(next);
            self.site.handle_timeout(self.now);
        }
        self.now = end;
        self.site.handle_timeout(end);
        self.poll();
    }

    /// Carries out what the site asks for; what it sends is lost.
    fn poll(&mut self) {
        while let Some(packet) = self.site.poll_packet() {
            assert!(
                packet.packet().len() <= MAX_PACKET,
                "{} bytes for the TUN device",
                packet.packet().len()
            );
            self.site.recycle(packet);
        }
        let mut batch = Batch::new(64);
        let mut sent = 0;
        while self.site.poll_transmit(&mut batch, self.now).is_some() {
            sent += batch.contents().len();
            assert!(sent < MAX_SENT, "it sends without an end");
        }
        while self.site.poll_message().is_some() {}
        while let Some(event) = self.site.poll_event() {
            if let Event::Stream { stream, event: StreamEvent::Opened(_), .. } = event {
                self.streams.push(stream);
            }
        }
    }
}

fn origin(from: usize, link: u16) -> DatagramOrigin {
    let socket = SocketId(if from == VAN { 0 } else { link.into() });
    DatagramOrigin { socket, local_ip: None, remote: address(from, link), ecn: psmc_wire::ip::Ecn::NotEct }
}

fn address(end: usize, link: u16) -> SocketAddr {
    SocketAddr::from(([[192, 0, 2, 1], [198, 51, 100, 1]][end], PORT + link))
}

fn site_config(end: usize) -> SiteConfig {
    SiteConfig {
        name: ["van", "hq"][end].to_owned(),
        software: String::new(),
        mtu: 1400,
        aead: Aead::Aes256Gcm,
        classes: ClassConfig::defaults(),
        clamp_mss: ClampMss::default(),
        hidden: false,
        broadcasts: Vec::new(),
        key_limits: KeyLimits::default(),
        seed: [[1; 32], [2; 32]][end],
    }
}

fn peer_config(end: usize) -> PeerConfig {
    PeerConfig {
        name: ["hq", "van"][end].to_owned(),
        allowed_ips: vec![["10.77.0.2/32", "10.77.0.1/32"][end].parse().expect("a network")],
        gateway: Gateway::default(),
        can_dial: end == VAN,
        smaller_key: end == VAN,
        scheduler: SchedulerKind::Earliest,
        bad_path_rule: false,
        reorder: ReorderPolicy::default(),
        ordered_udp: true,
        udp_rate_limit: None,
        repair: RepairKind::default(),
        split: true,
        keepalive: Duration::from_secs(10),
    }
}

fn path_config(link: u16) -> PathConfig {
    PathConfig {
        name: format!("path{link}"),
        socket: SocketId(link.into()),
        remote: address(HQ, link),
        weight: 1,
        tier: Tier::Primary,
        direction: Direction::Both,
        max_rate: None,
        mtu: 1500,
        congestion: psmc_core::CongestionConfig::default(),
    }
}

/// Keys that everybody has, so that the fuzzer can seal.
struct OpenKeys;

impl KeySource for OpenKeys {
    fn packet_key(&self, _: Aead, _: Role, _: u8) -> Box<dyn PacketKey> {
        Box::new(Self)
    }

    fn exchange(&self) -> Box<dyn KeyExchange> {
        Box::new(Self)
    }
}

impl KeyExchange for OpenKeys {
    fn public_key(&self) -> [u8; EXCHANGE_KEY_LEN] {
        [7; EXCHANGE_KEY_LEN]
    }

    fn keys(&self, _: Role, key: &[u8; EXCHANGE_KEY_LEN]) -> Result<Box<dyn KeySource>, BadPublicKey> {
        if key[0] == 0 { Err(BadPublicKey) } else { Ok(Box::new(Self)) }
    }
}

impl PacketKey for OpenKeys {
    fn seal(&self, _: [u8; NONCE_LEN], _: &[u8], _: &mut [u8]) -> [u8; TAG_LEN] {
        [TAG; TAG_LEN]
    }

    fn open(&self, _: [u8; NONCE_LEN], _: &[u8], sealed: &mut [u8]) -> Result<(), AuthError> {
        if sealed.ends_with(&[TAG; TAG_LEN]) { Ok(()) } else { Err(AuthError) }
    }
}

const VAN: usize = 0;
const HQ: usize = 1;

/// The port of link 0; link 1 has the next one.
const PORT: u16 = 5110;

const CONNECTION: ConnectionId = ConnectionId(1);

/// Paths of which there are datagrams: two that are there, and two that are not.
const PATHS: usize = 4;

/// A byte of what stands for the tag of a datagram.
const TAG: u8 = 7;

/// What a datagram, and a packet, hold.
const MTU: usize = 1400;

/// The longest IP packet.
const MAX_PACKET: usize = 65_535;

/// More than any answer to one thing is.
const MAX_SENT: usize = 64 << 20;

/// So that an execution ends.
const MAX_OPERATIONS: usize = 200;
const MAX_TIMEOUTS: usize = 2000;
