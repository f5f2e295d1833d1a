//! The network: hosts, routers, relays, and the links between them.

mod build;
mod draft;
mod error;
mod measured;

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};

use crate::{Bandwidth, Latency, Price};

pub use draft::{Draft, DraftLink, DraftNode, DraftRoute};
pub use error::{NetworkError, Place};
pub use measured::{Hop, Trace, TraceError};

/// A node's place in the graph.
pub type NodeId = NodeIndex<u32>;

/// The place in the graph of one direction of a link.
pub type ArcId = EdgeIndex<u32>;

/// A link: both of its directions have the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(u32);

/// A host, a router or a relay.
#[derive(Clone, Debug)]
pub struct Node {
    /// Its name.
    pub name: String,
    /// Whether it is a relay.
    pub relay: bool,
    /// Who runs it.
    pub provider: Option<String>,
    /// What a gigabyte through it costs.
    pub price: Price,
}

/// One direction of a link.
#[derive(Clone, Copy, Debug)]
pub struct Arc {
    /// The link.
    pub link: LinkId,
    /// What it carries in this direction, whatever it carries in the other: links are full duplex.
    pub bandwidth: Bandwidth,
    /// How long it takes.
    pub latency: Latency,
}

/// A graph of which it is known that names are unique, numbers make sense, and ends exist.
///
/// A link in both directions is two arcs. Links that are down are left out.
#[derive(Clone, Debug)]
pub struct Network {
    graph: DiGraph<Node, Arc>,
    source: NodeId,
    destination: NodeId,
    relays: Vec<NodeId>,
    measured: BTreeMap<(NodeId, NodeId), Vec<ArcId>>,
    direct: bool,
    links: u32,
}

impl Network {
    /// The graph.
    pub fn graph(&self) -> &DiGraph<Node, Arc> {
        &self.graph
    }

    /// Where the paths begin.
    pub fn source(&self) -> NodeId {
        self.source
    }

    /// Where they end.
    pub fn destination(&self) -> NodeId {
        self.destination
    }

    /// The candidates, in the order of the draft.
    pub fn relays(&self) -> &[NodeId] {
        &self.relays
    }

    /// Whether the route without a relay is a candidate too.
    pub fn has_direct(&self) -> bool {
        self.direct
    }

    /// How many links there are, those that are down included.
    pub fn link_count(&self) -> usize {
        self.links as usize
    }

    /// The name of a node.
    pub fn name(&self, node: NodeId) -> &str {
        &self.graph[node].name
    }

    /// One direction of a link.
    pub fn arc(&self, arc: ArcId) -> &Arc {
        &self.graph[arc]
    }

    /// Where an arc begins and ends.
    pub fn ends(&self, arc: ArcId) -> (NodeId, NodeId) {
        // Arcs are never removed, so an id that this network gave out is valid.
        self.graph.edge_endpoints(arc).unwrap_or_default()
    }

    /// A network made of the nodes of another.
    pub(crate) fn of_graph(graph: DiGraph<Node, Arc>, source: NodeId, destination: NodeId) -> Self {
        let links = graph.edge_weights().map(|arc| arc.link.0 + 1).max().unwrap_or(0);
        Self {
            graph,
            source,
            destination,
            relays: Vec::new(),
            measured: BTreeMap::new(),
            direct: false,
            links,
        }
    }

    /// The measured route between two nodes.
    pub(crate) fn measured(&self, from: NodeId, to: NodeId) -> Option<&[ArcId]> {
        self.measured.get(&(from, to)).map(Vec::as_slice)
    }
}

impl LinkId {
    /// The link of that index.
    pub(crate) fn new(index: u32) -> Self {
        Self(index)
    }

    /// As an index below [`Network::link_count`].
    pub fn index(self) -> usize {
        self.0 as usize
    }
}
