//! Disjoint paths as a flow: each link, and perhaps each node, holds one unit.

use super::decompose;
use super::residual::Residual;
use crate::network::{ArcId, Network, NodeId};
use crate::{Disjointness, Path};

/// Disjoint paths of least cost, one more at a time.
///
/// Where nodes are to be disjoint, each is two, its entry and its exit, with one unit between them (the seed's figure 5.3).
pub(crate) struct UnitFlow<'a> {
    network: &'a Network,
    residual: Residual,
    /// The edge of each arc that can be used.
    edges: Vec<(ArcId, usize)>,
}

impl<'a> UnitFlow<'a> {
    /// Along the arcs that have a price. What is sent both ways on a link cancels, so a link is used in one direction only.
    pub(crate) fn new(
        network: &'a Network,
        kind: Disjointness,
        price: impl Fn(ArcId) -> Option<i64>,
    ) -> Self {
        let mut residual = Residual::new(2 * network.graph().node_count());
        for node in network.graph().node_indices() {
            let is_end = node == network.source() || node == network.destination();
            let capacity = if is_end || kind == Disjointness::Links { u64::MAX / 4 } else { 1 };
            residual.add(entry(node), exit(node), capacity, 0);
        }
        let mut edges = Vec::new();
        for arc in network.graph().edge_indices() {
            if let Some(price) = price(arc) {
                let (from, to) = network.ends(arc);
                edges.push((arc, residual.add(exit(from), entry(to), 1, price)));
            }
        }
        Self { network, residual, edges }
    }

    /// Adds a path; says whether there was one.
    pub(crate) fn augment(&mut self) -> bool {
        let (source, destination) = (exit(self.network.source()), entry(self.network.destination()));
        self.residual.augment(source, destination, 1) > 0
    }

    /// The paths.
    pub(crate) fn paths(&self) -> Vec<Path> {
        let mut amounts = vec![0; self.network.graph().edge_count()];
        for (arc, edge) in &self.edges {
            amounts[arc.index()] = self.residual.sent(*edge);
        }
        decompose::paths(self.network, amounts).into_iter().map(|(path, _)| path).collect()
    }
}

fn entry(node: NodeId) -> usize {
    2 * node.index()
}

fn exit(node: NodeId) -> usize {
    2 * node.index() + 1
}
