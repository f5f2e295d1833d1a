//! The network that the candidates' routes make together.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::algo::dinics;
use petgraph::graph::DiGraph;

use super::Candidate;
use crate::Bandwidth;
use crate::network::{ArcId, Network, NodeId};

/// The maximum flow through the routes of all candidates, each unit of which passes a relay or takes the direct route.
///
/// The ways to relays and from them are two layers, which are joined at relays only. A link in both layers counts twice, and
/// so do parts of routes combine anew; that makes it an upper bound. Without layers, units might pass by all relays: that is
/// another bound, and the lesser of the two holds.
pub(super) fn most(network: &Network, candidates: &[Candidate]) -> Bandwidth {
    let layered = Layers::new(candidates, |candidate| candidate.hops_to_relay);
    let flat = Layers::new(candidates, |_| 0);
    layered.flow(network).min(flat.flow(network))
}

/// The arcs before the relays, those behind them, and where one can go from the ones to the others.
struct Layers {
    arcs: [BTreeSet<ArcId>; 2],
    doors: BTreeSet<Option<NodeId>>,
}

impl Layers {
    fn new(candidates: &[Candidate], split: impl Fn(&Candidate) -> usize) -> Self {
        let mut layers = Self { arcs: Default::default(), doors: BTreeSet::new() };
        for candidate in candidates {
            let (before, behind) = candidate.path.arcs().split_at(split(candidate));
            layers.arcs[0].extend(before);
            layers.arcs[1].extend(behind);
            layers.doors.insert(candidate.relay.filter(|_| !before.is_empty()));
        }
        layers
    }

    fn flow(&self, network: &Network) -> Bandwidth {
        let mut graph: DiGraph<(), u64> = DiGraph::new();
        let mut places = BTreeMap::new();
        let mut place = |graph: &mut DiGraph<(), u64>, layer: usize, node: NodeId| {
            *places.entry((layer, node)).or_insert_with(|| graph.add_node(()))
        };
        let source = place(&mut graph, 0, network.source());
        let destination = place(&mut graph, 1, network.destination());
        for (layer, arcs) in self.arcs.iter().enumerate() {
            for arc in arcs {
                let (from, to) = network.ends(*arc);
                let (from, to) = (place(&mut graph, layer, from), place(&mut graph, layer, to));
                graph.add_edge(from, to, network.arc(*arc).bandwidth.bits_per_second());
            }
        }
        for door in &self.doors {
            let node = door.unwrap_or(network.source());
            let (from, to) = (place(&mut graph, 0, node), place(&mut graph, 1, node));
            graph.add_edge(from, to, UNBOUNDED);
        }
        Bandwidth::from_bits_per_second(dinics(&graph, source, destination).0)
    }
}

/// More than all links together carry, and far from where sums overflow.
const UNBOUNDED: u64 = u64::MAX / 4;
