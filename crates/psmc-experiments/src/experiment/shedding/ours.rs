//! Ours: ingresses report what they are offered, servers answer with max–min fair throttles.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use psmc_drain::held::HeldRule;
use psmc_drain::shedder::{Config, Report, Shedder};
use psmc_drain::{ClassId, NodeId};
use psmc_sim::crowd::{Control, Packet};

use super::gate::Gate;
use super::literature::RULE_DELAY;
use super::network::{INGRESSES, class, classes};
use crate::dice::Dice;

/// What can be chosen; nothing of it should matter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Parameters {
    pub(super) headroom: f64,
    /// The time between reports.
    pub(super) interval: Duration,
    /// The chance of a packet to be counted, as where only samples are.
    pub(super) counted: f64,
}

impl Parameters {
    pub(super) const DEFAULT: Self =
        Self { headroom: 0.1, interval: Duration::from_millis(200), counted: 1.0 };
}

/// All ingresses and servers of a network.
pub(super) struct Shedding {
    parameters: Parameters,
    /// Classes of several servers are apart anyway: one shedder acts as one of each server would.
    shedder: Shedder,
    gates: Vec<Gate>,
    counts: Vec<BTreeMap<ClassId, Count>>,
    arrived: BTreeMap<ClassId, f64>,
    messages: VecDeque<(Duration, Message)>,
    /// When the last interval ended.
    reported: Duration,
    dice: Dice,
}

#[derive(Clone, Copy, Debug, Default)]
struct Count {
    offered: f64,
    passed: f64,
}

enum Message {
    Report(NodeId, ClassId, Report),
    /// All rules of an ingress: what is not among them is withdrawn.
    Rules(usize, Vec<(ClassId, HeldRule)>),
}

impl Shedding {
    /// `accepted` is what each server accepts of each kind.
    pub(super) fn new(parameters: Parameters, accepted: &[[f64; 2]], seed: u64) -> Self {
        let config = Config { headroom: parameters.headroom, ..Config::default() };
        let mut shedder = Shedder::new(config);
        for (server, kind) in classes() {
            // All of these are rates, and few.
            shedder.accept(class(server, kind), accepted[server][kind as usize]).ok();
        }
        Self {
            parameters,
            shedder,
            gates: (0..INGRESSES).map(|_| Gate::new(config.lifetime)).collect(),
            counts: vec![BTreeMap::new(); INGRESSES],
            arrived: BTreeMap::new(),
            messages: VecDeque::new(),
            reported: Duration::ZERO,
            dice: Dice::new(seed),
        }
    }

    fn report(&mut self, now: Duration) {
        let interval = now - std::mem::replace(&mut self.reported, now);
        let at = now + RULE_DELAY;
        for (ingress, counts) in self.counts.iter_mut().enumerate() {
            let node = node(ingress);
            let counts = std::mem::take(counts);
            for (server, kind) in classes() {
                let class = class(server, kind);
                let Count { offered, passed } = counts.get(&class).copied().unwrap_or_default();
                let report = Report { until: now, interval, offered, passed };
                self.gates[ingress].offered(class, offered / interval.as_secs_f64(), now);
                self.messages.push_back((at, Message::Report(node, class, report)));
            }
        }
        for (class, amount) in std::mem::take(&mut self.arrived) {
            self.shedder.arrived(class, amount, interval, now).ok();
        }
        let rules = self.shedder.rules(now);
        for ingress in 0..INGRESSES {
            let own = rules.iter().filter(|rule| rule.node == node(ingress));
            let own = own.map(|rule| {
                (rule.class, HeldRule { rate: rule.rate, limit: rule.limit, expires: rule.expires })
            });
            self.messages.push_back((at, Message::Rules(ingress, own.collect())));
        }
    }

    fn take(&mut self, message: Message, now: Duration) {
        match message {
            Message::Report(node, class, report) => {
                // What is refused is counted there, and of no use here.
                self.shedder.report(node, class, report, now).ok();
            }
            Message::Rules(ingress, rules) => {
                let gate = &mut self.gates[ingress];
                for (server, kind) in classes() {
                    let class = class(server, kind);
                    match rules.iter().find(|(of, _)| *of == class) {
                        Some((_, rule)) => gate.set(class, *rule, now),
                        None => gate.withdraw(class),
                    }
                }
            }
        }
    }
}

impl Control for Shedding {
    type Tag = ();

    fn admit(&mut self, packet: &Packet<()>, now: Duration) -> bool {
        let class = class(packet.server, packet.kind);
        let passes = self.gates[packet.ingress].admit(class, now);
        if self.dice.happens(self.parameters.counted) {
            let stands_for = 1.0 / self.parameters.counted;
            let count = self.counts[packet.ingress].entry(class).or_default();
            count.offered += stands_for;
            count.passed += if passes { stands_for } else { 0.0 };
        }
        passes
    }

    fn leave(&mut self, _packet: &mut Packet<()>, _queue: usize, _now: Duration) {}

    fn come(&mut self, packet: &Packet<()>, _is_accepted: bool, _now: Duration) {
        *self.arrived.entry(class(packet.server, packet.kind)).or_default() += 1.0;
    }

    fn acknowledged(&mut self, _packet: &Packet<()>, _now: Duration) {}

    fn tick(&mut self, now: Duration) {
        while let Some((_, message)) = self.messages.pop_front_if(|(at, _)| *at <= now) {
            self.take(message, now);
        }
        if now - self.reported >= self.parameters.interval {
            self.report(now);
        }
    }
}

fn node(ingress: usize) -> NodeId {
    NodeId(u32::try_from(ingress).unwrap_or(u32::MAX))
}
