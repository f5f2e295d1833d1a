//! Two sites, and packets from one to the other, without anything between them.

use std::error::Error;
use std::net::Ipv4Addr;
use std::time::{Duration, Instant};

use ipnet::IpNet;
use psmc_core::condition::{AssuredClass, Conditioning, Mode, Profile};
use psmc_core::{
    Batch, ClampMss, ClassConfig, CongestionConfig, DatagramOrigin, FlowConfig, KeyLimits, PeerConfig,
    ReorderPolicy, RepairKind, SchedulerKind, Site, SiteConfig, SocketId, Transmit,
};
use psmc_wire::crypto::Aead;

use crate::world::{HQ, Link, Setup, VAN, World, address};

/// Packets that are counted.
pub(crate) const PACKETS: usize = 16 * 1024;

/// Bytes of each.
const LEN: usize = 1400;

/// What a read of the TUN device brings, in packets.
const BURST: usize = 64;

/// The time that a burst takes, at 1 Gb/s.
const BURST_TIME: Duration = Duration::from_micros(720);

/// After so many times that of a burst, 36 ms, no packet waits any more.
const LATE_BURSTS: usize = 50;

/// Bits per second, faster than the packets come.
const RATE: u64 = 10_000_000_000;

/// Bits per second of all paths together, if every one of them is needed: twice as fast as the packets come. A
/// path that has a share of it with [`BURST`] others takes 360 µs for a packet, so that none follows another at once.
const RATE_OF_ALL: u64 = 2_000_000_000;

/// What packets may have that are conditioned, bits per second: half of what comes.
const CONDITIONED_RATE: u64 = 500_000_000;

/// What there is of each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    pub(crate) paths: usize,
    pub(crate) load: Load,
    pub(crate) features: Features,
    pub(crate) flows: usize,
    /// Packets that wait for one before them.
    pub(crate) held: usize,
}

/// What is done for a packet beside carrying it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Features {
    /// Nothing: each flow on one path at a rate that is given, neither put in order nor repaired.
    None,
    /// What is done by default, but at a rate that is given, so that what grows is measured and nothing else.
    GivenRate,
    /// The same, and all packets are conditioned.
    Conditioned,
    /// What is done by default: rates are found, paths chosen, flows put in order, losses repaired.
    All,
    /// The same, and each flow is counted for whoever exports it.
    Exported,
}

impl Features {
    const ALL: [Self; 5] = [Self::None, Self::GivenRate, Self::Conditioned, Self::All, Self::Exported];

    /// By which this program tells itself.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::GivenRate => "given-rate",
            Self::Conditioned => "conditioned",
            Self::All => "all",
            Self::Exported => "exported",
        }
    }

    /// Those of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|features| features.name() == name)
    }

    /// How sites are set up that have them, and whose paths have this rate if it is given.
    fn setup(self, rate: u64) -> Setup {
        let congestion = CongestionConfig::Fixed { rate };
        match self {
            Self::None => Setup {
                congestion,
                reorder: ReorderPolicy::Off,
                repair: RepairKind::Off,
                ..SchedulerKind::Flow.into()
            },
            Self::GivenRate | Self::Conditioned => Setup { congestion, ..SchedulerKind::Earliest.into() },
            Self::All | Self::Exported => SchedulerKind::Earliest.into(),
        }
    }

    /// What sites count of flows.
    fn flows(self) -> Option<FlowConfig> {
        let (active_timeout, idle_timeout) = (Duration::from_secs(60), Duration::from_secs(15));
        (self == Self::Exported).then_some(FlowConfig { active_timeout, idle_timeout })
    }

    /// The classes of sites that have them.
    fn classes(self) -> Vec<ClassConfig> {
        let profile = Profile { rate: CONDITIONED_RATE, burst: 64_000 };
        let conditioning = Conditioning { profile, mode: Mode::Adaptive, mark: AssuredClass::new(1) };
        let is_conditioned = self == Self::Conditioned;
        let mut classes = ClassConfig::defaults();
        for class in &mut classes {
            class.conditioning = is_conditioned.then_some(conditioning);
        }
        classes
    }
}

/// How much there is to carry, beside what the paths can.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Load {
    /// 1 Gb/s, which one path could carry alone.
    Light,
    /// 1 Gb/s, which is half of what all paths can carry: the more there are, the fewer packets follow each other on one.
    Heavy,
    /// Half of what all paths can carry, each of which is as slow as any: one packet on every path, then the next.
    Slow,
}

impl Load {
    const ALL: [Self; 3] = [Self::Light, Self::Heavy, Self::Slow];

    /// By which this program tells itself.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Light => "light",
            Self::Heavy => "heavy",
            Self::Slow => "slow",
        }
    }

    /// The one of that name.
    pub(crate) fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|load| load.name() == name)
    }

    /// Bits per second of each path.
    fn rate(self, paths: usize) -> u64 {
        match self {
            Self::Light => RATE,
            Self::Heavy => RATE_OF_ALL / paths as u64,
            Self::Slow => RATE_OF_ALL / BURST as u64,
        }
    }

    /// Packets between two looks at the far end.
    fn burst(self, paths: usize) -> usize {
        match self {
            Self::Light | Self::Heavy => BURST,
            Self::Slow => paths,
        }
    }
}

/// Two connected sites.
pub(crate) struct Workload {
    world: World,
    size: Size,
    packets: Vec<Vec<u8>>,
    batch: Batch,
    datagram: Vec<u8>,
    /// A datagram that takes longer than others, and how many are still to overtake it.
    late: Option<(Vec<u8>, DatagramOrigin, usize)>,
    delivered: usize,
}

impl Workload {
    /// With so many paths, and packets of so many flows.
    pub(crate) fn new(size: Size) -> Self {
        let links = (0..size.paths).map(|_| Link::new(1)).collect();
        let setup = size.features.setup(size.load.rate(size.paths));
        let mut world = World::connected_with(links, setup, size.features.classes());
        world.ends.iter_mut().for_each(|end| end.site.set_flows(size.features.flows()));
        let packets = (0..size.flows).map(packet).collect();
        let (batch, datagram) = (Batch::new(64), Vec::with_capacity(2 * LEN));
        Self { world, size, packets, batch, datagram, late: None, delivered: 0 }
    }

    /// Carries so many packets, of one flow after the other.
    ///
    /// # Panics
    /// If one gets lost, for then something else would be measured.
    pub(crate) fn carry(&mut self, packets: usize) {
        self.delivered = 0;
        let in_burst = self.size.load.burst(self.size.paths);
        for burst in 0..packets / in_burst {
            for packet in 0..in_burst {
                let flow = (burst * in_burst + packet) % self.size.flows;
                self.world.send(VAN, &self.packets[flow]);
            }
            self.pass_time();
        }
        // What is paced at a rate that is found leaves in the end.
        for _ in 0..LATE_BURSTS {
            if self.delivered >= packets {
                break;
            }
            self.pass_time();
        }
        self.arrive_late(0);
        self.deliver(HQ);
        assert!(self.delivered >= packets, "{} of {packets} packets arrived", self.delivered);
    }

    /// Carries what there is, and lets the time of a burst go by.
    fn pass_time(&mut self) {
        while self.exchange(VAN) + self.exchange(HQ) > 0 {}
        self.world.now += BURST_TIME;
        for end in &mut self.world.ends {
            end.site.handle_timeout(self.world.now);
        }
    }

    /// Carries what an end sends to the other one; says how many batches there were.
    fn exchange(&mut self, end: usize) -> usize {
        let mut count = 0;
        while let Some(transmit) = self.world.ends[end].site.poll_transmit(&mut self.batch, self.world.now) {
            count += 1;
            let origin = origin(end, &transmit);
            for at in (0..self.batch.contents().len()).step_by(transmit.segment_size) {
                let contents = &self.batch.contents()[at..];
                self.datagram.clear();
                self.datagram.extend_from_slice(&contents[..transmit.segment_size.min(contents.len())]);
                self.arrive(end, origin);
            }
        }
        self.deliver(1 - end);
        count
    }

    fn arrive(&mut self, from: usize, origin: DatagramOrigin) {
        if from == VAN && self.size.held > 0 && self.late.is_none() && self.datagram.len() > LEN {
            self.late = Some((self.datagram.clone(), origin, self.size.held));
            return;
        }
        self.world.ends[1 - from].site.handle_datagram(&mut self.datagram, &origin, self.world.now);
        if let Some((_, _, left)) = self.late.as_mut().filter(|_| from == VAN) {
            *left -= 1;
            let left = *left;
            self.arrive_late(left);
        }
    }

    /// The late datagram arrives, if none is to overtake it any more.
    fn arrive_late(&mut self, left: usize) {
        if let Some((mut datagram, origin, _)) = self.late.take_if(|_| left == 0) {
            self.world.ends[HQ].site.handle_datagram(&mut datagram, &origin, self.world.now);
        }
    }

    fn deliver(&mut self, end: usize) {
        let site = &mut self.world.ends[end].site;
        while let Some(packet) = site.poll_packet() {
            self.delivered += 1;
            site.recycle(packet);
        }
    }
}

/// Two connected sites with two paths, and nothing to do.
pub(crate) fn idle_world() -> World {
    World::connected(vec![Link::new(1), Link::new(1)], SchedulerKind::Earliest)
}

/// Two sites that know of each other, and have no way.
pub(crate) fn silent_world() -> World {
    World::new(Vec::new(), SchedulerKind::Earliest)
}

/// A site that knows so many peers, none of which has been there yet.
pub(crate) fn site_with_peers(count: u64) -> Result<Site, Box<dyn Error>> {
    let config = SiteConfig {
        name: "hub".to_owned(),
        software: "workload".to_owned(),
        mtu: 1400,
        aead: Aead::Aes256Gcm,
        classes: ClassConfig::defaults(),
        clamp_mss: ClampMss::Auto,
        hidden: false,
        broadcasts: Vec::new(),
        key_limits: KeyLimits::default(),
        seed: [7; 32],
    };
    let (mut site, now) = (Site::new(config), Instant::now());
    for peer in 0..u32::try_from(count)? {
        let config = PeerConfig {
            name: format!("peer{peer}"),
            allowed_ips: vec![IpNet::new(Ipv4Addr::from_bits(0x0a00_0000 + peer).into(), 32)?],
            gateway: psmc_core::Gateway::default(),
            can_dial: false,
            smaller_key: false,
            scheduler: SchedulerKind::Earliest,
            bad_path_rule: false,
            reorder: ReorderPolicy::Deadline,
            ordered_udp: false,
            udp_rate_limit: None,
            repair: RepairKind::Auto,
            split: false,
            keepalive: Duration::from_secs(10),
        };
        site.add_peer(config, now)?;
    }
    Ok(site)
}

fn origin(from: usize, transmit: &Transmit) -> DatagramOrigin {
    let link = match (from, transmit.local_ip) {
        (HQ, Some(std::net::IpAddr::V4(ip))) => usize::from(ip.octets()[2]),
        _ => transmit.socket.0 as usize,
    };
    let to = 1 - from;
    DatagramOrigin {
        socket: if to == VAN {
            SocketId(u32::try_from(link).expect("a link"))
        } else {
            crate::world::HQ_SOCKET
        },
        local_ip: Some(address(link, to).ip()),
        remote: address(link, from),
        ecn: transmit.ecn,
    }
}

/// A full-size TCP segment of a flow.
fn packet(flow: usize) -> Vec<u8> {
    let mut packet = vec![0; LEN];
    packet[0] = 0x45;
    packet[2..4].copy_from_slice(&u16::try_from(LEN).expect("a packet").to_be_bytes());
    packet[8..10].copy_from_slice(&[64, 6]);
    packet[12..20].copy_from_slice(&[10, 77, 0, 2, 10, 77, 0, 1]);
    let [.., a, b, c, d] = flow.to_be_bytes();
    packet[20..24].copy_from_slice(&[c, d, a, b]);
    packet[32..34].copy_from_slice(&[0x50, 0x10]);
    packet
}
