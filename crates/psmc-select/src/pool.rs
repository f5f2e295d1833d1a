//! The pool: the paths that there are to choose from.

mod packing;

use std::collections::{BTreeMap, BTreeSet};

use petgraph::Direction;
use petgraph::graph::DiGraph;

use crate::dice::Dice;
use crate::flow::maximum_bandwidth;
use crate::network::{Arc, ArcId, LinkId, Network, Node, NodeId};
use crate::path::Tree;
use crate::{Bandwidth, Latency, Path, Price};
pub(crate) use packing::Packing;

/// A path that can be chosen.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The relay that it leads over; `None` for the route that the network itself takes.
    pub relay: Option<NodeId>,
    /// What people call it: the relay's name, or `direct`.
    pub name: String,
    /// The route.
    pub path: Path,
    /// Who runs the relay.
    pub provider: Option<String>,
    /// What a gigabyte over it costs.
    pub price: Price,
    /// How many of its arcs come before the relay.
    hops_to_relay: usize,
}

/// The candidates, and what is known about them together.
#[derive(Clone, Debug)]
pub struct Pool {
    candidates: Vec<Candidate>,
    unreachable: Vec<NodeId>,
    packing: Packing,
    most: Bandwidth,
    steps: u64,
}

impl Pool {
    /// A candidate for each relay, in the network's order, and one without a relay if the network says so: the first.
    ///
    /// Each leg of a route is as measured, or else the fastest.
    pub fn of_relays(network: &Network) -> Self {
        let legs = Legs::new(network);
        let direct = network.has_direct().then(|| legs.direct(network)).flatten();
        let mut unreachable = Vec::new();
        let mut candidates: Vec<_> = direct.into_iter().collect();
        for relay in network.relays() {
            match legs.over(network, *relay) {
                Some(candidate) => candidates.push(candidate),
                None => unreachable.push(*relay),
            }
        }
        Self { unreachable, steps: legs.steps(), ..Self::new(network, candidates) }
    }

    /// Candidates that are whatever paths.
    pub fn of_paths(network: &Network, paths: impl IntoIterator<Item = Path>) -> Self {
        let names = (1..).map(|number: u32| format!("path {number}"));
        let candidates = paths.into_iter().zip(names).map(|(path, name)| Candidate::bare(name, path));
        Self::new(network, candidates.collect())
    }

    fn new(network: &Network, candidates: Vec<Candidate>) -> Self {
        let packing = Packing::new(network, &candidates);
        let most = most(network, &candidates);
        Self { candidates, unreachable: Vec::new(), packing, most, steps: 0 }
    }

    /// The candidates. Whatever speaks of a candidate by number means its place here.
    pub fn candidates(&self) -> &[Candidate] {
        &self.candidates
    }

    /// Relays over which no route leads.
    pub fn unreachable(&self) -> &[NodeId] {
        &self.unreachable
    }

    /// W: the maximum flow through the links of all candidates. No choice among them carries more.
    pub fn most(&self) -> Bandwidth {
        self.most
    }

    /// The maximum flow through the union of the routes along the routes themselves: what these candidates carry together
    /// if links that they share are shared in the best way.
    pub fn flow(&self, set: &[usize]) -> Bandwidth {
        self.packing.flow(set)
    }

    /// What it cost to find the routes, in looks at nodes and links.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    pub(crate) fn packing(&self) -> &Packing {
        &self.packing
    }
}

impl Candidate {
    /// The link by which it leaves the source.
    pub fn uplink(&self, network: &Network) -> Option<LinkId> {
        self.path.arcs().first().map(|arc| network.arc(*arc).link)
    }

    fn bare(name: String, path: Path) -> Self {
        Self { relay: None, name, path, provider: None, price: Price::default(), hops_to_relay: 0 }
    }
}

/// The ways to relays and from them.
struct Legs {
    out: Tree,
    back: Tree,
}

impl Legs {
    fn new(network: &Network) -> Self {
        Self { out: Tree::new(network, Direction::Outgoing), back: Tree::new(network, Direction::Incoming) }
    }

    fn steps(&self) -> u64 {
        self.out.steps + self.back.steps
    }

    fn direct(&self, network: &Network) -> Option<Candidate> {
        let (source, destination) = (network.source(), network.destination());
        let measured = network.measured(source, destination).map(<[_]>::to_vec);
        let arcs = measured.or_else(|| self.out.way(network, destination))?;
        Some(Candidate::bare("direct".to_owned(), Path::new(network, arcs)))
    }

    fn over(&self, network: &Network, relay: NodeId) -> Option<Candidate> {
        let measured = |from, to| network.measured(from, to).map(<[_]>::to_vec);
        let out = measured(network.source(), relay).or_else(|| self.out.way(network, relay))?;
        let back = measured(relay, network.destination()).or_else(|| self.back.way(network, relay))?;
        let hops_to_relay = out.len();
        let path = Path::new(network, [out, back].concat());
        let node = &network.graph()[relay];
        Some(Candidate {
            relay: Some(relay),
            name: node.name.clone(),
            path,
            provider: node.provider.clone(),
            price: node.price,
            hops_to_relay,
        })
    }
}

// The network that the candidates' routes make together.

/// The maximum flow through the routes of all candidates, each unit of which passes a relay or takes the direct route.
///
/// A link in both layers counts twice, and parts of routes combine anew; that makes it an upper bound. Without layers, units
/// might pass by all relays: that is another bound, and the lesser of the two holds.
fn most(network: &Network, candidates: &[Candidate]) -> Bandwidth {
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
