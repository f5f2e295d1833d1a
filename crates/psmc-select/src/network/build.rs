//! From a draft to a network.

use std::collections::BTreeMap;

use petgraph::graph::DiGraph;

use super::error::MAX_SIZE;
use super::{Arc, ArcId, Draft, DraftLink, DraftNode, LinkId, Network, NetworkError, Node, NodeId, Place};
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
