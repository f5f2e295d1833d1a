//! Small random networks, and what brute force says about them.

use proptest::prelude::*;
use psmc_select::{ArcId, Draft, DraftLink, DraftNode, JointnessBy, Network, NodeId, Objective, Path};

/// Networks of up to 14 nodes, two of them ends and up to seven of them relays, joined at random.
pub(crate) fn networks() -> impl Strategy<Value = Network> {
    (4_usize..=14).prop_flat_map(|nodes| {
        let link = (0..nodes, 0..nodes, 1_u32..=12, 0_u32..=9, any::<bool>());
        (Just(nodes), prop::collection::vec(link, nodes..=3 * nodes), 1..=7_usize, any::<bool>())
            .prop_map(|(nodes, links, relays, direct)| network(nodes, &links, relays, direct))
    })
}

fn network(nodes: usize, links: &[(usize, usize, u32, u32, bool)], relays: usize, direct: bool) -> Network {
    let node = |number: usize| DraftNode {
        provider: number.is_multiple_of(2).then(|| format!("p{}", number % 3)),
        price: (number % 5) as f64,
        relay: (2..2 + relays.min(nodes - 2)).contains(&number),
        name: format!("n{number}"),
    };
    let link = |&(a, b, bandwidth, latency, directed): &(usize, usize, u32, u32, bool)| DraftLink {
        directed,
        ..DraftLink::new(format!("n{a}"), format!("n{b}"), f64::from(bandwidth), f64::from(latency))
    };
    let links = links.iter().filter(|(a, b, ..)| a != b).map(link).collect();
    let nodes = (0..nodes).map(node).collect();
    let draft = Draft { source: "n0".into(), destination: "n1".into(), nodes, links, direct, routes: vec![] };
    Network::build(&draft).unwrap()
}

pub(crate) fn objectives() -> impl Strategy<Value = Objective> {
    let by = prop::sample::select(vec![JointnessBy::Links, JointnessBy::Bandwidth, JointnessBy::Latency]);
    (0..5, by, 0.1..3.0).prop_map(|(kind, by, weight)| match kind {
        0 => Objective::Bandwidth,
        1 => Objective::Latency,
        2 => Objective::Jointness(by),
        3 => Objective::Weighted { weight, by },
        _ => Objective::SeedWeighted { weight, by },
    })
}

/// All paths that visit no node twice.
pub(crate) fn simple_paths(network: &Network) -> Vec<Path> {
    let mut paths = Vec::new();
    walk(network, &mut vec![network.source()], &mut Vec::new(), &mut paths);
    paths
}

fn walk(network: &Network, nodes: &mut Vec<NodeId>, arcs: &mut Vec<ArcId>, paths: &mut Vec<Path>) {
    let at = nodes[nodes.len() - 1];
    if at == network.destination() {
        return paths.push(Path::new(network, arcs.clone()));
    }
    let leaving: Vec<_> = network.graph().edge_indices().filter(|arc| network.ends(*arc).0 == at).collect();
    for arc in leaving {
        let next = network.ends(arc).1;
        if !nodes.contains(&next) {
            nodes.push(next);
            arcs.push(arc);
            walk(network, nodes, arcs, paths);
            nodes.pop();
            arcs.pop();
        }
    }
}
