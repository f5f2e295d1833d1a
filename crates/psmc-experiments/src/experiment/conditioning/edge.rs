//! What edge routers do: they mark what their hosts send.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::time::Instant;

use psmc_core::condition::{Conditioner, Facts, Mode, Profile, SeedRules, TcpFacts};
use rand_pcg::Pcg64Mcg;
use rand_pcg::rand_core::SeedableRng;

use super::network::{Edge, Network};

/// How edge routers mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Marking {
    /// By TSW3CM alone.
    Standard,
    /// The seed's, with a state of so many flows in each edge router.
    Seed(usize),
    /// The seed's, with a state of every flow: its "max".
    SeedMax,
    /// Ours.
    Adaptive,
}

/// Lets every edge router mark what its hosts send, each by itself.
pub(super) fn mark(network: &mut Network, marking: Marking, profile: Profile, seed: u64) {
    for edge in network.edges() {
        for towards in &edge.towards {
            let marker = Marker::new(network, &edge, marking, profile, seed);
            let (link, _) = network.link(edge.router, towards);
            let router = network.host(edge.router);
            let set = network.world.set_conditioner(router, link, Box::new(marker));
            debug_assert!(set, "{} has no link to {towards}", edge.router);
        }
    }
}

impl Marking {
    /// The mode of each of so many hosts, which share a state.
    fn mode(self, hosts: usize) -> Mode {
        match self {
            Self::Standard => Mode::Standard,
            Self::Seed(flows) => {
                Mode::Seed(SeedRules { flows: (flows / hosts.max(1)).max(1), ..SeedRules::default() })
            }
            Self::SeedMax => Mode::Seed(SeedRules::default()),
            Self::Adaptive => Mode::Adaptive,
        }
    }
}

/// Marks what some hosts send; all else passes as it is.
pub(super) struct Marker {
    customers: BTreeMap<Ipv4Addr, Conditioner>,
    rng: Pcg64Mcg,
}

impl Marker {
    /// Of the hosts of an edge router.
    pub(super) fn new(network: &Network, edge: &Edge, marking: Marking, profile: Profile, seed: u64) -> Self {
        let mode = marking.mode(edge.hosts.len());
        let of = |host| {
            let IpAddr::V4(address) = network.address(host) else { return None };
            Some((address, Conditioner::new(profile, mode, seed)))
        };
        let customers = edge.hosts.iter().copied().filter_map(of).collect();
        Self { customers, rng: Pcg64Mcg::seed_from_u64(seed) }
    }
}

impl psmc_sim::Conditioner for Marker {
    fn leave(&mut self, packet: &mut [u8], now: Instant) -> bool {
        let Some(header) = Header::parse(packet) else { return true };
        if let Some(conditioner) = self.customers.get_mut(&header.source) {
            let facts = Facts {
                flow: header.flow(),
                source: header.source.into(),
                destination: header.destination.into(),
                len: packet.len(),
                is_ce: packet[1] & ECN == ECN,
                tcp: header.tcp,
            };
            let precedence = conditioner.mark(&facts, &mut self.rng, now);
            packet[1] = packet[1] & ECN | AF1[usize::from(precedence.number())] << 2;
        }
        true
    }

    fn come(&mut self, packet: &[u8], now: Instant) {
        if let Some(header) = Header::parse(packet)
            && let Some(conditioner) = self.customers.get_mut(&header.destination)
            && let Some(tcp) = header.tcp
        {
            conditioner.on_reply(header.answered().flow(), &tcp, now);
        }
    }
}

/// AF11, AF12 and AF13 (RFC 2597 §6).
const AF1: [u8; 3] = [10, 12, 14];

/// Both bits of ECN, which marking leaves alone; both set are "congestion experienced".
const ECN: u8 = 0b11;

/// What edge routers read of a packet. In the simulator checksums are not valid, and IPv4 has no options.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header {
    pub(super) source: Ipv4Addr,
    pub(super) destination: Ipv4Addr,
    protocol: u8,
    pub(super) ports: [u16; 2],
    tcp: Option<TcpFacts>,
}

impl Header {
    /// `None` if it is not TCP or UDP over IPv4.
    pub(super) fn parse(packet: &[u8]) -> Option<Self> {
        let (ip, rest) = packet.split_first_chunk::<IPV4>()?;
        let [[s0, s1, s2, s3], [d0, d1, d2, d3]] =
            [12, 16].map(|at| [ip[at], ip[at + 1], ip[at + 2], ip[at + 3]]);
        let protocol = ip[9];
        if protocol != TCP && protocol != UDP {
            return None;
        }
        let word = |at: usize| Some(u16::from_be_bytes(*rest.get(at..)?.first_chunk()?));
        let tcp = if protocol == TCP { Some(tcp_facts(rest)?) } else { None };
        Some(Self {
            source: Ipv4Addr::new(s0, s1, s2, s3),
            destination: Ipv4Addr::new(d0, d1, d2, d3),
            protocol,
            ports: [word(0)?, word(2)?],
            tcp,
        })
    }

    /// Whether it is TCP, and UDP otherwise.
    pub(super) fn is_tcp(&self) -> bool {
        self.tcp.is_some()
    }

    /// Of the packets that it answers.
    fn answered(self) -> Self {
        let [from, to] = self.ports;
        Self { source: self.destination, destination: self.source, ports: [to, from], ..self }
    }

    /// A hash: the finaliser of SplitMix64 over the numbers that make a flow.
    pub(super) fn flow(&self) -> u64 {
        let [from, to] = self.ports.map(u64::from);
        let ends = [self.source, self.destination].map(|ip| u64::from(ip.to_bits()));
        [ends[0] << 32 | ends[1], from << 24 | to << 8 | u64::from(self.protocol)].into_iter().fold(0, mix)
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    let mut z = (hash ^ word).wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ z >> 31
}

fn tcp_facts(segment: &[u8]) -> Option<TcpFacts> {
    let number = |at: usize| Some(u32::from_be_bytes(*segment.get(at..)?.first_chunk()?));
    let header = usize::from(*segment.get(12)? >> 4) * 4;
    let payload = u32::try_from(segment.len().saturating_sub(header)).ok()?;
    Some(TcpFacts { flags: *segment.get(13)?, seq: number(4)?, ack: number(8)?, payload })
}

/// Bytes of a header without options.
const IPV4: usize = 20;

/// Numbers of protocols.
const TCP: u8 = 6;
const UDP: u8 = 17;
