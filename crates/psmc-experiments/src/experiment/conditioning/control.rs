//! Edge routers that hold unresponsive flows down, and who tells them of drops.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};
use std::rc::Rc;
use std::time::{Duration, Instant};

use psmc_core::condition::Profile;
use psmc_core::police::{Facts, Kind, Police, PoliceConfig, Report, Verdict, Witness};
use psmc_sim::Conditioner;

use super::edge::{Header, Marker, Marking};
use super::network::Network;

/// Control of a network: each edge router has a [`Police`], and what hosts have received and queues dropped of what came by it
/// is told to it.
///
/// Call [`step`](Self::step) every [`STEP`] of virtual time.
pub(super) struct Control {
    gates: Rc<RefCell<Gates>>,
    steps: u32,
}

/// How edge routers hold flows down.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Policy {
    pub(super) config: PoliceConfig,
    /// Whether they tell the flows of a host apart. If not, those of a kind are one, as are a customer's aggregates in the seed.
    pub(super) by_flow: bool,
}

struct Gates {
    by_flow: bool,
    gates: Vec<GateState>,
    /// By which gate what a host sends enters.
    by_source: BTreeMap<Ipv4Addr, usize>,
}

struct GateState {
    police: Police,
    witness: Witness,
    /// On its way from who has counted.
    report: Option<Report>,
    /// Reports that have come since the first limit.
    reports: u32,
    limit: Option<u64>,
}

/// Time between two calls: half of a round trip of figure 8a, which a report takes.
pub(super) const STEP: Duration = Duration::from_millis(50);

/// Reports come once in so many steps: in the shortest round of a [`Police`], 200 ms.
const STEPS_OF_REPORT: u32 = 4;

/// Numbers of flows are below 4096.
const MAX_FLOW: u64 = 0xfff;

const ROUND_TRIP: Duration = Duration::from_millis(100);

impl Control {
    /// All edge routers mark by TSW3CM, and hold down what this configuration says, if there is one.
    pub(super) fn new(network: &mut Network, profile: Profile, police: Option<Policy>, seed: u64) -> Self {
        let gates = Gates {
            by_flow: police.is_some_and(|policy| policy.by_flow),
            gates: Vec::new(),
            by_source: BTreeMap::new(),
        };
        let gates = Rc::new(RefCell::new(gates));
        for edge in network.edges() {
            let number = gates.borrow_mut().add(police.map(|policy| policy.config), seed);
            for host in &edge.hosts {
                if let IpAddr::V4(address) = network.address(host) {
                    gates.borrow_mut().by_source.insert(address, number);
                }
                let (link, _) = network.link(host, edge.router);
                let ear = Ear(Rc::clone(&gates));
                network.world.set_conditioner(network.host(host), link, Box::new(ear));
                let (link, from) = network.link(edge.router, host);
                network.world.watch_drops(link, from);
            }
            for towards in &edge.towards {
                let (link, _) = network.link(edge.router, towards);
                let marker = Marker::new(network, &edge, Marking::Standard, profile, seed);
                let gate = Gate { number, is_open: police.is_none(), marker, gates: Rc::clone(&gates) };
                network.world.set_conditioner(network.host(edge.router), link, Box::new(gate));
            }
        }
        network.watch_routers();
        Self { gates, steps: 0 }
    }

    /// Passes on what was dropped and received.
    pub(super) fn step(&mut self, network: &mut Network) {
        let now = network.world.now();
        let mut gates = self.gates.borrow_mut();
        while let Some(dropped) = network.world.poll_dropped() {
            gates.note(&dropped.packet, Witness::on_dropped);
        }
        let reports = self.steps.is_multiple_of(STEPS_OF_REPORT);
        self.steps += 1;
        gates.gates.iter_mut().for_each(|gate| gate.step(reports, now));
    }

    /// What all that is held may send at present, in bits per second, and reports since the first limit; of the edge router
    /// that holds down least.
    pub(super) fn limit(&self) -> Option<(u64, u32)> {
        let gates = self.gates.borrow();
        gates.gates.iter().filter_map(|gate| gate.limit.zip(Some(gate.reports))).min()
    }
}

impl Gates {
    fn add(&mut self, police: Option<PoliceConfig>, seed: u64) -> usize {
        self.gates.push(GateState {
            police: Police::new(police.unwrap_or_default(), seed),
            witness: Witness::new(seed),
            report: None,
            reports: 0,
            limit: None,
        });
        self.gates.len() - 1
    }

    fn facts(&self, header: &Header) -> Facts {
        let flow = if self.by_flow { header.flow() & MAX_FLOW } else { 0 };
        Facts {
            source: header.source.into(),
            destination: header.destination.into(),
            ports: Some(header.ports),
            class: 0,
            kind: if header.is_tcp() { Kind::Tcp } else { Kind::Plain },
            flow: u16::try_from(flow).unwrap_or_default(),
        }
    }

    /// Somebody has seen the end of a packet.
    fn note(&mut self, packet: &[u8], seen: fn(&mut Witness, &Facts, usize)) {
        if let Some(header) = Header::parse(packet)
            && let Some(&number) = self.by_source.get(&header.source)
        {
            let facts = self.facts(&header);
            seen(&mut self.gates[number].witness, &facts, packet.len());
        }
    }
}

impl GateState {
    fn step(&mut self, reports: bool, now: Instant) {
        if let Some(report) = self.report.take() {
            self.police.report(&report, now);
            self.reports += u32::from(self.limit.is_some());
        }
        self.police.end_round(Some(ROUND_TRIP), now);
        let limits = self.police.aggregates().filter_map(|one| one.limit).map(|limit| limit.rate);
        self.limit = limits.reduce(|a, b| a + b);
        if reports {
            self.report = self.witness.take(now);
        }
    }
}

/// An edge router where packets enter the network.
struct Gate {
    number: usize,
    /// Nobody is held down.
    is_open: bool,
    marker: Marker,
    gates: Rc<RefCell<Gates>>,
}

impl Conditioner for Gate {
    fn leave(&mut self, packet: &mut [u8], now: Instant) -> bool {
        if let Some(header) = Header::parse(packet)
            && !self.is_open
        {
            let mut gates = self.gates.borrow_mut();
            let facts = gates.facts(&header);
            if gates.gates[self.number].police.offer(&facts, packet.len(), now) == Verdict::Drop {
                return false;
            }
        }
        self.marker.leave(packet, now)
    }

    fn come(&mut self, packet: &[u8], now: Instant) {
        self.marker.come(packet, now);
    }
}

/// A host that counts what it receives.
struct Ear(Rc<RefCell<Gates>>);

impl Conditioner for Ear {
    fn leave(&mut self, _packet: &mut [u8], _now: Instant) -> bool {
        true
    }

    fn come(&mut self, packet: &[u8], _now: Instant) {
        self.0.borrow_mut().note(packet, Witness::on_delivered);
    }
}
