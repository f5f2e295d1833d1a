//! Flows through the whole network, whatever relays there are: what the seed's lemmas 5.1 to 5.3 speak of.

use std::collections::{BTreeMap, VecDeque};

use petgraph::algo::dinics;
use petgraph::graph::DiGraph;

use crate::network::{ArcId, Network, NodeId};
use crate::{Bandwidth, Disjointness, Path};

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
    let mut residual = Residual::new(network.graph().node_count());
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
        let mut paths = paths(network, amounts);
        paths.sort_by_key(|(path, carried)| (std::cmp::Reverse(*carried), path.latency()));
        Self { bandwidth: Bandwidth::from_bits_per_second(most), paths }
    }
}

// Disjoint paths as a flow: each link, and perhaps each node, holds one unit.

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
        paths(self.network, amounts).into_iter().map(|(path, _)| path).collect()
    }
}

fn entry(node: NodeId) -> usize {
    2 * node.index()
}

fn exit(node: NodeId) -> usize {
    2 * node.index() + 1
}

// Flows of least cost, by successive shortest paths.

/// The residual network: what can still be sent, and what can be taken back.
pub(crate) struct Residual {
    /// For each place the edges that leave it.
    leaving: Vec<Vec<usize>>,
    /// Edges and, each behind the one that it takes back, their opposites.
    edges: Vec<Edge>,
}

#[derive(Clone, Copy)]
struct Edge {
    to: usize,
    free: u64,
    cost: i64,
}

impl Residual {
    /// So many places without an edge.
    pub(crate) fn new(places: usize) -> Self {
        Self { leaving: vec![Vec::new(); places], edges: Vec::new() }
    }

    /// Adds an edge that carries up to `capacity`, each unit at that cost, which is not negative; gives its number.
    pub(crate) fn add(&mut self, from: usize, to: usize, capacity: u64, cost: i64) -> usize {
        let number = self.edges.len();
        self.leaving[from].push(number);
        self.leaving[to].push(number + 1);
        self.edges.push(Edge { to, free: capacity, cost });
        self.edges.push(Edge { to: from, free: 0, cost: -cost });
        number
    }

    /// What an edge carries.
    pub(crate) fn sent(&self, edge: usize) -> u64 {
        self.edges[edge ^ 1].free
    }

    /// Sends up to `most` more along the cheapest way, and says how much. What is sent in all is then the cheapest flow of
    /// that size.
    pub(crate) fn augment(&mut self, source: usize, destination: usize, most: u64) -> u64 {
        let Some(edges) = self.cheapest_way(source, destination) else { return 0 };
        let amount = edges.iter().map(|edge| self.edges[*edge].free).min().unwrap_or(0).min(most);
        for edge in edges {
            self.edges[edge].free -= amount;
            self.edges[edge ^ 1].free += amount;
        }
        amount
    }

    /// By Bellman and Ford with a queue: taking back has a negative cost.
    fn cheapest_way(&self, source: usize, destination: usize) -> Option<Vec<usize>> {
        let mut costs: Vec<Option<i64>> = vec![None; self.leaving.len()];
        let mut reached_by: Vec<Option<usize>> = vec![None; self.leaving.len()];
        let mut is_queued = vec![false; self.leaving.len()];
        costs[source] = Some(0);
        let mut queue = VecDeque::from([source]);
        while let Some(place) = queue.pop_front() {
            is_queued[place] = false;
            let Some(so_far) = costs[place] else { continue };
            for edge in &self.leaving[place] {
                let Edge { to, free, cost } = self.edges[*edge];
                if free > 0 && costs[to].is_none_or(|known| so_far + cost < known) {
                    costs[to] = Some(so_far + cost);
                    reached_by[to] = Some(*edge);
                    if !std::mem::replace(&mut is_queued[to], true) {
                        queue.push_back(to);
                    }
                }
            }
        }
        self.way_back(source, destination, &reached_by)
    }

    fn way_back(
        &self,
        source: usize,
        destination: usize,
        reached_by: &[Option<usize>],
    ) -> Option<Vec<usize>> {
        let mut edges = Vec::new();
        let mut at = destination;
        while at != source {
            let edge = reached_by[at]?;
            edges.push(edge);
            at = self.edges[edge ^ 1].to;
        }
        Some(edges)
    }
}

// A flow as paths.

/// Paths that carry a flow together. What goes in circles, or to and fro on a link, carries nothing and is left out.
fn paths(network: &Network, mut amounts: Vec<u64>) -> Vec<(Path, Bandwidth)> {
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
