//! Which relays serve whom.

use psmc_select::{Constraints, Draft, DraftLink, DraftNode, Objective, Pool, Problem, Steps, best};
use psmc_sim::overlay::NodeId;

use super::network::Network;

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
    let constraints = Constraints { max_paths: RELAYS, least_share: None, ..Constraints::default() };
    let problem = Problem::new(&graph, Pool::of_relays(&graph), Objective::Latency, constraints).ok()?;
    let selection = best(&problem, 0, &mut Steps::new(MOST_STEPS)).selection?;
    let candidates = problem.pool().candidates();
    let chosen = |member: &usize| Some(free.get(candidates[*member].name.parse::<usize>().ok()?)?.0);
    selection.members.iter().map(chosen).collect()
}

/// Clients in a group.
const GROUP: usize = 100;

/// Relays of a group: what the coordinator gives it by default.
const RELAYS: usize = 3;

/// What each carries for the service.
const MBPS: f64 = 100.0;

/// As the coordinator, which makes its clients wait.
const MOST_STEPS: u64 = 500;

#[cfg(test)]
mod tests {
    use super::*;

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
