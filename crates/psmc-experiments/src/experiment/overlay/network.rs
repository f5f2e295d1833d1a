//! A network by chance, who is where in it, the flood, and which relays serve whom.

use std::time::Duration;

use psmc_select::generate::TransitStub;
use psmc_select::{Constraints, Draft, DraftLink, DraftNode, Objective, Pool, Problem, Steps, best};
use psmc_sim::overlay::{Line, Lines, NodeId};

use crate::dice::Dice;

/// A network with everybody in it.
pub(super) struct Network {
    /// Without the flood.
    pub(super) calm: Lines,
    /// During it.
    pub(super) flooded: Lines,
    pub(super) target: NodeId,
    pub(super) coordinator: NodeId,
    pub(super) main_gateway: NodeId,
    pub(super) gateways: [NodeId; 3],
    pub(super) relays: Vec<NodeId>,
    pub(super) clients: Vec<NodeId>,
    /// Name servers of the clients.
    pub(super) servers: Vec<NodeId>,
}

/// How far everybody is from a node, by the delays of the lines.
pub(super) struct Distances(Vec<Option<Duration>>);

impl Network {
    /// A network of so many nodes; `None` if it is too small for everybody.
    pub(super) fn generate(nodes: u32, seed: u64) -> Option<Self> {
        let model = TransitStub { uplinks: 0, ..TransitStub::new(nodes as usize, 0) };
        let draft = model.generate(seed);
        let mut dice = Dice::new(seed);
        let mut calm = Lines::new(nodes);
        let mut ends = Vec::new();
        for link in &draft.links {
            let (a, b) = (number(&link.from)?, number(&link.to)?);
            let line = Line {
                bits_per_second: link.bandwidth_mbps * 1e6,
                delay: Duration::from_secs_f64(link.latency_ms / 1e3),
                load: LOAD.0 + (LOAD.1 - LOAD.0) * dice.uniform(),
            };
            calm.lay(a, b, line);
            ends.push((a, b));
        }
        let transit = u32::try_from(model.transit_routers()).ok()?;
        let stubs = stubs(nodes, transit, &ends);
        let large: Vec<_> = stubs.into_iter().filter(|stub| stub.len() >= SITE).collect();
        let mut site = large.get(dice.below(large.len()))?.clone();
        dice.shuffle(&mut site);
        let site: [NodeId; SITE] = site.first_chunk().copied()?;
        let [target, coordinator, main_gateway, one, other, third] = site;
        let mut others: Vec<_> = (0..nodes).map(NodeId).filter(|node| !site.contains(node)).collect();
        dice.shuffle(&mut others);
        let mut take = |percent: usize| -> Vec<NodeId> {
            let count = nodes as usize * percent / 100;
            others.drain(..count.min(others.len())).collect()
        };
        let [relays, attackers, clients, servers] = [RELAYS, ATTACKERS, CLIENTS, SERVERS].map(&mut take);
        let mut flooded = calm.clone();
        for attacker in &attackers {
            flooded.add_traffic(*attacker, main_gateway, FLOOD / attackers.len() as f64, MOST_LOAD);
        }
        let gateways = [one, other, third];
        Some(Self { calm, flooded, target, coordinator, main_gateway, gateways, relays, clients, servers })
    }

    /// How far everybody is from a node.
    pub(super) fn distances(&self, from: NodeId) -> Distances {
        Distances(self.calm.distances(from))
    }
}

impl Distances {
    /// To a node, in ms; infinity where no way leads.
    pub(super) fn ms(&self, to: NodeId) -> f64 {
        self.0[to.0 as usize].map_or(f64::INFINITY, |distance| distance.as_secs_f64() * 1e3)
    }
}

/// The stub domains: what hangs together without the transit routers.
fn stubs(nodes: u32, transit: u32, ends: &[(NodeId, NodeId)]) -> Vec<Vec<NodeId>> {
    let mut neighbours = vec![Vec::new(); nodes as usize];
    for (a, b) in ends.iter().filter(|(a, b)| a.0 >= transit && b.0 >= transit) {
        neighbours[a.0 as usize].push(*b);
        neighbours[b.0 as usize].push(*a);
    }
    let mut seen = vec![false; nodes as usize];
    let mut stubs = Vec::new();
    for first in transit..nodes {
        let (mut stub, mut next) = (Vec::new(), vec![NodeId(first)]);
        while let Some(node) = next.pop() {
            if !std::mem::replace(&mut seen[node.0 as usize], true) {
                stub.push(node);
                next.extend(&neighbours[node.0 as usize]);
            }
        }
        stubs.push(stub);
    }
    stubs.retain(|stub| !stub.is_empty());
    stubs
}

/// That of a router by its name, which ends with it.
fn number(name: &str) -> Option<NodeId> {
    name.rsplit('-').next()?.parse().ok().map(NodeId)
}

/// How many nodes of a stub domain are the service's.
const SITE: usize = 6;

/// Shares of the nodes, in percent.
const RELAYS: usize = 10;
const ATTACKERS: usize = 5;
const CLIENTS: usize = 20;
const SERVERS: usize = 4;

/// Of each line, from and to: 60 % on average.
const LOAD: (f64, f64) = (0.4, 0.8);

/// What all attackers send together, in bits per second. It shuts the main gateway down, whatever else it meets: the seed keeps
/// everybody else from being attacked.
const FLOOD: f64 = 4e6;

/// No line is busier, for most of the traffic of others is TCP, which gives way.
const MOST_LOAD: f64 = 0.95;

/// The clients of a group, and their relays.
pub(super) struct Group {
    pub(super) clients: Vec<NodeId>,
    pub(super) relays: Vec<NodeId>,
}

/// Divides the clients into groups of 100 at most, and gives each the best relays that are left.
pub(super) fn groups(network: &Network) -> Option<Vec<Group>> {
    let far = network.distances(network.coordinator);
    let mut free: Vec<(NodeId, f64)> = network.relays.iter().map(|relay| (*relay, far.ms(*relay))).collect();
    let group = |clients: &[NodeId]| {
        let relays = choose(&free)?;
        free.retain(|(relay, _)| !relays.contains(relay));
        Some(Group { clients: clients.to_vec(), relays })
    };
    network.clients.chunks(GROUP).map(group).collect()
}

/// As the coordinator does: of all free relays those that carry the most together, and of these the nearest to it; all carry the
/// same.
fn choose(free: &[(NodeId, f64)]) -> Option<Vec<NodeId>> {
    let mut draft = Draft {
        source: "clients".to_owned(),
        destination: "gateway".to_owned(),
        nodes: vec![DraftNode::router("clients"), DraftNode::router("gateway")],
        ..Draft::default()
    };
    for (place, (_, latency_ms)) in free.iter().enumerate() {
        let relay = place.to_string();
        draft.links.push(DraftLink::new("clients", relay.as_str(), MBPS, *latency_ms));
        draft.links.push(DraftLink::new(relay.as_str(), "gateway", MBPS, 0.0));
        draft.nodes.push(DraftNode::relay(relay));
    }
    let graph = psmc_select::Network::build(&draft).ok()?;
    let constraints = Constraints { max_paths: RELAYS_OF_GROUP, least_share: None, ..Constraints::default() };
    let problem = Problem::new(&graph, Pool::of_relays(&graph), Objective::Latency, constraints).ok()?;
    let selection = best(&problem, 0, &mut Steps::new(MOST_STEPS)).selection?;
    let candidates = problem.pool().candidates();
    let chosen = |member: &usize| Some(free.get(candidates[*member].name.parse::<usize>().ok()?)?.0);
    selection.members.iter().map(chosen).collect()
}

/// Clients in a group.
const GROUP: usize = 100;

/// Relays of a group: what the coordinator gives it by default.
const RELAYS_OF_GROUP: usize = 3;

/// What each carries for the service.
const MBPS: f64 = 100.0;

/// As the coordinator, which makes its clients wait.
const MOST_STEPS: u64 = 500;

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn everybody_has_a_place_of_their_own() {
        for (nodes, seed) in [(100, 1), (500, 2), (1000, 3)] {
            let network = Network::generate(nodes, seed).unwrap();
            let Network { relays, clients, servers, .. } = &network;
            let counts = [relays, clients, servers].map(Vec::len);
            assert_eq!(counts.map(|count| count * 100 / nodes as usize), [10, 20, 4]);
            let site = [network.target, network.coordinator, network.main_gateway];
            let all = [relays, clients, servers].into_iter().flatten().chain(&site).chain(&network.gateways);
            assert_eq!(all.collect::<BTreeSet<_>>().len(), counts.iter().sum::<usize>() + SITE);
            let far = network.distances(network.coordinator);
            // A stub domain is small.
            assert!(site.iter().chain(&network.gateways).all(|node| far.ms(*node) < 12.0));
            assert!(clients.iter().all(|node| far.ms(*node).is_finite()));
        }
    }

    #[test]
    fn stub_domains_are_what_is_left_without_transit_routers() {
        let [a, b, c, d, e] = [0, 1, 2, 3, 4].map(NodeId);
        let stubs = stubs(5, 1, &[(a, b), (b, c), (a, d), (a, e)]);
        assert_eq!(stubs, [vec![b, c], vec![d], vec![e]]);
    }

    #[test]
    fn equal_seeds_give_equal_networks() {
        let clients = |seed| Network::generate(200, seed).unwrap().clients;
        assert_eq!(clients(4), clients(4));
        assert_ne!(clients(4), clients(5));
    }

    #[test]
    fn the_nearest_relays_are_chosen() {
        let far = [9.0, 2.0, 30.0, 1.0, 4.0, 12.0];
        let free: Vec<_> = (0..).map(NodeId).zip(far).collect();
        let mut chosen = choose(&free).unwrap();
        chosen.sort();
        assert_eq!(chosen, [1, 3, 4].map(NodeId));
    }

    #[test]
    fn no_relay_serves_two_groups() {
        let network = Network::generate(1000, 1).unwrap();
        let groups = groups(&network).unwrap();
        assert_eq!(groups.iter().map(|group| group.clients.len()).collect::<Vec<_>>(), [100, 100]);
        let mut relays: Vec<_> = groups.iter().flat_map(|group| &group.relays).collect();
        relays.sort();
        relays.dedup();
        assert_eq!(relays.len(), 6);
    }
}
