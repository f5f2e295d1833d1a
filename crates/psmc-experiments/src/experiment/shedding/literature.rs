//! The seed's NetDraino: routers mark and stamp, servers sample and scale.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use psmc_drain::held::HeldRule;
use psmc_drain::seed::{Router, RouterConfig, Samples, Stamp};
use psmc_drain::split::k_scaling;
use psmc_drain::{ClassId, NodeId};
use psmc_sim::crowd::{Control, Packet};

use super::gate::Gate;
use super::network::{INGRESSES, class, classes};
use crate::dice::Dice;

/// The seed's parameters (table I).
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) k: f64,
    /// th_congest, in packets.
    pub(super) threshold: f64,
    /// p_a.
    pub(super) stamped: f64,
}

impl Parameters {
    pub(super) const DEFAULT: Self = Self { k: 1.2, threshold: 15.0, stamped: 0.1 };
}

/// All routers and servers of a network.
pub(super) struct NetDraino {
    k: f64,
    accepted: Vec<[f64; 2]>,
    routers: Vec<Router>,
    gates: Vec<Gate>,
    samples: BTreeMap<ClassId, Samples>,
    /// Servers and clients: the next packet from one to the other has the mark SCN.
    to_be_marked: BTreeSet<(usize, u32)>,
    /// Rules on their way.
    rules: VecDeque<(Duration, usize, ClassId, f64, f64)>,
    dice: Dice,
}

/// What the seed writes on packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Marks {
    /// RCN.
    congestion: bool,
    stamp: Option<Stamp>,
}

/// δ; the seed prints none.
const LIFETIME: Duration = Duration::from_secs(10);

/// Estimated packets of a router with which a rule is made for it; the seed prints no number.
const ENOUGH: f64 = 200.0;

/// How long a rule takes to its router.
pub(super) const RULE_DELAY: Duration = Duration::from_millis(50);

/// ℓ_Q, and how long a server is remembered; "usually small" and "a pre-set limit".
const SERVERS: usize = 5;
const AGE: Duration = Duration::from_secs(5);

/// The chance of the mark RCN. It is to spare what is not heavy traffic, and little of that suffices.
const MARKED: f64 = 0.1;

/// As the queue's.
const WEIGHT: f64 = 0.002;

impl NetDraino {
    /// `accepted` is what each server accepts of each kind.
    pub(super) fn new(parameters: Parameters, accepted: &[[f64; 2]], seed: u64) -> Self {
        let Parameters { k, threshold, stamped } = parameters;
        let config =
            RouterConfig { threshold, stamped, marked: MARKED, servers: SERVERS, age: AGE, weight: WEIGHT };
        let ids = (0..).take(INGRESSES).map(NodeId);
        Self {
            k,
            accepted: accepted.to_vec(),
            routers: ids.map(|id| Router::new(id, config)).collect(),
            gates: (0..INGRESSES).map(|_| Gate::new(LIFETIME)).collect(),
            samples: BTreeMap::new(),
            to_be_marked: BTreeSet::new(),
            rules: VecDeque::new(),
            dice: Dice::new(seed),
        }
    }

    /// Rules for routers of which there are samples enough (figure 7).
    fn distribute(&mut self, server: usize, packet: &Packet<Marks>, now: Duration) {
        let class = class(server, packet.kind);
        let rate = self.accepted[server][packet.kind as usize];
        let Some(samples) = self.samples.get_mut(&class) else { return };
        for (router, share) in samples.take_due(ENOUGH) {
            let of_all = k_scaling(rate, &[share, 1.0 - share], self.k);
            let at = now + RULE_DELAY;
            self.rules.push_back((at, router.0 as usize, class, of_all[0], rate));
        }
    }
}

impl Control for NetDraino {
    type Tag = Marks;

    fn admit(&mut self, packet: &Packet<Marks>, now: Duration) -> bool {
        let class = class(packet.server, packet.kind);
        self.gates[packet.ingress].admit(class, now)
    }

    fn leave(&mut self, packet: &mut Packet<Marks>, queue: usize, now: Duration) {
        let router = &mut self.routers[packet.ingress];
        router.queue(queue);
        packet.tag.congestion = router.marks(self.dice.uniform());
        let server = u32::try_from(packet.server).unwrap_or(u32::MAX);
        packet.tag.stamp = router.stamp(server, self.dice.uniform(), now);
    }

    fn come(&mut self, packet: &Packet<Marks>, is_accepted: bool, now: Duration) {
        let samples = self.samples.entry(class(packet.server, packet.kind)).or_default();
        samples.packet(packet.tag.stamp.as_slice());
        if packet.tag.congestion && !is_accepted {
            self.to_be_marked.insert((packet.server, packet.client));
        }
        self.distribute(packet.server, packet, now);
    }

    fn acknowledged(&mut self, packet: &Packet<Marks>, now: Duration) {
        if self.to_be_marked.remove(&(packet.server, packet.client)) {
            let server = u32::try_from(packet.server).unwrap_or(u32::MAX);
            self.routers[packet.ingress].congested_server(server, now);
        }
    }

    fn tick(&mut self, now: Duration) {
        while let Some((_, router, class, rate, limit)) = self.rules.pop_front_if(|(at, ..)| *at <= now) {
            let rule = HeldRule { rate, limit, expires: now + LIFETIME };
            self.gates[router].set(class, rule, now);
        }
        // A rule that has ended is removed where the router is lightly loaded, as if nothing were offered (§4.4).
        for (gate, _) in self.gates.iter_mut().zip(&self.routers).filter(|(_, router)| !router.is_congested())
        {
            classes().for_each(|(server, kind)| gate.offered(class(server, kind), 0.0, now));
        }
    }
}
