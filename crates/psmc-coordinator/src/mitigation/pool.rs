//! The relays there are, which of them work, and who has them.

use std::collections::BTreeMap;
use std::time::Duration;

use psmc_select::{Constraints, Draft, DraftLink, DraftNode, Network, Objective, Pool, Problem, Steps, best};

use super::Moment;

/// What is known of a relay before it was ever spoken to.
#[derive(Clone, Debug)]
pub struct RelayInfo {
    /// Its name.
    pub name: String,
    /// What it carries, in Mbit/s.
    pub capacity_mbps: f64,
    /// How far it is from clients, in milliseconds, if that is known better than by measuring from here.
    pub latency_ms: Option<f64>,
}

/// All relays.
#[derive(Debug)]
pub struct RelayPool(BTreeMap<String, Relay>);

#[derive(Debug)]
struct Relay {
    info: RelayInfo,
    alive: bool,
    rtt_ms: Option<f64>,
    /// Not chosen before that.
    shunned_until: Moment,
    /// The service that has it.
    user: Option<String>,
}

impl RelayPool {
    /// Relays of which nobody knows yet whether they work.
    #[must_use]
    pub fn new(relays: impl IntoIterator<Item = RelayInfo>) -> Self {
        let relay = |info: RelayInfo| {
            let relay =
                Relay { info, alive: false, rtt_ms: None, shunned_until: Moment::default(), user: None };
            (relay.info.name.clone(), relay)
        };
        Self(relays.into_iter().map(relay).collect())
    }

    /// These there are from here on. What is known of those that are the same as before is kept; nobody has any of them.
    pub fn replace(&mut self, relays: impl IntoIterator<Item = RelayInfo>, is_same: impl Fn(&str) -> bool) {
        let mut before = std::mem::replace(self, Self::new(relays));
        for (name, relay) in self.0.iter_mut().filter(|(name, _)| is_same(name)) {
            if let Some(known) = before.0.remove(name) {
                *relay = Relay { info: relay.info.clone(), user: None, ..known };
            }
        }
    }

    /// A relay answers, after this time.
    pub fn answers(&mut self, name: &str, rtt: Duration) {
        if let Some(relay) = self.0.get_mut(name) {
            relay.alive = true;
            relay.rtt_ms = Some(rtt.as_secs_f64() * 1000.0);
        }
    }

    /// A relay does not answer.
    pub fn is_silent(&mut self, name: &str) {
        if let Some(relay) = self.0.get_mut(name) {
            relay.alive = false;
        }
    }

    /// A relay does not do its work, whatever it answers: it is left alone for a while.
    pub(super) fn shun(&mut self, name: &str, now: Moment) {
        if let Some(relay) = self.0.get_mut(name) {
            relay.shunned_until = now + SHUNNED_FOR;
        }
    }

    /// Whether there is such a relay.
    #[must_use]
    pub fn has(&self, name: &str) -> bool {
        self.0.contains_key(name)
    }

    /// Whether a relay answers.
    #[must_use]
    pub fn is_alive(&self, name: &str) -> bool {
        self.0.get(name).is_some_and(|relay| relay.alive)
    }

    /// How long a relay takes to answer, in milliseconds.
    #[must_use]
    pub fn rtt_ms(&self, name: &str) -> Option<f64> {
        self.0.get(name).and_then(|relay| relay.rtt_ms)
    }

    /// The service that has a relay.
    #[must_use]
    pub fn user(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(|relay| relay.user.as_deref())
    }

    /// Gives a relay to a service that has it already.
    pub fn keep(&mut self, name: &str, service: &str) {
        if let Some(relay) = self.0.get_mut(name) {
            relay.user = Some(service.to_owned());
        }
    }

    /// Takes a relay back.
    pub(super) fn release(&mut self, name: &str) {
        if let Some(relay) = self.0.get_mut(name) {
            relay.user = None;
        }
    }

    /// How many relays are to be had.
    pub(super) fn count_free(&self, now: Moment) -> usize {
        self.0.values().filter(|relay| relay.is_free(now)).count()
    }

    /// The best `count` free relays, or fewer, which belong to `service` from now on: those that carry the most together, up to
    /// what is asked of each, and of these the nearest.
    pub(super) fn take(
        &mut self,
        service: &str,
        count: usize,
        wanted_mbps: Option<f64>,
        now: Moment,
    ) -> Vec<String> {
        let free: Vec<&Relay> = self.0.values().filter(|relay| relay.is_free(now)).collect();
        let chosen = choose(&free, count, wanted_mbps);
        for name in &chosen {
            self.keep(name, service);
        }
        chosen
    }
}

impl Relay {
    fn is_free(&self, now: Moment) -> bool {
        self.alive && self.user.is_none() && self.shunned_until <= now
    }

    /// To a client and back again, halved: what is known, or measured from here.
    fn latency_ms(&self) -> f64 {
        self.info.latency_ms.or(self.rtt_ms.map(|rtt| rtt / 2.0)).unwrap_or(UNKNOWN_LATENCY_MS)
    }

    fn mbps(&self, wanted: Option<f64>) -> f64 {
        wanted.map_or(self.info.capacity_mbps, |wanted| wanted.min(self.info.capacity_mbps))
    }
}

/// Which relays a selection from clients to the gateway leads over.
fn choose(free: &[&Relay], count: usize, wanted_mbps: Option<f64>) -> Vec<String> {
    if free.len() <= count {
        return by_latency(free.iter().copied());
    }
    let mut draft = Draft {
        source: CLIENTS.to_owned(),
        destination: GATEWAY.to_owned(),
        nodes: vec![DraftNode::router(CLIENTS), DraftNode::router(GATEWAY)],
        ..Draft::default()
    };
    for (number, relay) in free.iter().enumerate() {
        // People name relays; these names cannot be those of the ends.
        let node = number.to_string();
        let mbps = relay.mbps(wanted_mbps);
        draft.links.push(DraftLink::new(CLIENTS, node.as_str(), mbps, relay.latency_ms()));
        draft.links.push(DraftLink::new(node.as_str(), GATEWAY, mbps, 0.0));
        draft.nodes.push(DraftNode::relay(node));
    }
    let constraints = Constraints { max_paths: count, least_share: None, ..Constraints::default() };
    let selected = Network::build(&draft).ok().and_then(|network| {
        let problem =
            Problem::new(&network, Pool::of_relays(&network), Objective::Latency, constraints).ok()?;
        let selection = best(&problem, 0, &mut Steps::new(MOST_STEPS)).selection?;
        let candidates = problem.pool().candidates();
        Some(selection.members.iter().filter_map(|member| candidates[*member].name.parse().ok()).collect())
    });
    let selected: Vec<usize> = selected.unwrap_or_default();
    by_latency(selected.iter().map(|number| free[*number]))
}

fn by_latency<'a>(relays: impl Iterator<Item = &'a Relay>) -> Vec<String> {
    let mut relays: Vec<&Relay> = relays.collect();
    relays.sort_by(|a, b| a.latency_ms().total_cmp(&b.latency_ms()));
    relays.into_iter().map(|relay| relay.info.name.clone()).collect()
}

const CLIENTS: &str = "clients";

const GATEWAY: &str = "gateway";

/// Latency of a relay that nobody has measured: behind all that were.
const UNKNOWN_LATENCY_MS: f64 = 1000.0;

/// How long a relay that was reported is left alone: attackers move on, and machines restart.
const SHUNNED_FOR: Duration = Duration::from_secs(60);

/// Steps of the search: some ten milliseconds with a hundred relays, and clients wait.
const MOST_STEPS: u64 = 500;
