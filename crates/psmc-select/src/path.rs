//! A path: what it carries, how long it takes, what it shares with another.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use petgraph::Direction;
use petgraph::visit::EdgeRef;

use crate::network::{ArcId, LinkId, Network, NodeId};
use crate::{Bandwidth, Latency};

/// A way from one node to another, along arcs that follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    arcs: Vec<ArcId>,
    nodes: Vec<NodeId>,
    links: Vec<PathLink>,
    bandwidth: Bandwidth,
    latency: Latency,
}

/// A link of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct PathLink {
    link: LinkId,
    bandwidth: Bandwidth,
    latency: Latency,
}

/// What is counted when two paths share links: the seed allows for three.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum JointnessBy {
    /// How many they are.
    #[default]
    Links,
    /// Their bandwidth: sharing a wide link is worse.
    Bandwidth,
    /// Their latency: sharing a long link is worse.
    Latency,
}

/// What paths must not share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Disjointness {
    /// Links, in either direction.
    Links,
    /// Nodes, but for the ends; and so links.
    Nodes,
}

impl Path {
    /// The path along these arcs, at least one.
    pub fn new(network: &Network, arcs: Vec<ArcId>) -> Self {
        let first = arcs.first().map(|arc| network.ends(*arc).0);
        let nodes = first.into_iter().chain(arcs.iter().map(|arc| network.ends(*arc).1)).collect();
        let of_arc = |id: &ArcId| {
            let arc = network.arc(*id);
            PathLink { link: arc.link, bandwidth: arc.bandwidth, latency: arc.latency }
        };
        let mut links: Vec<_> = arcs.iter().map(of_arc).collect();
        let bandwidth = links.iter().map(|link| link.bandwidth).min().unwrap_or_default();
        let latency = links.iter().map(|link| link.latency).sum();
        links.sort_unstable();
        links.dedup();
        Self { arcs, nodes, links, bandwidth, latency }
    }

    /// Its arcs, in order.
    pub fn arcs(&self) -> &[ArcId] {
        &self.arcs
    }

    /// Its nodes, in order, both ends included.
    pub fn nodes(&self) -> &[NodeId] {
        &self.nodes
    }

    /// BW(p): that of its narrowest link.
    pub fn bandwidth(&self) -> Bandwidth {
        self.bandwidth
    }

    /// L(p): the sum of its links'.
    pub fn latency(&self) -> Latency {
        self.latency
    }

    /// What two paths share, of all that they have: 0 if they are disjoint, 1 if they use the same links.
    pub fn jointness(&self, other: &Self, by: JointnessBy) -> f64 {
        let weight = |link: &PathLink| match by {
            JointnessBy::Links => 1.0,
            JointnessBy::Bandwidth => link.bandwidth.mbps(),
            JointnessBy::Latency => link.latency.ms(),
        };
        let total = |path: &Self| path.links.iter().map(weight).sum::<f64>();
        let shared: f64 = self.shared(other).map(weight).sum();
        let all = total(self) + total(other) - shared;
        if all > 0.0 { shared / all } else { 0.0 }
    }

    /// Whether two paths are disjoint.
    pub fn is_disjoint(&self, other: &Self, kind: Disjointness) -> bool {
        let links = self.shared(other).next().is_none();
        match kind {
            Disjointness::Links => links,
            Disjointness::Nodes => links && !self.inner().iter().any(|node| other.inner().contains(node)),
        }
    }

    fn shared<'a>(&'a self, other: &'a Self) -> impl Iterator<Item = &'a PathLink> {
        self.links.iter().filter(|link| other.links.binary_search(link).is_ok())
    }

    fn inner(&self) -> &[NodeId] {
        self.nodes.get(1..self.nodes.len().saturating_sub(1)).unwrap_or_default()
    }
}

// All paths that there are.

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

// How the network routes: along the fastest way, unless another was measured.

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
