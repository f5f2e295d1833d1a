//! A flow as paths.

use std::collections::BTreeMap;

use crate::network::{ArcId, Network, NodeId};
use crate::{Bandwidth, Path};

/// Paths that carry a flow together. What goes in circles, or to and fro on a link, carries nothing and is left out.
pub(super) fn paths(network: &Network, mut amounts: Vec<u64>) -> Vec<(Path, Bandwidth)> {
    cancel_opposites(network, &mut amounts);
    let mut paths = Vec::new();
    while let Some(arcs) = walk(network, &mut amounts) {
        // A path has at least one arc, and all of its arcs carry something.
        let carried = arcs.iter().map(|arc| amounts[arc.index()]).min().unwrap_or_default();
        arcs.iter().for_each(|arc| amounts[arc.index()] -= carried);
        paths.push((Path::new(network, arcs), Bandwidth::from_bits_per_second(carried)));
    }
    paths
}

/// What a link carries in both directions it need not carry.
fn cancel_opposites(network: &Network, amounts: &mut [u64]) {
    let mut by_link = BTreeMap::new();
    for arc in network.graph().edge_indices() {
        if let Some(other) = by_link.insert(network.arc(arc).link, arc) {
            let common = amounts[arc.index()].min(amounts[other.index()]);
            amounts[arc.index()] -= common;
            amounts[other.index()] -= common;
        }
    }
}

/// A way along arcs that carry something, from the source to the destination. Circles on it are emptied.
fn walk(network: &Network, amounts: &mut [u64]) -> Option<Vec<ArcId>> {
    let mut arcs: Vec<ArcId> = Vec::new();
    let mut visited = BTreeMap::from([(network.source(), 0_usize)]);
    let mut at = network.source();
    while at != network.destination() {
        let Some(arc) = fullest_arc(network, amounts, at) else {
            // Only the source of a flow that is used up has nowhere to go on.
            return None;
        };
        arcs.push(arc);
        at = network.ends(arc).1;
        if let Some(start) = visited.get(&at).copied() {
            empty_circle(amounts, &arcs[start..]);
            for arc in arcs.drain(start..) {
                visited.remove(&network.ends(arc).1);
            }
        }
        visited.insert(at, arcs.len());
    }
    Some(arcs)
}

fn fullest_arc(network: &Network, amounts: &[u64], from: NodeId) -> Option<ArcId> {
    let arcs = network.graph().edges(from).map(|edge| petgraph::visit::EdgeRef::id(&edge));
    arcs.filter(|arc| amounts[arc.index()] > 0).max_by_key(|arc| (amounts[arc.index()], *arc))
}

fn empty_circle(amounts: &mut [u64], circle: &[ArcId]) {
    let least = circle.iter().map(|arc| amounts[arc.index()]).min().unwrap_or_default();
    circle.iter().for_each(|arc| amounts[arc.index()] -= least);
}
