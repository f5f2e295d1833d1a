//! Flows through the whole network, whatever relays there are: what the seed's lemmas 5.1 to 5.3 speak of.

mod decompose;
mod residual;
mod units;

use petgraph::algo::dinics;
use petgraph::graph::DiGraph;

use crate::network::{ArcId, Network};
use crate::{Bandwidth, Disjointness, Path};

pub(crate) use units::UnitFlow;

/// Paths through the network, and what each carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flow {
    /// The sum.
    pub bandwidth: Bandwidth,
    /// The paths, the one that carries most first.
    pub paths: Vec<(Path, Bandwidth)>,
}

/// Lemma 5.1: the most that paths can carry together from the source to the destination, by maximum flow.
pub fn maximum_flow(network: &Network) -> Flow {
    let (most, amounts) = arc_flow(network);
    Flow::new(network, most, amounts)
}

/// The same without its paths.
pub(crate) fn maximum_bandwidth(network: &Network) -> Bandwidth {
    Bandwidth::from_bits_per_second(arc_flow(network).0)
}

/// The same, and what goes along each arc.
fn arc_flow(network: &Network) -> (u64, Vec<u64>) {
    let capacities: DiGraph<(), u64> =
        network.graph().map(|_, _| (), |_, arc| arc.bandwidth.bits_per_second());
    dinics(&capacities, network.source(), network.destination())
}

/// A maximum flow that costs least: each unit pays for the arcs that it uses.
pub(crate) fn cheapest_maximum_flow(
    network: &Network,
    capacity: impl Fn(ArcId) -> u64,
    cost: impl Fn(ArcId) -> i64,
) -> Flow {
    let mut residual = residual::Residual::new(network.graph().node_count());
    let mut edges = Vec::new();
    for arc in network.graph().edge_indices() {
        let (from, to) = network.ends(arc);
        edges.push(residual.add(from.index(), to.index(), capacity(arc), cost(arc)));
    }
    let ends = (network.source().index(), network.destination().index());
    let mut most = 0;
    loop {
        match residual.augment(ends.0, ends.1, u64::MAX) {
            0 => break,
            amount => most += amount,
        }
    }
    Flow::new(network, most, edges.into_iter().map(|edge| residual.sent(edge)).collect())
}

/// Lemmas 5.2 and 5.3: as many disjoint paths as there are, by maximum flow with unit capacities.
pub fn most_disjoint_paths(network: &Network, kind: Disjointness) -> Vec<Path> {
    disjoint_paths(network, kind, usize::MAX, |_| true)
}

/// Disjoint paths along arcs that are allowed: at most so many, and fewer only if there are no more.
pub(crate) fn disjoint_paths(
    network: &Network,
    kind: Disjointness,
    most: usize,
    allowed: impl Fn(ArcId) -> bool,
) -> Vec<Path> {
    let mut flow = UnitFlow::new(network, kind, |arc| allowed(arc).then_some(0));
    let mut found = 0;
    while found < most && flow.augment() {
        found += 1;
    }
    flow.paths()
}

impl Flow {
    /// From what goes along each arc.
    fn new(network: &Network, most: u64, amounts: Vec<u64>) -> Self {
        let mut paths = decompose::paths(network, amounts);
        paths.sort_by_key(|(path, carried)| (std::cmp::Reverse(*carried), path.latency()));
        Self { bandwidth: Bandwidth::from_bits_per_second(most), paths }
    }
}
