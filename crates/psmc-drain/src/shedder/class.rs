//! One class: its nodes, what they are offered, and whether it is overloaded.

use std::collections::BTreeMap;
use std::time::Duration;

use super::{Config, LEAST_ARRIVING, MAX_NODES, Method, Refusal, Report, STEPS};
use crate::NodeId;
use crate::split::{k_scaling, throttles};

/// A new report counts alone if it differs by more than this share: demand has shifted. Below, it is the noise of arrivals.
const SHIFT: f64 = 0.25;

/// The weight of a new report that confirms the old ones.
const WEIGHT: f64 = 0.25;

/// The weight of what has arrived last: losses behind nodes change with what nodes pass, and must be followed within a second.
const ARRIVED_WEIGHT: f64 = 0.5;

/// Rules are relaxed while no more than this share of the limit is offered: at the limit itself chance would begin and end it.
const CALM: f64 = 0.95;

/// A node uses its throttle if at least this share of it passes: what arrives in bursts never fills it.
const USED: f64 = 0.75;

/// How long a throttle may take to show in reports: the way there, an interval, and the way back, of any network.
const SETTLING: Duration = Duration::from_secs(1);

#[derive(Clone, Debug)]
pub(super) struct Class {
    accepted: f64,
    nodes: BTreeMap<NodeId, Node>,
    /// The share of what nodes pass that arrives.
    arriving: f64,
    /// What arrives by no node.
    beyond: f64,
    state: State,
}

/// ```text
///          more is offered than accepted               less, for a step, STEPS times
///  Calm ───────────────────────────────▶ Overloaded ──────────────────────────────▶ Calm
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// No rules.
    Calm,
    /// Rules, which have been relaxed by so many steps; less than the limit is offered since then.
    Overloaded { steps: u32, below_since: Option<Duration> },
}

#[derive(Clone, Copy, Debug)]
struct Node {
    /// When the last interval ended that was reported.
    until: Option<Duration>,
    /// Of when the last is that is known of it.
    heard: Duration,
    /// What it is offered per second, without most of the noise.
    offered: f64,
    /// What it let pass per second in the last interval. It is compared with what arrived then, so it is as it was.
    passed: f64,
    throttle: Option<Throttle>,
}

#[derive(Clone, Copy, Debug)]
struct Throttle {
    rate: f64,
    /// The lowest and the highest that it may have obeyed when it last reported.
    low: f64,
    high: f64,
    changed: Duration,
}

impl Class {
    pub(super) fn new(accepted: f64) -> Self {
        Self { accepted, nodes: BTreeMap::new(), arriving: 1.0, beyond: 0.0, state: State::Calm }
    }

    pub(super) fn accept(&mut self, rate: f64) {
        self.accepted = rate;
    }

    pub(super) fn accepted(&self) -> f64 {
        self.accepted
    }

    pub(super) fn report(
        &mut self,
        node: NodeId,
        report: &Report,
        now: Duration,
        memory: Duration,
    ) -> Result<(), Refusal> {
        self.make_room(node, now, memory)?;
        let seconds = report.interval.as_secs_f64();
        let (offered, passed) = (report.offered / seconds, report.passed / seconds);
        let Some(known) = self.nodes.get_mut(&node) else {
            self.nodes.insert(
                node,
                Node { until: Some(report.until), heard: report.until, offered, passed, throttle: None },
            );
            return Ok(());
        };
        match known.until {
            Some(until) if report.until <= until => return Err(Refusal::Overtaken),
            Some(_) => {
                known.offered = followed(known.offered, offered);
            }
            // Of an adopted node nothing but its throttle was known.
            None => known.offered = offered,
        }
        known.passed = passed;
        known.until = Some(report.until);
        known.heard = report.until;
        Ok(())
    }

    pub(super) fn arrived(&mut self, rate: f64, now: Duration, memory: Duration) {
        let passed: f64 = self.fresh(now, memory).map(|(_, node)| node.believed()).sum();
        let (arriving, beyond) = if rate < passed { (rate / passed, 0.0) } else { (1.0, rate - passed) };
        self.arriving += ARRIVED_WEIGHT * (arriving.max(LEAST_ARRIVING) - self.arriving);
        self.beyond += ARRIVED_WEIGHT * (beyond - self.beyond);
    }

    pub(super) fn adopt(
        &mut self,
        node: NodeId,
        rate: f64,
        now: Duration,
        memory: Duration,
    ) -> Result<(), Refusal> {
        self.make_room(node, now, memory)?;
        let throttle = Throttle { rate, low: rate, high: rate, changed: now };
        let fresh = Node { until: None, heard: now, offered: rate, passed: rate, throttle: None };
        self.nodes.entry(node).or_insert(fresh).throttle.get_or_insert(throttle);
        if self.state == State::Calm {
            self.state = State::Overloaded { steps: 0, below_since: None };
        }
        Ok(())
    }

    pub(super) fn offered(&self, now: Duration, memory: Duration) -> f64 {
        self.fresh(now, memory).map(|(_, node)| node.offered).sum()
    }

    /// What each node may let pass; nothing is said of any while the class is calm.
    pub(super) fn throttles(&mut self, config: &Config, now: Duration) -> Vec<(NodeId, f64)> {
        self.nodes.retain(|_, node| node.is_fresh(now, config.memory));
        let ids: Vec<_> = self.nodes.keys().copied().collect();
        // What may pass is what is accepted, and what will be lost on the way.
        let may_pass = self.accepted / self.arriving;
        self.step(may_pass, config, now);
        let State::Overloaded { steps, .. } = self.state else {
            self.nodes.values_mut().for_each(|node| node.throttle = None);
            return Vec::new();
        };
        let rates = match config.method {
            Method::MaxMin => {
                let demands: Vec<_> = self.nodes.values().map(|node| node.demand(config.headroom)).collect();
                throttles(may_pass, &demands, self.beyond, config.headroom)
            }
            Method::Seed { k } => {
                let arrivals: Vec<_> = self.nodes.values().map(|node| node.passed).collect();
                k_scaling(self.accepted, &arrivals, k)
            }
        };
        let relaxed = |rate: f64| rate + (may_pass - rate).max(0.0) * f64::from(steps) / f64::from(STEPS);
        let rates = rates.into_iter().map(relaxed);
        for (node, rate) in self.nodes.values_mut().zip(rates.clone()) {
            node.set_throttle(rate, now);
        }
        ids.into_iter().zip(rates).collect()
    }

    /// Whether the class is overloaded, by what is offered.
    fn step(&mut self, may_pass: f64, config: &Config, now: Duration) {
        let offered: f64 = self.nodes.values().map(|node| node.offered).sum::<f64>() + self.beyond;
        if offered > may_pass {
            self.state = State::Overloaded { steps: 0, below_since: None };
            return;
        }
        let State::Overloaded { steps, below_since } = &mut self.state else { return };
        if offered > CALM * may_pass {
            *below_since = None;
            return;
        }
        let since = *below_since.get_or_insert(now);
        if now.saturating_sub(since) < config.step {
            return;
        }
        *steps += 1;
        *below_since = Some(now);
        if *steps == STEPS {
            self.state = State::Calm;
        }
    }

    /// A node that is not known needs a place, which may be that of one that has said nothing for long.
    fn make_room(&mut self, node: NodeId, now: Duration, memory: Duration) -> Result<(), Refusal> {
        if self.nodes.contains_key(&node) || self.nodes.len() < MAX_NODES {
            return Ok(());
        }
        self.nodes.retain(|_, node| node.is_fresh(now, memory));
        if self.nodes.len() < MAX_NODES { Ok(()) } else { Err(Refusal::TooMany) }
    }

    fn fresh(&self, now: Duration, memory: Duration) -> impl Iterator<Item = (&NodeId, &Node)> {
        self.nodes.iter().filter(move |(_, node)| node.is_fresh(now, memory))
    }
}

impl Node {
    fn is_fresh(&self, now: Duration, memory: Duration) -> bool {
        now.saturating_sub(self.heard) <= memory
    }

    /// What it lets pass, as far as that is believed: no more than it may, and bursts.
    fn believed(&self) -> f64 {
        self.throttle.map_or(self.passed, |throttle| self.passed.min((1.0 + SHIFT) * throttle.high))
    }

    /// What it is offered, as far as that is believed: if it says that more comes than its throttle lets pass, then that must pass.
    fn demand(&self, headroom: f64) -> f64 {
        let Some(Throttle { low, .. }) = self.throttle else { return self.offered };
        let is_used = self.offered <= low || self.passed >= USED * low;
        if is_used { self.offered } else { self.offered.min(self.passed * (1.0 + headroom)) }
    }

    fn set_throttle(&mut self, rate: f64, now: Duration) {
        let old = self.throttle.unwrap_or(Throttle { rate, low: rate, high: rate, changed: now });
        let is_settled = now.saturating_sub(old.changed) >= SETTLING;
        let (low, high) = if is_settled { (old.rate, old.rate) } else { (old.low, old.high) };
        // While it stays about the same, those before it are forgotten once this one has settled.
        let is_same = (rate - old.rate).abs() <= SHIFT * old.rate;
        let changed = if is_same { old.changed } else { now };
        self.throttle = Some(Throttle { rate, low: low.min(rate), high: high.max(rate), changed });
    }
}

/// A rate that follows what is reported: shifts at once, noise slowly.
fn followed(old: f64, new: f64) -> f64 {
    if (new - old).abs() > SHIFT * old.max(new) { new } else { old + WEIGHT * (new - old) }
}
