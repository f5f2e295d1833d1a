//! The pool: the paths that there are to choose from.

mod packing;
mod simplex;
mod union;

use petgraph::Direction;

use crate::network::{LinkId, Network, NodeId};
use crate::route::Tree;
use crate::{Bandwidth, Path, Price};

pub(crate) use packing::Packing;
pub(crate) use union::Union;

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
        let most = union::most(network, &candidates);
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
