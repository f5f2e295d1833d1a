//! Two sites with two links between them, in one thread and in virtual time.
//!
//! All that a driver has to do is here, short of sockets: what one engine wants to send, the other one is told a little
//! later. Run it with `cargo run -p psmc-core --example two_sites`.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use psmc_core::{Batch, ClampMss, ClassConfig, CongestionConfig, ConnectionId, DatagramOrigin, Event};
use psmc_core::{KeyLimits, PathConfig, PeerConfig, PeerId, ReorderPolicy, RepairKind, SchedulerKind};
use psmc_core::{Site, SiteConfig, SocketId, Tier};
use psmc_wire::crypto::{Aead, AuthError, BadPublicKey, EXCHANGE_KEY_LEN, KeyExchange, KeySource};
use psmc_wire::crypto::{NONCE_LEN, PacketKey, Role, TAG_LEN};

/// The two ends: the van opens the paths and dials, the headquarters wait for it.
const VAN: usize = 0;
const HQ: usize = 1;

/// How long a datagram takes on each of the links.
const DELAYS: [Duration; 2] = [Duration::from_millis(10), Duration::from_millis(14)];

/// Link 0 has this port at both ends, link 1 the next one.
const PORT: u16 = 5110;

/// Both engines, and what is between them.
struct World {
    now: Instant,
    sites: [(Site, PeerId); 2],
    /// What arrives at which end, by the time.
    in_flight: BTreeMap<Instant, Vec<(usize, Arrival)>>,
    /// How many inner packets have arrived.
    delivered: u32,
}

type Arrival = Box<dyn FnOnce(&mut Site, Instant)>;

fn main() {
    let mut world = World::new();
    // Within a second the van has dialled, both have keys, and the paths have answered.
    world.run_for(Duration::from_secs(1));
    for _ in 0..1000 {
        world.send_from_van();
        world.run_for(Duration::from_micros(200));
    }
    world.run_for(Duration::from_secs(1));

    let (hq, van) = &world.sites[HQ];
    for path in hq.status(*van).expect("it was added").paths {
        println!("{}: {} datagrams, {:?}", path.name, path.received.packets, path.state);
    }
    assert_eq!(world.delivered, 1000, "inner packets");
}

impl World {
    fn new() -> Self {
        // The only look at a clock: engines are told the time, and here it goes as fast as it can.
        let now = Instant::now();
        let mut sites = [VAN, HQ].map(|end| {
            let mut site = Site::new(site_config(end));
            let peer = site.add_peer(peer_config(end), now).expect("its networks are nobody else's");
            (site, peer)
        });
        // The van has a socket for each link. The headquarters have a single one, and answer where they are called.
        let (van, hq) = &mut sites[VAN];
        for (link, name) in [(0, "lte"), (1, "satellite")] {
            let (name, socket, remote) = (name.to_owned(), SocketId(link.into()), address(HQ, link));
            let (max_rate, congestion) = (None, CongestionConfig::default());
            let path = PathConfig {
                name,
                socket,
                remote,
                weight: 1,
                tier: Tier::Primary,
                direction: psmc_core::Direction::Both,
                max_rate,
                mtu: 1500,
                congestion,
            };
            let mut peer = van.peer(*hq).expect("it was added");
            peer.add_path(path, now).expect("there is room for many more");
        }
        Self { now, sites, in_flight: BTreeMap::new(), delivered: 0 }
    }

    /// An inner packet has come out of the van's TUN device: UDP over IPv4 from 10.77.0.1 to 10.77.0.2.
    fn send_from_van(&mut self) {
        let mut bytes = [0; 1200];
        bytes[..4].copy_from_slice(&[0x45, 0, 0x04, 0xb0]);
        bytes[8..10].copy_from_slice(&[64, 17]);
        bytes[12..20].copy_from_slice(&[10, 77, 0, 1, 10, 77, 0, 2]);
        let (van, _) = &mut self.sites[VAN];
        let mut packet = van.pool().take();
        packet.fill(&bytes);
        van.handle_packet(packet, self.now);
    }

    /// Lets time pass, from one thing that happens to the next one.
    fn run_for(&mut self, time: Duration) {
        let end = self.now + time;
        loop {
            // Whatever the engines have been told: now they are asked what they want.
            self.poll(VAN);
            self.poll(HQ);
            let arrival = self.in_flight.keys().next().copied();
            let timeouts = self.sites.iter().filter_map(|(site, _)| site.poll_timeout());
            let Some(next) = timeouts.chain(arrival).min().filter(|&at| at <= end) else { break };
            self.now = self.now.max(next);
            self.sites.iter_mut().for_each(|(site, _)| site.handle_timeout(self.now));
            while let Some(first) = self.in_flight.first_entry().filter(|first| *first.key() <= self.now) {
                first.remove().into_iter().for_each(|(to, arrive)| arrive(&mut self.sites[to].0, self.now));
            }
        }
        self.now = end;
    }

    /// Carries out what an engine asks for.
    fn poll(&mut self, end: usize) {
        let (site, _) = &mut self.sites[end];
        while let Some(packet) = site.poll_packet() {
            self.delivered += 1;
            site.recycle(packet);
        }
        let mut send = |delay, arrival: Arrival| {
            self.in_flight.entry(self.now + delay).or_default().push((1 - end, arrival));
        };
        let mut batch = Batch::new(64);
        while let Some(transmit) = site.poll_transmit(&mut batch, self.now) {
            let link = transmit.remote.port() - PORT;
            let socket = if end == HQ { SocketId(link.into()) } else { SocketId(0) };
            let local_ip = Some(transmit.remote.ip());
            let origin = DatagramOrigin { socket, local_ip, remote: address(end, link), ecn: transmit.ecn };
            for datagram in batch.contents().chunks(transmit.segment_size) {
                let mut datagram = datagram.to_vec();
                let arrive =
                    move |site: &mut Site, now: Instant| site.handle_datagram(&mut datagram, &origin, now);
                send(DELAYS[usize::from(link)], Box::new(arrive));
            }
        }
        while let Some((connection, message)) = site.poll_message() {
            send(DELAYS[0], Box::new(move |site, now| site.handle_message(connection, message, now)));
        }
        while let Some(event) = self.sites[end].0.poll_event() {
            if matches!(event, Event::Dial(_)) {
                self.connect(end);
            }
        }
    }

    /// The control connection, TLS in the daemon, is up. It yields the keys.
    fn connect(&mut self, dialer: usize) {
        for (end, (site, peer)) in self.sites.iter_mut().enumerate() {
            let role = if end == dialer { Role::Dialer } else { Role::Acceptor };
            // There is one connection. It needs some number.
            let id = ConnectionId(1);
            site.handle_connected(*peer, id, role, Box::new(StubKeys), self.now).expect("it was added");
        }
    }
}

fn address(end: usize, link: u16) -> SocketAddr {
    SocketAddr::from(([[192, 0, 2, 1], [198, 51, 100, 1]][end], PORT + link))
}

fn site_config(end: usize) -> SiteConfig {
    SiteConfig {
        name: ["van", "hq"][end].to_owned(),
        software: "two-sites 1.0".to_owned(),
        mtu: 1400,
        aead: Aead::Aes256Gcm,
        classes: ClassConfig::defaults(),
        clamp_mss: ClampMss::default(),
        hidden: false,
        broadcasts: Vec::new(),
        key_limits: KeyLimits::default(),
        seed: [[1; 32], [2; 32]][end], // chance is an argument, too
    }
}

/// What a site is told of the other one.
fn peer_config(end: usize) -> PeerConfig {
    PeerConfig {
        name: ["hq", "van"][end].to_owned(),
        allowed_ips: vec![["10.77.0.2/32", "10.77.0.1/32"][end].parse().expect("a network")],
        gateway: psmc_core::Gateway::default(),
        can_dial: end == VAN,
        smaller_key: end == VAN,
        scheduler: SchedulerKind::Wrr,
        bad_path_rule: false,
        reorder: ReorderPolicy::default(),
        ordered_udp: false,
        udp_rate_limit: None,
        repair: RepairKind::default(),
        split: false,
        keepalive: Duration::from_secs(10),
    }
}

/// Keys that hide nothing and prove nothing. `psmc-net` has those that do.
struct StubKeys;

impl KeySource for StubKeys {
    fn packet_key(&self, _: Aead, _: Role, _: u8) -> Box<dyn PacketKey> {
        Box::new(Self)
    }

    fn exchange(&self) -> Box<dyn KeyExchange> {
        Box::new(Self)
    }
}

impl KeyExchange for StubKeys {
    fn public_key(&self) -> [u8; EXCHANGE_KEY_LEN] {
        [7; EXCHANGE_KEY_LEN]
    }

    fn keys(&self, _: Role, _: &[u8; EXCHANGE_KEY_LEN]) -> Result<Box<dyn KeySource>, BadPublicKey> {
        Ok(Box::new(Self))
    }
}

impl PacketKey for StubKeys {
    fn seal(&self, _: [u8; NONCE_LEN], _: &[u8], _: &mut [u8]) -> [u8; TAG_LEN] {
        [7; TAG_LEN]
    }

    fn open(&self, _: [u8; NONCE_LEN], _: &[u8], sealed: &mut [u8]) -> Result<(), AuthError> {
        if sealed.ends_with(&[7; TAG_LEN]) { Ok(()) } else { Err(AuthError) }
    }
}
