//! Which rules BGP daemons are worth telling: those of classes of which more arrives than is accepted, the best first. Without clock
//! and I/O; times are since the agent's start.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use psmc_drain::ClassId;
use psmc_drain::choice::{Limits, Wanted, choose};
use psmc_toml::Name;
use serde::{Deserialize, Serialize};

use super::bgp::Told;
use super::engine::{Demand, Upstream, whole};
use crate::class::Class;
use crate::config::{Accept, Bgp, Means, Server};
use crate::status::{ServerStatus, ShareStatus};

/// More than this part of what is accepted must arrive for a rule to begin: chance alone brings a little more than the average.
const BEGINS: f64 = 1.05;

/// A rule is needed while at least this part of what is accepted arrives: what a rule lets pass is not measured better.
const NEEDED: f64 = 0.9;

/// A rule changes if what is accepted differs by more than this part of its rate.
const MIN_CHANGE: f64 = 0.1;

/// A rule of Flowspec (RFC 8955; RFC 8956 for IPv6): what of a class may pass, at every router that has it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowRule {
    /// The destination, a prefix.
    pub destination: IpNet,
    /// Where packets come from, a prefix; anywhere if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<IpNet>,
    /// The protocol's number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// The first and the last destination port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// Bytes per second (RFC 8955 §7.1).
    pub rate: u64,
}

impl FlowRule {
    fn new(class: &Class, rate: u64) -> Self {
        Self {
            destination: class.destination(),
            source: class.source(),
            protocol: class.protocol().map(|protocol| protocol.0),
            ports: class.ports().map(|ports| (ports.first(), ports.last())),
            rate,
        }
    }

    /// Whether another one is about the same packets: routers know one of both.
    #[must_use]
    pub fn is_of_same_packets(&self, other: &Self) -> bool {
        let packets = |rule: &Self| (rule.destination, rule.source, rule.protocol, rule.ports);
        packets(self) == packets(other)
    }
}

/// A class that may need a rule.
#[derive(Debug)]
struct State {
    name: Name,
    class: Class,
    accepted: u64,
    /// When a rule was last needed, while there is one.
    needed: Option<Duration>,
    /// The most that has arrived since it began to be needed.
    most: f64,
}

impl State {
    /// What is accepted is this. A rule is announced anew only where that makes a difference, for every router has to hear of it.
    fn follow(&mut self, accepted: f64) {
        let differs = (accepted - float(self.accepted)).abs() > MIN_CHANGE * float(self.accepted);
        if differs {
            self.accepted = whole(accepted);
        }
    }
}

/// A BGP daemon.
#[derive(Debug)]
struct Daemon {
    bgp: Bgp,
    /// Why each class has a rule there, or none.
    reasons: Vec<String>,
    rules: usize,
    told: Told,
}

/// Chooses rules for all BGP daemons of a server.
#[derive(Debug)]
pub struct Chooser {
    classes: Vec<State>,
    daemons: BTreeMap<Upstream, Daemon>,
}

impl Chooser {
    /// Of this server, without rules.
    #[must_use]
    pub fn new(config: &Server) -> Self {
        let state = |Accept { name, class, rate, .. }: &Accept| State {
            name: name.clone(),
            class: *class,
            accepted: *rate,
            needed: None,
            most: 0.0,
        };
        let daemon = |(number, by): (usize, &Means)| match by {
            Means::Agent(_) | Means::Relay(_) | Means::Site(_) => None,
            Means::Bgp(bgp) => {
                let bgp = bgp.clone();
                let daemon = Daemon { bgp, reasons: Vec::new(), rules: 0, told: Told::default() };
                Some((Upstream(number), daemon))
            }
        };
        let means = config.upstreams.iter().map(|upstream| &upstream.by).enumerate();
        Self {
            classes: config.accepts.iter().map(state).collect(),
            daemons: means.filter_map(daemon).collect(),
        }
    }

    /// What comes of each class, in the order of the configuration.
    pub fn handle_arrivals(&mut self, demands: &[Demand], now: Duration) {
        // A rule lasts as long as any daemon keeps it.
        let ttl = self.daemons.values().map(|daemon| daemon.bgp.ttl).max().unwrap_or_default();
        for (state, demand) in self.classes.iter_mut().zip(demands) {
            state.follow(demand.accepted);
            let least = if state.needed.is_some() { NEEDED } else { BEGINS };
            if demand.arriving > least * demand.accepted {
                state.needed = Some(now);
                state.most = state.most.max(demand.arriving + demand.shed);
            } else if state.needed.is_some_and(|needed| now.saturating_sub(needed) >= ttl) {
                (state.needed, state.most) = (None, 0.0);
            }
        }
    }

    /// What a daemon is to announce.
    pub fn rules(&mut self, upstream: Upstream, now: Duration) -> Vec<FlowRule> {
        let Some(daemon) = self.daemons.get_mut(&upstream) else { return Vec::new() };
        let ttl = daemon.bgp.ttl;
        let lasts = |state: &State| state.needed.is_some_and(|needed| now.saturating_sub(needed) < ttl);
        let wanted: Vec<Wanted> = (self.classes.iter().enumerate())
            .map(|(number, state)| Wanted {
                class: ClassId(u32::try_from(number).unwrap_or(u32::MAX)),
                source: anywhere(state.class.destination()),
                offered: if lasts(state) { state.most } else { 0.0 },
                rate: float(state.accepted),
            })
            .collect();
        let limits = Limits { max_rules: daemon.bgp.max_rules, shortest_v4: 0, shortest_v6: 0 };
        let choice = choose(&wanted, limits);
        let reason =
            |place| choice.explain(&wanted, place).map_or_else(String::new, |reason| reason.to_string());
        daemon.reasons = (0..self.classes.len()).map(reason).collect();
        let chosen =
            choice.rules.iter().filter_map(|rule| self.classes.get(usize::try_from(rule.class.0).ok()?));
        let rules: Vec<_> = chosen.map(|state| FlowRule::new(&state.class, state.accepted)).collect();
        daemon.rules = rules.len();
        rules
    }

    /// How it goes with a daemon.
    pub fn handle_told(&mut self, upstream: Upstream, told: Told) {
        if let Some(daemon) = self.daemons.get_mut(&upstream) {
            daemon.told = told;
        }
    }

    /// Says in a status what daemons have.
    pub fn add_to(&self, status: &mut ServerStatus) {
        for (upstream, daemon) in &self.daemons {
            let Some(of) = status.upstreams.get_mut(upstream.0) else { continue };
            let Told { is_current, found, error } = daemon.told.clone();
            (of.current, of.enforced, of.rules) = (is_current, is_current, daemon.rules);
            (of.found, of.error) = (found, error);
            let name = of.name.clone();
            for (class, (state, reason)) in
                status.classes.iter_mut().zip(self.classes.iter().zip(&daemon.reasons))
            {
                debug_assert_eq!(
                    class.name,
                    state.name.as_str(),
                    "both are in the order of the configuration"
                );
                let has_rule = state.needed.is_some() && !reason.starts_with("no rule");
                class.upstreams.push(ShareStatus {
                    upstream: name.clone(),
                    limit_bytes_per_s: has_rule.then_some(state.accepted),
                    offered_bytes_per_s: None,
                    reason: reason.clone(),
                });
            }
        }
    }
}

/// Every source of the family of a destination.
fn anywhere(destination: IpNet) -> IpNet {
    match destination {
        IpNet::V4(_) => Ipv4Net::new_assert(Ipv4Addr::UNSPECIFIED, 0).into(),
        IpNet::V6(_) => Ipv6Net::new_assert(Ipv6Addr::UNSPECIFIED, 0).into(),
    }
}

#[expect(clippy::cast_precision_loss, reason = "rates are not told to sixteen digits")]
fn float(bytes: u64) -> f64 {
    bytes as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::class::tests::class;
    use crate::config::{Basis, BgpDaemon, Upstream as Configured};

    const BGP: Upstream = Upstream(0);

    fn chooser(classes: usize, max_rules: usize) -> Chooser {
        let accept = |number: usize| Accept {
            name: format!("c{number}").parse().unwrap(),
            class: class(&format!("203.0.113.{number}/32 tcp 80")),
            rate: 1000,
            basis: Basis::File,
        };
        let daemon = BgpDaemon::GoBgp("127.0.0.1:50051".parse().unwrap());
        let by = Means::Bgp(Bgp { daemon, max_rules, ttl: Duration::from_secs(300) });
        Chooser::new(&Server {
            lifetime: Duration::from_secs(10),
            state_file: "/x".into(),
            accepts: (0..classes).map(accept).collect(),
            upstreams: vec![Configured { name: "bgp".parse().unwrap(), by }],
        })
    }

    fn arriving(rates: &[f64]) -> Vec<Demand> {
        rates.iter().map(|rate| Demand { accepted: 1000.0, arriving: *rate, shed: 0.0 }).collect()
    }

    fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_rule_begins_with_a_flood_and_lasts_while_it_is_needed() {
        let mut chooser = chooser(1, 10);
        let mut see = |rate, second| {
            chooser.handle_arrivals(&arriving(&[rate]), seconds(second));
            chooser.rules(BGP, seconds(second)).len()
        };
        assert_eq!(see(1040.0, 1), 0, "chance");
        assert_eq!(see(9000.0, 2), 1);
        assert_eq!(see(1000.0, 3), 1, "what the rule lets pass");
        assert_eq!((see(950.0, 200), see(100.0, 201)), (1, 1));
        assert_eq!((see(100.0, 499), see(100.0, 500)), (1, 0), "ttl after it was needed");
    }

    #[test]
    fn a_rule_follows_what_is_accepted_in_steps() {
        let mut chooser = chooser(1, 10);
        let mut rate = |accepted, second| {
            let demand = Demand { accepted, arriving: 9000.0, shed: 0.0 };
            chooser.handle_arrivals(&[demand], seconds(second));
            chooser.rules(BGP, seconds(second))[0].rate
        };
        assert_eq!((rate(1000.0, 1), rate(1090.0, 2), rate(1200.0, 3)), (1000, 1000, 1200));
    }

    #[test]
    fn of_many_the_best_are_chosen_and_it_is_said_why() {
        let mut chooser = chooser(200, 10);
        let rates: Vec<f64> = (0_u32..200).map(|number| 2000.0 + 10.0 * f64::from(number)).collect();
        chooser.handle_arrivals(&arriving(&rates), seconds(1));
        let rules = chooser.rules(BGP, seconds(1));
        let mut last: Vec<u8> = rules
            .iter()
            .map(|rule| rule.destination.addr().to_string().rsplit('.').next().unwrap().parse().unwrap())
            .collect();
        last.sort_unstable();
        assert_eq!(last, (190..200).collect::<Vec<u8>>());
        assert_eq!(rules[0].rate, 1000);
        let reasons = &chooser.daemons[&BGP].reasons;
        assert!(reasons[195].contains("of its own") && reasons[5].contains("save more"), "{reasons:?}");
    }
}
