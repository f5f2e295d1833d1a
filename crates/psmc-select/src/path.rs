//! A path: what it carries, how long it takes, what it shares with another.

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
