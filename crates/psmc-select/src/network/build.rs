//! From a draft to a network.

use std::collections::BTreeMap;
use std::fmt;

use petgraph::graph::DiGraph;

use super::{Arc, ArcId, LinkId, Network, Node, NodeId};
use crate::{Bandwidth, Latency, Price, QuantityError};

impl Network {
    /// Checks a draft. The error is about the first thing that is wrong.
    pub fn build(draft: &Draft) -> Result<Self, NetworkError> {
        let mut builder = Builder::default();
        builder.add_all(draft)?;
        let (source, destination) = builder.ends_of(draft)?;
        let relays = builder.relays(source, destination)?;
        let measured = builder.routes(draft)?;
        Ok(Self {
            graph: builder.graph,
            source,
            destination,
            relays,
            measured,
            direct: draft.direct,
            links: builder.links,
        })
    }
}

/// A network that grows.
#[derive(Default)]
struct Builder {
    graph: DiGraph<Node, Arc>,
    names: BTreeMap<String, NodeId>,
    links: u32,
}

impl Builder {
    fn add_all(&mut self, draft: &Draft) -> Result<(), NetworkError> {
        if draft.nodes.len().max(draft.links.len()) > MAX_SIZE {
            return Err(NetworkError::TooLarge(draft.nodes.len(), draft.links.len()));
        }
        draft.nodes.iter().try_for_each(|node| self.add_node(node))?;
        draft.links.iter().try_for_each(|link| self.add_link(link))
    }

    fn add_node(&mut self, draft: &DraftNode) -> Result<(), NetworkError> {
        if self.names.contains_key(&draft.name) {
            return Err(NetworkError::DuplicateNode(draft.name.clone()));
        }
        let place = || Place::Node(draft.name.clone());
        let price = quantity("price", place, Price::per_gigabyte(draft.price))?;
        let (relay, provider) = (draft.relay, draft.provider.clone());
        self.insert(Node { name: draft.name.clone(), relay, provider, price }).map(drop)
    }

    fn add_link(&mut self, draft: &DraftLink) -> Result<(), NetworkError> {
        let place = || Place::Link(draft.from.clone(), draft.to.clone());
        let bandwidth = quantity("bandwidth", place, Bandwidth::from_mbps(draft.bandwidth_mbps))?;
        let latency = quantity("latency", place, Latency::from_ms(draft.latency_ms))?;
        if draft.from == draft.to {
            return Err(NetworkError::Loop(draft.from.clone()));
        }
        let (from, to) = (self.node(&draft.from)?, self.node(&draft.to)?);
        let arc = Arc { link: LinkId(self.links), bandwidth, latency };
        self.links += 1;
        if bandwidth == Bandwidth::ZERO {
            return Ok(());
        }
        self.graph.add_edge(from, to, arc);
        if !draft.directed {
            self.graph.add_edge(to, from, arc);
        }
        Ok(())
    }

    /// The node of that name, a router if it is new.
    fn node(&mut self, name: &str) -> Result<NodeId, NetworkError> {
        if let Some(node) = self.names.get(name) {
            return Ok(*node);
        }
        self.insert(Node { name: name.to_owned(), relay: false, provider: None, price: Price::default() })
    }

    fn insert(&mut self, node: Node) -> Result<NodeId, NetworkError> {
        if node.name.is_empty() {
            return Err(NetworkError::NamelessNode);
        }
        let name = node.name.clone();
        let id = self.graph.add_node(node);
        self.names.insert(name, id);
        Ok(id)
    }

    fn ends_of(&self, draft: &Draft) -> Result<(NodeId, NodeId), NetworkError> {
        let find = |what, name: &str| {
            let node = self.names.get(name).copied();
            node.ok_or_else(|| NetworkError::UnknownEnd { what, name: name.to_owned() })
        };
        let ends = (find("source", &draft.source)?, find("destination", &draft.destination)?);
        if ends.0 == ends.1 { Err(NetworkError::SameEnds(draft.source.clone())) } else { Ok(ends) }
    }

    fn relays(&self, source: NodeId, destination: NodeId) -> Result<Vec<NodeId>, NetworkError> {
        let refuse = |node: NodeId, end| Err(NetworkError::RelayIsEnd(self.graph[node].name.clone(), end));
        let relays: Vec<_> = self.graph.node_indices().filter(|node| self.graph[*node].relay).collect();
        match relays.iter().find(|relay| **relay == source || **relay == destination) {
            Some(relay) if *relay == source => refuse(*relay, "source"),
            Some(relay) => refuse(*relay, "destination"),
            None => Ok(relays),
        }
    }

    fn routes(&self, draft: &Draft) -> Result<BTreeMap<(NodeId, NodeId), Vec<ArcId>>, NetworkError> {
        let mut routes = BTreeMap::new();
        for route in &draft.routes {
            let [first, .., last] = route.nodes.as_slice() else {
                return Err(NetworkError::ShortRoute);
            };
            let arcs: Result<Vec<_>, _> =
                route.nodes.windows(2).map(|hop| self.arc_between(&hop[0], &hop[1])).collect();
            let arcs = arcs?;
            // Each hop has a link, so both ends are known.
            if let (Some(from), Some(to)) = (self.names.get(first), self.names.get(last)) {
                routes.insert((*from, *to), arcs);
            }
        }
        Ok(routes)
    }

    /// The widest of the arcs between two nodes.
    fn arc_between(&self, from: &str, to: &str) -> Result<ArcId, NetworkError> {
        let ends = self.names.get(from).zip(self.names.get(to));
        let arcs = ends.into_iter().flat_map(|(from, to)| self.graph.edges_connecting(*from, *to));
        let widest = arcs.max_by_key(|edge| edge.weight().bandwidth);
        let id = widest.map(|edge| petgraph::visit::EdgeRef::id(&edge));
        id.ok_or_else(|| NetworkError::BrokenRoute { from: from.to_owned(), to: to.to_owned() })
    }
}

/// A quantity, or the complaint about it.
fn quantity<T>(
    what: &'static str,
    place: impl Fn() -> Place,
    value: Result<T, QuantityError>,
) -> Result<T, NetworkError> {
    value.map_err(|cause| NetworkError::Quantity { what, place: place(), cause })
}

// A network as it is written down, before anybody has looked whether it is one.

/// A network in plain numbers and names, as files and measurements have it. [`Network::build`](crate::Network::build) checks it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Draft {
    /// Where the paths begin.
    pub source: String,
    /// Where they end.
    pub destination: String,
    /// Hosts, routers and relays. Those that only links name are routers.
    pub nodes: Vec<DraftNode>,
    /// Links between them.
    pub links: Vec<DraftLink>,
    /// Routes that were measured, and so are not guessed.
    pub routes: Vec<DraftRoute>,
    /// Whether the route without a relay is a candidate too.
    pub direct: bool,
}

/// A host, a router or a relay.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct DraftNode {
    /// Its name, which is unique.
    pub name: String,
    /// Whether it is a relay, and so a candidate.
    pub relay: bool,
    /// Who runs it.
    pub provider: Option<String>,
    /// What a gigabyte through it costs.
    pub price: f64,
}

/// A link.
#[derive(Clone, Debug, PartialEq)]
pub struct DraftLink {
    /// One end.
    pub from: String,
    /// The other end.
    pub to: String,
    /// Its bandwidth in Mbit/s, in each direction. A link of 0 is down.
    pub bandwidth_mbps: f64,
    /// Its latency in ms, in each direction.
    pub latency_ms: f64,
    /// Whether it leads only from `from` to `to`.
    pub directed: bool,
}

/// The nodes on a way, in order; links must join them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DraftRoute {
    /// Their names, both ends included.
    pub nodes: Vec<String>,
}

impl DraftNode {
    /// A router or a host.
    pub fn router(name: impl Into<String>) -> Self {
        Self { name: name.into(), ..Self::default() }
    }

    /// A relay.
    pub fn relay(name: impl Into<String>) -> Self {
        Self { name: name.into(), relay: true, ..Self::default() }
    }
}

impl DraftLink {
    /// A link in both directions.
    pub fn new(from: impl Into<String>, to: impl Into<String>, bandwidth_mbps: f64, latency_ms: f64) -> Self {
        Self { from: from.into(), to: to.into(), bandwidth_mbps, latency_ms, directed: false }
    }

    /// A link in one direction.
    pub fn directed(
        from: impl Into<String>,
        to: impl Into<String>,
        bandwidth_mbps: f64,
        latency_ms: f64,
    ) -> Self {
        Self { directed: true, ..Self::new(from, to, bandwidth_mbps, latency_ms) }
    }
}

// What can be wrong with a network.

/// Why a draft is no network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NetworkError {
    /// Two nodes have one name.
    #[error("two nodes are called {0:?}; rename one, or remove it")]
    DuplicateNode(String),
    /// A node without a name.
    #[error("a node has no name; give it one")]
    NamelessNode,
    /// The source or the destination is neither a node nor at a link.
    #[error("the {what} {name:?} is neither a node nor the end of a link; add it, or correct the name")]
    UnknownEnd {
        /// `source` or `destination`.
        what: &'static str,
        /// What it should be called.
        name: String,
    },
    /// Paths would have no length.
    #[error("{0:?} is both source and destination; choose two nodes")]
    SameEnds(String),
    /// A relay has to lie between the ends.
    #[error("the relay {0:?} is also the {1}; remove one of the two roles")]
    RelayIsEnd(String, &'static str),
    /// A link joins a node with itself.
    #[error("a link joins {0:?} with itself; remove it")]
    Loop(String),
    /// A number that is none.
    #[error("the {what} of {place} {cause}")]
    Quantity {
        /// Which number.
        what: &'static str,
        /// Whose number.
        place: Place,
        /// What is wrong with it.
        cause: QuantityError,
    },
    /// A measured route uses a link that is not there.
    #[error(
        "a route goes from {from:?} to {to:?}, but no link that is up does; add the link or correct the route"
    )]
    BrokenRoute {
        /// The hop before.
        from: String,
        /// The hop after.
        to: String,
    },
    /// A measured route has a single node or none.
    #[error("a route has fewer than two nodes; it needs both of its ends")]
    ShortRoute,
    /// More than the numbers of nodes and links can count.
    #[error("a network has at most {MAX_SIZE} nodes and as many links; this one has {0} nodes and {1} links")]
    TooLarge(usize, usize),
}

/// What a number belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A node.
    Node(String),
    /// A link.
    Link(String, String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name:?}"),
            Self::Link(from, to) => write!(f, "the link from {from:?} to {to:?}"),
        }
    }
}

/// Nodes, and links, because sums of the bandwidths and latencies of so many fit into 64 bits.
const MAX_SIZE: usize = 4_000_000;
