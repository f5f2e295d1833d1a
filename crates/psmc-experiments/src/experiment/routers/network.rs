//! The seed's dumb-bell: four hosts, two routers, 160 ms.

use std::net::{IpAddr, Ipv4Addr};
use std::time::{Duration, Instant};

use psmc_sim::link::LinkConfig;
use psmc_sim::pulses::{Law, Meeting, Pulses, Victim};
use psmc_sim::router::{Amount, CpuConfig, PortConfig, RouterConfig, Table, Tables};
use psmc_sim::{
    CongestionControl, HostId, LinkEnd, LinkId, LinkSetup, Seen, TrafficId, TrafficKind, TrafficSetup, World,
};

/// The round trip of the flow (figure 2.3).
pub(super) const RTT: Duration = Duration::from_millis(160);

/// Bits per second of every line.
const RATE: u64 = 100_000_000;

/// Header and checksum of Ethernet, which the seed counts.
const FRAMING: usize = 18;

/// What counts of a segment, and its frame.
pub(super) const SEGMENT: usize = 1448;
const SEGMENT_FRAME: usize = 1500 + FRAMING;

/// Bytes of a datagram's headers: IPv4 and UDP.
const HEADERS: usize = 28;

/// From then on is measured: the seed leaves out 40 of 250 s, and its flow starts slowly as ours does.
const SETTLED: u32 = 20;

/// The receive window of the seed's flow.
const BUFFER: usize = 11 << 20;

/// A router of the seed, as far as it says what is known of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Device {
    /// Queues of so many packets at its outputs, and nothing else: what ns-2 takes for a router.
    Queues(u32),
    /// The PCs of Emulab: interrupts for every packet, whichever way it goes, and one backlog for all.
    Pc,
    /// A Cisco 3640, which forwards 14,400 packets/s: input queues of 75 and output queues of 40.
    Cisco3640,
}

/// Which way the attack goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    /// With the data.
    Forward,
    /// With the acknowledgements.
    Reverse,
}

/// What is run.
#[derive(Clone, Debug)]
pub(super) struct Scene {
    pub(super) device: Device,
    pub(super) congestion_control: CongestionControl,
    /// The attack, if there is one.
    pub(super) pulses: Option<Pulses>,
    pub(super) direction: Direction,
}

/// What came of it, in bit/s.
#[derive(Clone, Copy, Debug)]
pub(super) struct Outcome {
    /// Of payload of the flow.
    pub(super) goodput: f64,
    /// Of frames of the attack, as they enter the first router.
    pub(super) attack: f64,
}

/// Pulses of 160 ms, as the seed's generator makes them (§2.5.2): `frame` bytes with the framing.
pub(super) fn pulses(rate: u64, frame: usize, sleep_ms: u64) -> Pulses {
    let [length, sleep, jitter] = [160, sleep_ms, 10].map(Duration::from_millis);
    Pulses { rate, payload: frame - FRAMING - HEADERS, length, sleep, jitter }
}

/// The frame of a packet of pulses.
pub(super) fn frame(pulses: &Pulses) -> usize {
    pulses.payload + HEADERS + FRAMING
}

impl Device {
    pub(super) fn name(self) -> String {
        match self {
            Self::Queues(slots) => format!("queues of {slots}"),
            Self::Pc => "PC".to_owned(),
            Self::Cisco3640 => "Cisco 3640".to_owned(),
        }
    }

    /// How long its processor takes for a packet. The PC's is estimated: the seed's attack of 85,000 packets/s does not
    /// overload it, and that of 140,000 does.
    fn processing(self) -> Option<Duration> {
        match self {
            Self::Queues(_) => None,
            Self::Pc => Some(Duration::from_micros(10)),
            Self::Cisco3640 => Some(Duration::from_nanos(1_000_000_000 / 14_400)),
        }
    }

    fn slots(self) -> u32 {
        match self {
            Self::Queues(slots) => slots,
            // What its driver can transmit later (§2.5.1).
            Self::Pc => 64,
            Self::Cisco3640 => 40,
        }
    }

    fn config(self, ports: usize) -> Option<RouterConfig> {
        let slots = Amount::new(self.slots().into())?;
        let port = PortConfig { framing: FRAMING, ..PortConfig::new(RATE, slots) };
        // Servers and their delay are the processor's part here, which all packets need one after the other.
        let tables = Tables {
            delay: Table::<Duration>::constant(Duration::ZERO),
            servers: Table::<Amount>::constant(Amount::ONE),
            slots: Table::<Amount>::constant(Amount::ONE),
        };
        let (ring, is_shared) = if self == Self::Pc { (300, true) } else { (75, false) };
        let cpu = self.processing().map(|time| CpuConfig {
            time: Table::<Duration>::constant(time),
            control: time,
            ring,
            is_shared,
        });
        RouterConfig::new(vec![port; ports], Amount::ONE, tables, cpu).ok()
    }
}

impl Scene {
    /// What the analysis says that follows the rounds of the flow: each packet that meets a pulse is lost with the chance of any
    /// packet there, which is what the first router can't carry of all that comes.
    pub(super) fn analysis(&self, law: Law) -> Option<f64> {
        let pulses = self.pulses.as_ref()?;
        let line = (SEGMENT_FRAME * 8) as f64 / RATE as f64;
        let offered = pulses.rate as f64 + 1.0 / line;
        // Segments come as fast as their line lets them, between packets of the attack.
        let bits = pulses.rate as f64 * (frame(pulses) * 8) as f64 + RATE as f64;
        let of_line = RATE as f64 / bits;
        let of_processor = self.device.processing().map_or(1.0, |time| 1.0 / time.as_secs_f64() / offered);
        let loss = (1.0 - of_line.min(of_processor)).max(0.0);
        let meeting = Meeting { loss, spacing: Duration::from_secs_f64(line) };
        let most = RTT.as_secs_f64() / line + f64::from(self.device.slots());
        let victim = Victim { law, rtt: RTT, payload: SEGMENT, most, meeting };
        Some(victim.goodput(pulses, 1))
    }

    /// Runs it.
    pub(super) fn run(&self, seconds: u32, seed: u64) -> Option<Outcome> {
        let start = Instant::now();
        let mut world = World::new(seed, start);
        let net = Dumbbell::build(&mut world, self.device)?;
        let end = start + Duration::from_secs(seconds.into());
        let flow = net.flow(&mut world, self.congestion_control, [start, end]);
        if let Some(pulses) = &self.pulses {
            net.attack(&mut world, pulses.clone(), self.direction, [start, end]);
        }
        let settled = start + Duration::from_secs(SETTLED.min(seconds / 2).into());
        arrived(&mut world, flow, settled);
        let bytes = arrived(&mut world, flow, end);
        let link = net.attacker(self.direction);
        let packets = world.link_counters(link)[0].entered_packets;
        let frame = self.pulses.as_ref().map_or(0, frame);
        Some(Outcome {
            goodput: bytes as f64 * 8.0 / (end - settled).as_secs_f64(),
            attack: packets as f64 * frame as f64 * 8.0 / f64::from(seconds),
        })
    }
}

/// Runs on until `end`; says how much has arrived of a flow since this was last asked.
fn arrived(world: &mut World, flow: TrafficId, end: Instant) -> u64 {
    world.run_until(end);
    let seen = std::iter::from_fn(|| world.poll_observation());
    let bytes = seen.filter(|seen| seen.traffic == flow).map(|seen| match seen.what {
        Seen::Delivered(bytes) => bytes,
        Seen::Sent | Seen::Begun { .. } | Seen::Arrived { .. } | Seen::Done | Seen::Broken => 0,
    });
    bytes.sum()
}

/// Node0 and Node1 at the first router, Node2 and Node3 at the second.
struct Dumbbell {
    nodes: [HostId; 4],
    access: [LinkId; 4],
}

impl Dumbbell {
    fn build(world: &mut World, device: Device) -> Option<Self> {
        let nodes = [(); 4].map(|()| world.add_host());
        let routers = [(); 2].map(|()| world.add_host());
        let delays = [RTT / 4, Duration::ZERO, RTT / 4, Duration::ZERO];
        let mut access = Vec::new();
        for (index, node) in nodes.into_iter().enumerate() {
            let line = LinkConfig::new(line_rate(), delays[index]);
            // Its router transmits at the line's rate already.
            let behind = LinkConfig { delay: delays[index], ..LinkConfig::default() };
            let ends = [(node, address(index, 2)), (routers[index / 2], address(index, 1))];
            access.push(join(world, ends, [line, behind]));
        }
        let ends = [(routers[0], address(4, 1)), (routers[1], address(4, 2))];
        let backbone = join(world, ends, [LinkConfig::default(), LinkConfig::default()]);
        for (index, node) in nodes.into_iter().enumerate() {
            world.add_route(node, "10.0.0.0/8".parse().ok()?, address(index, 1));
            let (other, via) = if index < 2 { (routers[1], 1) } else { (routers[0], 2) };
            world.add_route(other, format!("10.0.{index}.0/24").parse().ok()?, address(4, via));
        }
        for (router, own) in routers.into_iter().zip([[0, 1], [2, 3]]) {
            let ports = [access[own[0]], access[own[1]], backbone];
            if !world.set_router(router, device.config(ports.len())?, &ports) {
                return None;
            }
        }
        Some(Self { nodes, access: access.try_into().ok()? })
    }

    fn flow(
        &self,
        world: &mut World,
        congestion_control: CongestionControl,
        [start, stop]: [Instant; 2],
    ) -> TrafficId {
        let kind = TrafficKind::Tcp { congestion_control, flows: 1, bytes: None, buffer: BUFFER };
        let (from, to) = (self.nodes[0], self.nodes[2]);
        world.add_traffic(TrafficSetup { kind, from, to, address: address(2, 2), start, stop })
    }

    fn attack(&self, world: &mut World, pulses: Pulses, direction: Direction, [start, stop]: [Instant; 2]) {
        let (from, to) = match direction {
            Direction::Forward => (1, 3),
            Direction::Reverse => (3, 1),
        };
        let (kind, address) = (TrafficKind::Pulses(pulses), address(to, 2));
        world.add_traffic(TrafficSetup {
            kind,
            from: self.nodes[from],
            to: self.nodes[to],
            address,
            start,
            stop,
        });
    }

    /// The link of the node that attacks.
    fn attacker(&self, direction: Direction) -> LinkId {
        match direction {
            Direction::Forward => self.access[1],
            Direction::Reverse => self.access[3],
        }
    }
}

/// The rate of a line of packets without their framing, for full ones, which are most of what hosts send but for the attack; its
/// small ones come at the rate of their generator in any case.
fn line_rate() -> u64 {
    RATE * 1500 / SEGMENT_FRAME as u64
}

fn join(world: &mut World, ends: [(HostId, IpAddr); 2], directions: [LinkConfig; 2]) -> LinkId {
    let ends = ends.map(|(host, address)| {
        let addresses = format!("{address}/24").parse().into_iter().collect();
        LinkEnd { host, addresses }
    });
    world.add_link(LinkSetup { ends, directions })
}

#[expect(clippy::cast_possible_truncation, reason = "there are five networks")]
fn address(net: usize, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, 0, net as u8, host))
}
