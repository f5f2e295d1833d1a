//! All paths that there are.

use petgraph::visit::EdgeRef;

use crate::Path;
use crate::network::{ArcId, Network, NodeId};

/// All paths from the source to the destination that visit no node twice; `None` if there are more than `most`, or if it takes too long to find out.
pub fn simple_paths(network: &Network, most: usize) -> Option<Vec<Path>> {
    let mut visited = vec![false; network.graph().node_count()];
    visited[network.source().index()] = true;
    let mut paths = Vec::new();
    let mut arcs: Vec<ArcId> = Vec::new();
    // For each node on the way the arcs by which to go on that were not tried. No recursion, for ways may be long.
    let mut untried = vec![leaving(network, network.source())];
    let mut steps = 0;
    while let Some(next) = untried.last_mut() {
        steps += 1;
        if paths.len() > most || steps > MOST_STEPS {
            return None;
        }
        let Some((arc, node)) = next.pop() else {
            untried.pop();
            if let Some(arc) = arcs.pop() {
                visited[network.ends(arc).1.index()] = false;
            }
            continue;
        };
        if node == network.destination() {
            paths.push(Path::new(network, [&arcs[..], &[arc]].concat()));
        } else if !std::mem::replace(&mut visited[node.index()], true) {
            arcs.push(arc);
            untried.push(leaving(network, node));
        }
    }
    Some(paths)
}

fn leaving(network: &Network, node: NodeId) -> Vec<(ArcId, NodeId)> {
    network.graph().edges(node).map(|edge| (edge.id(), edge.target())).collect()
}

/// Less than a second. Where paths are few and dead ends many, a search through all of them may take for ever.
const MOST_STEPS: u64 = 2_000_000;
