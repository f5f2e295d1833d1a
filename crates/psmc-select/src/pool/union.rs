//! The network that the candidates' routes make together.

use std::collections::{BTreeMap, BTreeSet};

use petgraph::graph::DiGraph;

use super::Candidate;
use crate::dice::Dice;
use crate::flow::maximum_bandwidth;
use crate::network::{Arc, ArcId, LinkId, Network, Node, NodeId};
use crate::{Bandwidth, Latency, Price};

/// The maximum flow through the routes of all candidates, each unit of which passes a relay or takes the direct route.
///
/// A link in both layers counts twice, and parts of routes combine anew; that makes it an upper bound. Without layers, units
/// might pass by all relays: that is another bound, and the lesser of the two holds.
pub(super) fn most(network: &Network, candidates: &[Candidate]) -> Bandwidth {
    let all: Vec<_> = candidates.iter().collect();
    let flow = |union: Union| maximum_bandwidth(&union.network);
    flow(Union::new(network, &all, true, None)).min(flow(Union::new(network, &all, false, None)))
}

/// The union of routes: the ways to relays, and the ways from them, are two layers, joined at the relays.
pub(crate) struct Union {
    pub(crate) network: Network,
    /// Arcs from the one layer to the other: each is a relay, or the beginning of routes without one.
    pub(crate) doors: BTreeMap<ArcId, Option<NodeId>>,
}

impl Union {
    /// `layered`: whether the ways to relays have a layer of their own. `renumber`: numbers nodes and links at random; any
    /// answer that depends on that is one of several.
    pub(crate) fn new(
        network: &Network,
        candidates: &[&Candidate],
        layered: bool,
        renumber: Option<&mut Dice>,
    ) -> Self {
        let mut arcs = Vec::new();
        let mut doors = BTreeSet::new();
        for candidate in candidates {
            let split = if layered { candidate.hops_to_relay } else { 0 };
            let (before, behind) = candidate.path.arcs().split_at(split);
            arcs.extend(before.iter().map(|arc| (0, *arc)));
            arcs.extend(behind.iter().map(|arc| (1, *arc)));
            doors.insert(candidate.relay.filter(|_| split > 0));
        }
        arcs.sort_unstable();
        arcs.dedup();
        if let Some(dice) = renumber {
            arcs = dice.sample(&arcs, arcs.len());
        }
        let places = vec![[None; 2]; network.graph().node_count()];
        Builder { original: network, graph: DiGraph::new(), places }.build(&arcs, &doors)
    }
}

struct Builder<'a> {
    original: &'a Network,
    graph: DiGraph<Node, Arc>,
    /// For each node of the original its places in both layers.
    places: Vec<[Option<NodeId>; 2]>,
}

impl Builder<'_> {
    fn build(mut self, arcs: &[(usize, ArcId)], doors: &BTreeSet<Option<NodeId>>) -> Union {
        for (layer, arc) in arcs {
            let (from, to) = self.original.ends(*arc);
            self.add((*layer, from), (*layer, to), *self.original.arc(*arc));
        }
        let door = Arc { link: LinkId::new(0), bandwidth: UNBOUNDED, latency: Latency::ZERO };
        let mut added = BTreeMap::new();
        for relay in doors {
            let node = relay.unwrap_or(self.original.source());
            added.insert(self.add((0, node), (1, node), door), *relay);
        }
        let source = self.place((0, self.original.source()));
        let destination = self.place((1, self.original.destination()));
        Union { network: Network::of_graph(self.graph, source, destination), doors: added }
    }

    /// Each arc is a link of its own, whatever link it was in the other network.
    fn add(&mut self, from: (usize, NodeId), to: (usize, NodeId), arc: Arc) -> ArcId {
        let (from, to) = (self.place(from), self.place(to));
        let link = LinkId::new(u32::try_from(self.graph.edge_count()).unwrap_or(u32::MAX));
        self.graph.add_edge(from, to, Arc { link, ..arc })
    }

    fn place(&mut self, at: (usize, NodeId)) -> NodeId {
        // Nobody asks for the names of these.
        let nameless = Node { name: String::new(), relay: false, provider: None, price: Price::default() };
        *self.places[at.1.index()][at.0].get_or_insert_with(|| self.graph.add_node(nameless))
    }
}

/// More than all links together carry, and far from where sums overflow.
const UNBOUNDED: Bandwidth = Bandwidth::from_bits_per_second(u64::MAX / 1024);
