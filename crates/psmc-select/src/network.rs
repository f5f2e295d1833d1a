//! The network: hosts, routers, relays, and the links between them.

mod build;

use std::collections::BTreeMap;

use petgraph::graph::{DiGraph, EdgeIndex, NodeIndex};

use crate::{Bandwidth, Latency, Price};
pub use build::{Draft, DraftLink, DraftNode, DraftRoute, NetworkError, Place};

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

// Networks from measurements: what `traceroute` and `pathchar` print.

/// The hops between two nodes.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    /// Where it was measured.
    pub from: String,
    /// The hops, the last of which is where it leads.
    pub hops: Vec<Hop>,
}

/// A hop of a trace.
#[derive(Clone, Debug, PartialEq)]
pub struct Hop {
    /// The router, or at last the host.
    pub node: String,
    /// The round trip from the beginning of the trace to here, in ms.
    pub rtt_ms: f64,
    /// The bandwidth of the link that leads here, in Mbit/s.
    pub bandwidth_mbps: f64,
}

/// Why traces are no network.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TraceError {
    /// Nothing was measured.
    #[error("the trace from {0:?} has no hops; measure it again, or remove it")]
    Empty(String),
    /// It comes to a place for the second time.
    #[error("the trace from {0:?} visits {1:?} twice; the route changed meanwhile, measure it again")]
    Circle(String, String),
}

impl Draft {
    /// Adds what was measured: routers, links, and the routes themselves, which are then used as they are.
    ///
    /// A link's latency is half of what the round trip grows by. Where several traces share a link, it has the least latency
    /// (queues only add to it) and the least bandwidth (to be on the safe side).
    pub fn add_traces(&mut self, traces: &[Trace]) -> Result<(), TraceError> {
        let mut links = BTreeMap::new();
        for trace in traces {
            self.routes.push(trace.route()?);
            for (ends, figures) in trace.links() {
                let known = links.entry(ends).or_insert(figures);
                *known = (least(known.0, figures.0), least(known.1, figures.1));
            }
        }
        let link = |((from, to), (bandwidth, latency))| DraftLink::directed(from, to, bandwidth, latency);
        self.links.extend(links.into_iter().map(link));
        self.add_missing_nodes();
        Ok(())
    }

    fn add_missing_nodes(&mut self) {
        let mut known: std::collections::BTreeSet<_> =
            self.nodes.iter().map(|node| node.name.clone()).collect();
        let names = self.routes.iter().flat_map(|route| &route.nodes);
        let new: Vec<_> = names.filter(|name| known.insert((*name).clone())).cloned().collect();
        self.nodes.extend(new.into_iter().map(DraftNode::router));
    }
}

impl Trace {
    fn route(&self) -> Result<DraftRoute, TraceError> {
        if self.hops.is_empty() {
            return Err(TraceError::Empty(self.from.clone()));
        }
        let mut nodes = vec![self.from.clone()];
        for hop in &self.hops {
            if nodes.contains(&hop.node) {
                return Err(TraceError::Circle(self.from.clone(), hop.node.clone()));
            }
            nodes.push(hop.node.clone());
        }
        Ok(DraftRoute { nodes })
    }

    /// The links with their bandwidths and latencies. A round trip that shrinks on the way is noise: a latency of 0.
    fn links(&self) -> impl Iterator<Item = ((String, String), (f64, f64))> {
        let mut before = (self.from.as_str(), 0.0_f64);
        self.hops.iter().map(move |hop| {
            let (from, rtt) = before;
            before = (&hop.node, hop.rtt_ms.max(rtt));
            // What is no round trip must be heard of, and so is kept.
            let latency = if hop.rtt_ms >= 0.0 { ((hop.rtt_ms - rtt) / 2.0).max(0.0) } else { hop.rtt_ms };
            ((from.to_owned(), hop.node.clone()), (hop.bandwidth_mbps, latency))
        })
    }
}

/// The lesser of two numbers; none, if one of them is none.
fn least(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}
