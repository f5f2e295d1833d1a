//! Who may have what dropped: the rules that servers have, without clock and I/O.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use ipnet::IpNet;
use psmc_toml::Name;
use serde::{Deserialize, Serialize};

use crate::class::{Class, Ports, Protocol};
use crate::config::Owner;
use crate::message::{Decline, MAX_RULES, Reason, Refusal, Rules, Wanted};

/// The largest rate of a rule, in bytes per second: beyond any line, and as much as ExaBGP lets a rule of Flowspec have.
pub(crate) const MAX_RATE: u64 = 1_000_000_000_000;

/// A server, by its place among those of the configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ServerId(pub usize);

/// A rule that is in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// What its server calls it.
    pub name: Name,
    /// Whose packets are counted, and dropped.
    pub class: Class,
    /// Bytes per second that may pass; all if `None`.
    pub rate: Option<u64>,
}

/// What has become of messages and rules since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Messages whose rules were taken, all or some.
    pub taken: u64,
    /// Messages that were no newer than one before.
    pub replayed: u64,
    /// Messages that had ended before they came.
    pub expired: u64,
    /// Messages with more rules than their server may have.
    pub too_many: u64,
    /// Rules for destinations of others.
    pub foreign: u64,
    /// Rules that contradicted another one.
    pub contradictory: u64,
    /// Rules that were none.
    pub illegal: u64,
    /// Servers whose rules have ended because they were not said again.
    pub lapsed: u64,
}

/// What is in force for a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Its rules, the most specific first.
    pub rules: Vec<Rule>,
    /// When they end unless they are said again.
    pub until: Instant,
}

/// What becomes of a message whose rules are taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// How long they last.
    pub lifetime: Duration,
    /// Those that are not.
    pub refused: Vec<Refusal>,
}

/// The rules of all servers.
///
/// [`handle_rules`](Self::handle_rules) takes what a server says, [`handle_timeout`](Self::handle_timeout) ends what was not said
/// again. [`held`](Self::held) is what holds.
#[derive(Clone, Debug)]
pub struct Register {
    servers: Vec<Owner>,
    held: BTreeMap<ServerId, Held>,
    /// The largest serial number of each server.
    serials: BTreeMap<ServerId, u64>,
    counts: Counts,
}

impl Register {
    /// Of these servers, without rules.
    #[must_use]
    pub fn new(servers: Vec<Owner>) -> Self {
        Self { servers, held: BTreeMap::new(), serials: BTreeMap::new(), counts: Counts::default() }
    }

    /// Rules without limits for these classes, until then: of somebody who counts what comes, and asks nobody.
    #[must_use]
    pub fn counting(server: ServerId, classes: Vec<(Name, Class)>, until: Instant) -> Self {
        let mut rules: Vec<_> =
            classes.into_iter().map(|(name, class)| Rule { name, class, rate: None }).collect();
        rules.sort_by_key(|rule| rule.class.rank());
        let held = BTreeMap::from([(server, Held { rules, until })]);
        Self { held, ..Self::new(Vec::new()) }
    }

    /// Goes by other servers. Rules last that their server may still have; serial numbers of servers that stay are not
    /// forgotten.
    pub fn reconfigure(&mut self, servers: Vec<Owner>) {
        let place = |old: &Owner| servers.iter().position(|new| new.public_key == old.public_key);
        let places: BTreeMap<ServerId, ServerId> = (self.servers.iter().enumerate())
            .filter_map(|(number, old)| Some((ServerId(number), ServerId(place(old)?))))
            .collect();
        let moved = |id: &ServerId| places.get(id).copied();
        self.serials = self.serials.iter().filter_map(|(id, serial)| Some((moved(id)?, *serial))).collect();
        let held = std::mem::take(&mut self.held);
        self.held = held
            .into_iter()
            .filter_map(|(id, mut held)| {
                let id = moved(&id)?;
                let owner = &servers[id.0];
                held.rules.retain(|rule| owns(&owner.prefixes, rule.class.destination()));
                held.rules.truncate(owner.max_rules);
                Some((id, held))
            })
            .collect();
        self.servers = servers;
    }

    /// Takes all that a server wants, in place of what it wanted before, and says what of it is refused.
    /// `unix_ms` is the time since 1970, by which the message says when it ends, and `now` the same moment.
    ///
    /// # Errors
    /// [`Decline`]; then nothing has changed.
    pub fn handle_rules(
        &mut self,
        server: ServerId,
        said: &Rules,
        unix_ms: u64,
        now: Instant,
    ) -> Result<Taken, Decline> {
        let outcome = self.judge(server, said, unix_ms);
        let counts = &mut self.counts;
        match outcome {
            Ok(_) => counts.taken += 1,
            Err(Decline::Replayed) => counts.replayed += 1,
            Err(Decline::Expired) => counts.expired += 1,
            Err(Decline::TooMany | Decline::Other) => counts.too_many += 1,
        }
        let (rules, refused, lifetime) = outcome?;
        for refusal in &refused {
            match refusal.reason {
                Reason::Foreign => counts.foreign += 1,
                Reason::Contradictory => counts.contradictory += 1,
                Reason::Illegal | Reason::Other => counts.illegal += 1,
            }
        }
        self.serials.insert(server, said.serial);
        if rules.is_empty() {
            self.held.remove(&server);
        } else {
            self.held.insert(server, Held { rules, until: now + lifetime });
        }
        Ok(Taken { lifetime, refused })
    }

    /// Ends what was not said again.
    pub fn handle_timeout(&mut self, now: Instant) {
        let before = self.held.len();
        self.held.retain(|_, held| held.until > now);
        self.counts.lapsed += u64::try_from(before - self.held.len()).unwrap_or(u64::MAX);
    }

    /// When [`handle_timeout`](Self::handle_timeout) has something to do.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Instant> {
        self.held.values().map(|held| held.until).min()
    }

    /// What holds, by server.
    #[must_use]
    pub fn held(&self) -> &BTreeMap<ServerId, Held> {
        &self.held
    }

    /// The servers.
    #[must_use]
    pub fn servers(&self) -> &[Owner] {
        &self.servers
    }

    /// The destinations of a server's packets: its own, or those of its rules where nobody was asked.
    #[must_use]
    pub fn prefixes(&self, server: ServerId) -> Vec<IpNet> {
        match self.servers.get(server.0) {
            Some(owner) => owner.prefixes.clone(),
            None => {
                let rules = self.held.get(&server).into_iter().flat_map(|held| &held.rules);
                rules.map(|rule| rule.class.destination()).collect()
            }
        }
    }

    /// What has happened.
    #[must_use]
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The rules that a server may have of those it wants, those it may not have, and how long they last.
    fn judge(
        &self,
        server: ServerId,
        said: &Rules,
        unix_ms: u64,
    ) -> Result<(Vec<Rule>, Vec<Refusal>, Duration), Decline> {
        let owner = self.servers.get(server.0).ok_or(Decline::Other)?;
        if self.serials.get(&server).is_some_and(|last| said.serial <= *last) {
            return Err(Decline::Replayed);
        }
        let left = said.expires_ms.checked_sub(unix_ms).filter(|left| *left > 0).ok_or(Decline::Expired)?;
        if said.rules.len() > owner.max_rules.min(MAX_RULES) {
            return Err(Decline::TooMany);
        }
        let mut rules = Vec::new();
        let mut refused = Vec::new();
        for wanted in &said.rules {
            match rule(wanted, &owner.prefixes) {
                Ok(rule) => rules.push(rule),
                Err(reason) => refused.push(Refusal { name: wanted.name.clone(), reason }),
            }
        }
        let contradictory = contradictory(&rules);
        rules.retain(|rule| !contradictory.contains(&rule.name));
        let refusal = |name: Name| Refusal { name: name.to_string(), reason: Reason::Contradictory };
        refused.extend(contradictory.into_iter().map(refusal));
        rules.sort_by_key(|rule| rule.class.rank());
        Ok((rules, refused, Duration::from_millis(left).min(owner.max_lifetime)))
    }
}

/// Whether a destination is in one of these prefixes.
fn owns(prefixes: &[IpNet], destination: IpNet) -> bool {
    prefixes.iter().any(|prefix| prefix.contains(&destination))
}

fn rule(wanted: &Wanted, prefixes: &[IpNet]) -> Result<Rule, Reason> {
    let name = wanted.name.parse().map_err(|_| Reason::Illegal)?;
    let destination: IpNet = wanted.destination.parse().map_err(|_| Reason::Illegal)?;
    let ports = match wanted.ports {
        Some((first, last)) => Some(Ports::new(first, last).ok_or(Reason::Illegal)?),
        None => None,
    };
    let source =
        wanted.source.as_ref().map(|source| source.parse()).transpose().map_err(|_| Reason::Illegal)?;
    let class = Class::new(destination, wanted.protocol.map(Protocol), ports);
    let class = class.and_then(|class| class.coming_from(source)).map_err(|_| Reason::Illegal)?;
    if wanted.rate.is_some_and(|rate| rate > MAX_RATE) {
        return Err(Reason::Illegal);
    }
    if !owns(prefixes, class.destination()) {
        return Err(Reason::Foreign);
    }
    Ok(Rule { name, class, rate: wanted.rate })
}

/// The names of rules that share a name or a class with another one. Classes that only overlap contradict nobody: the most
/// specific counts.
fn contradictory(rules: &[Rule]) -> BTreeSet<Name> {
    let mut found = BTreeSet::new();
    for (number, rule) in rules.iter().enumerate() {
        for other in &rules[..number] {
            if other.name == rule.name || other.class == rule.class {
                found.extend([other.name.clone(), rule.name.clone()]);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use psmc_net::keys::PrivateKey;

    use super::*;

    const NOW_MS: u64 = 1_000_000;
    const HQ: ServerId = ServerId(0);

    fn owner(seed: u8, prefixes: &[&str]) -> Owner {
        Owner {
            name: format!("s{seed}").parse().unwrap(),
            public_key: PrivateKey::from_seed([seed; 32]).public(),
            prefixes: prefixes.iter().map(|prefix| prefix.parse().unwrap()).collect(),
            max_rules: 3,
            max_lifetime: Duration::from_secs(60),
        }
    }

    fn register() -> Register {
        Register::new(vec![owner(1, &["203.0.113.0/24", "2001:db8::/32"]), owner(2, &["198.51.100.0/24"])])
    }

    fn wanted(number: u32, destination: &str, rate: Option<u64>) -> Wanted {
        Wanted {
            name: number.to_string(),
            destination: destination.to_owned(),
            source: None,
            protocol: None,
            ports: None,
            rate,
        }
    }

    fn said(serial: u64, rules: Vec<Wanted>) -> Rules {
        Rules { serial, expires_ms: NOW_MS + 10_000, rules }
    }

    /// All that is said is taken.
    fn all() -> Taken {
        Taken { lifetime: Duration::from_secs(10), refused: Vec::new() }
    }

    fn rates(register: &Register) -> Vec<(u32, Option<u64>)> {
        let rules = register.held().values().flat_map(|held| &held.rules);
        rules.map(|rule| (rule.name.as_str().parse().unwrap(), rule.rate)).collect()
    }

    #[test]
    fn rules_replace_those_before_and_end_by_themselves() {
        let (mut register, start) = (register(), Instant::now());
        let first = said(1, vec![wanted(1, "203.0.113.0/24", Some(5)), wanted(2, "203.0.113.7/32", None)]);
        assert_eq!(register.handle_rules(HQ, &first, NOW_MS, start), Ok(all()));
        assert_eq!(rates(&register), [(2, None), (1, Some(5))], "the most specific first");
        assert_eq!(register.poll_timeout(), Some(start + Duration::from_secs(10)));
        let second = said(2, vec![wanted(1, "203.0.113.0/24", Some(9))]);
        register.handle_rules(HQ, &second, NOW_MS + 4_000, start + Duration::from_secs(4)).unwrap();
        assert_eq!(rates(&register), [(1, Some(9))]);
        register.handle_timeout(start + Duration::from_millis(9_999));
        assert_eq!(rates(&register).len(), 1);
        register.handle_timeout(start + Duration::from_secs(10));
        assert!(rates(&register).is_empty());
        assert_eq!((register.counts().lapsed, register.poll_timeout()), (1, None));
    }

    #[test]
    fn nobody_speaks_for_the_destinations_of_others() {
        let mut register = register();
        let rules = vec![
            wanted(1, "198.51.100.7/32", Some(0)),
            wanted(2, "203.0.112.0/23", Some(0)),
            wanted(3, "2001:db8:1::/48", Some(7)),
        ];
        let refused = register.handle_rules(HQ, &said(1, rules), NOW_MS, Instant::now()).unwrap().refused;
        let foreign = |number: u32| Refusal { name: number.to_string(), reason: Reason::Foreign };
        assert_eq!(refused, [foreign(1), foreign(2)]);
        assert_eq!(rates(&register), [(3, Some(7))]);
        assert_eq!(register.counts().foreign, 2);
    }

    #[test]
    fn what_was_said_before_counts_once() {
        let (mut register, now) = (register(), Instant::now());
        let first = said(7, vec![wanted(1, "203.0.113.0/24", Some(5))]);
        register.handle_rules(HQ, &first, NOW_MS, now).unwrap();
        for serial in [7, 6] {
            let again = said(serial, vec![wanted(1, "203.0.113.0/24", Some(0))]);
            assert_eq!(register.handle_rules(HQ, &again, NOW_MS, now), Err(Decline::Replayed));
        }
        let other = said(1, vec![wanted(1, "198.51.100.0/24", Some(0))]);
        assert_eq!(register.handle_rules(ServerId(1), &other, NOW_MS, now), Ok(all()));
        assert_eq!(rates(&register), [(1, Some(5)), (1, Some(0))]);
        assert_eq!(register.counts().replayed, 2);
    }

    #[test]
    fn what_is_over_or_too_much_changes_nothing() {
        let (mut register, now) = (register(), Instant::now());
        register.handle_rules(HQ, &said(1, vec![wanted(1, "203.0.113.0/24", Some(5))]), NOW_MS, now).unwrap();
        let late = said(2, vec![]);
        assert_eq!(register.handle_rules(HQ, &late, NOW_MS + 10_000, now), Err(Decline::Expired));
        let many = (0..10_000).map(|number| wanted(number, "203.0.113.0/24", Some(0))).collect();
        assert_eq!(register.handle_rules(HQ, &said(3, many), NOW_MS, now), Err(Decline::TooMany));
        assert_eq!(rates(&register), [(1, Some(5))]);
        assert_eq!((register.counts().expired, register.counts().too_many), (1, 1));
    }

    #[test]
    fn of_rules_that_contradict_each_other_none_counts() {
        let mut register = register();
        let rules = vec![
            wanted(1, "203.0.113.7/32", Some(5)),
            wanted(2, "203.0.113.7/32", Some(6)),
            wanted(3, "203.0.113.0/24", Some(7)),
        ];
        let refused = register.handle_rules(HQ, &said(1, rules), NOW_MS, Instant::now()).unwrap().refused;
        assert_eq!(refused.len(), 2);
        assert_eq!(rates(&register), [(3, Some(7))], "that one only overlaps them");
        assert_eq!(register.counts().contradictory, 2);
    }

    #[test]
    fn nonsense_is_refused() {
        let mut register = register();
        let mut ports = wanted(1, "203.0.113.7/32", Some(5));
        ports.ports = Some((80, 80));
        let rules = vec![ports, wanted(2, "everywhere", None), wanted(3, "203.0.113.8/32", Some(u64::MAX))];
        let refused = register.handle_rules(HQ, &said(1, rules), NOW_MS, Instant::now()).unwrap().refused;
        assert!(refused.iter().all(|refusal| refusal.reason == Reason::Illegal));
        assert_eq!((refused.len(), register.held().len()), (3, 0));
    }

    #[test]
    fn no_rule_outlives_what_the_router_grants() {
        let (mut register, now) = (register(), Instant::now());
        let rules = vec![wanted(1, "203.0.113.0/24", Some(5))];
        let forever = Rules { serial: 1, expires_ms: u64::MAX, rules };
        register.handle_rules(HQ, &forever, NOW_MS, now).unwrap();
        assert_eq!(register.poll_timeout(), Some(now + Duration::from_secs(60)));
    }

    #[test]
    fn another_configuration_takes_what_is_no_longer_owned() {
        let (mut register, now) = (register(), Instant::now());
        let rules = vec![wanted(1, "203.0.113.0/24", Some(5)), wanted(2, "2001:db8::/48", Some(6))];
        register.handle_rules(HQ, &said(5, rules), NOW_MS, now).unwrap();
        register.reconfigure(vec![owner(2, &["198.51.100.0/24"]), owner(1, &["2001:db8::/32"])]);
        assert_eq!(rates(&register), [(2, Some(6))]);
        let old = said(5, vec![]);
        assert_eq!(register.handle_rules(ServerId(1), &old, NOW_MS, now), Err(Decline::Replayed));
        register.reconfigure(vec![owner(2, &["198.51.100.0/24"])]);
        assert!(rates(&register).is_empty());
    }
}
