//! How the network routes: along the fastest way, unless another was measured.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction;
use petgraph::visit::EdgeRef;

use crate::Latency;
use crate::network::{ArcId, Network, NodeId};

/// The fastest ways between one node and all others (Dijkstra 1959), of equal ones the one with the fewest hops.
///
/// The ends of the paths are hosts: they forward nothing.
pub(crate) struct Tree {
    root: NodeId,
    direction: Direction,
    /// For each node the arc by which it is reached.
    arcs: Vec<Option<ArcId>>,
    /// What it cost to find them: arcs looked at and nodes taken from the queue.
    pub(crate) steps: u64,
}

/// How far a node is: what is fastest, then what has the fewest hops.
type Distance = (Latency, u32);

impl Tree {
    /// The ways from the source of the network, or to its destination.
    pub(crate) fn new(network: &Network, direction: Direction) -> Self {
        let root = match direction {
            Direction::Outgoing => network.source(),
            Direction::Incoming => network.destination(),
        };
        let nodes = network.graph().node_count();
        let mut tree = Self { root, direction, arcs: vec![None; nodes], steps: 0 };
        tree.grow(network);
        tree
    }

    fn grow(&mut self, network: &Network) {
        let mut distances: Vec<Option<Distance>> = vec![None; self.arcs.len()];
        let mut queue = BinaryHeap::from([Reverse(((Latency::ZERO, 0), self.root))]);
        distances[self.root.index()] = Some((Latency::ZERO, 0));
        while let Some(Reverse((distance, node))) = queue.pop() {
            self.steps += 1;
            let is_end = node == network.source() || node == network.destination();
            if distances[node.index()] != Some(distance) || (is_end && node != self.root) {
                continue;
            }
            for edge in network.graph().edges_directed(node, self.direction) {
                self.steps += 1;
                let next = if self.direction == Direction::Outgoing { edge.target() } else { edge.source() };
                let further = (distance.0 + edge.weight().latency, distance.1 + 1);
                if distances[next.index()].is_none_or(|known| further < known) {
                    distances[next.index()] = Some(further);
                    self.arcs[next.index()] = Some(edge.id());
                    queue.push(Reverse((further, next)));
                }
            }
        }
    }

    /// The arcs between the root and a node, in the order of travel; `None` if there is no way.
    pub(crate) fn way(&self, network: &Network, node: NodeId) -> Option<Vec<ArcId>> {
        let mut arcs = Vec::new();
        let mut at = node;
        while at != self.root {
            let arc = self.arcs[at.index()]?;
            arcs.push(arc);
            let ends = network.ends(arc);
            at = if self.direction == Direction::Outgoing { ends.0 } else { ends.1 };
        }
        if self.direction == Direction::Outgoing {
            arcs.reverse();
        }
        Some(arcs)
    }
}
