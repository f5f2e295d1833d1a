//! Networks by chance, like those that selections are tried on.

mod transit_stub;

use std::collections::BTreeSet;

use crate::dice::Dice;
use crate::network::{Draft, DraftLink, DraftNode};
pub use transit_stub::TransitStub;

/// The name of the source of every network that is generated.
pub const SOURCE: &str = "source";

/// And of the destination.
pub const DESTINATION: &str = "destination";

/// Hosts that are hung onto routers.
struct Hosts<'a> {
    relays: usize,
    /// To how many routers each of the ends is joined.
    uplinks: usize,
    /// Routers that hosts are attached to.
    routers: &'a [usize],
    /// Mbit/s of their links, from and to.
    bandwidth: (f64, f64),
}

impl Hosts<'_> {
    /// Adds both ends, and the relays with three providers in turn.
    fn attach(&self, draft: &mut Draft, dice: &mut Dice) {
        for name in [SOURCE, DESTINATION] {
            draft.nodes.push(DraftNode::router(name));
            for router in dice.sample(self.routers, self.uplinks) {
                self.join(draft, dice, name, router);
            }
        }
        let places = dice.sample(self.routers, self.relays);
        for number in 0..self.relays {
            // Where there are more relays than routers, some share one.
            let Some(router) = places.get(number % places.len().max(1)) else { return };
            let name = format!("relay-{number}");
            self.join(draft, dice, &name, *router);
            let provider = Some(format!("provider-{}", number % PROVIDERS));
            draft.nodes.push(DraftNode { provider, price: dice.between(0.0, 0.1), ..DraftNode::relay(name) });
        }
        (draft.source, draft.destination) = (SOURCE.to_owned(), DESTINATION.to_owned());
    }

    fn join(&self, draft: &mut Draft, dice: &mut Dice, name: &str, router: usize) {
        let bandwidth = dice.between(self.bandwidth.0, self.bandwidth.1);
        draft.links.push(DraftLink::new(name, router_name(router), bandwidth, dice.between(0.1, 1.0)));
    }
}

/// The routers and the links between them.
fn routers(edges: &Edges, mut bandwidth: impl FnMut(usize, usize) -> f64) -> Draft {
    let nodes = (0..edges.places.len()).map(|number| DraftNode::router(router_name(number))).collect();
    let link = |&(a, b): &(usize, usize)| {
        DraftLink::new(router_name(a), router_name(b), bandwidth(a, b), edges.latency_ms(a, b))
    };
    Draft { nodes, links: edges.pairs.iter().map(link).collect(), ..Draft::default() }
}

fn router_name(number: usize) -> String {
    format!("router-{number}")
}

/// Among whom the relays are divided.
const PROVIDERS: usize = 3;

// Places in the plane, and pairs of them that are joined.

/// Places in ms of light's way in a fibre, so that a distance is a latency.
#[derive(Default)]
struct Edges {
    places: Vec<(f64, f64)>,
    pairs: BTreeSet<(usize, usize)>,
}

impl Edges {
    /// Adds `count` places within `extent` of a corner, joined at random, but so that there is a way between any two; gives
    /// their numbers.
    ///
    /// After a random tree each further pair is joined with Waxman's probability α·exp(−d/(β·L)) (Waxman 1988, eq. 1), α such
    /// that `degree` links meet at a place on average.
    fn grow(&mut self, dice: &mut Dice, cluster: &Cluster) -> Vec<usize> {
        let first = self.places.len();
        for _ in 0..cluster.count {
            let (x, y) = (dice.between(0.0, cluster.extent), dice.between(0.0, cluster.extent));
            self.places.push((cluster.corner.0 + x, cluster.corner.1 + y));
        }
        let all: Vec<_> = (first..self.places.len()).collect();
        for place in 1..all.len() {
            self.join(all[dice.below(place)], all[place]);
        }
        // The tree has two ends of links a place.
        let missing = all.len() as f64 * (cluster.degree - 2.0).max(0.0) / 2.0;
        self.join_by_distance(dice, &all, cluster, missing);
        all
    }

    fn join_by_distance(&mut self, dice: &mut Dice, all: &[usize], cluster: &Cluster, missing: f64) {
        if all.len() < 3 {
            return;
        }
        // Draws pairs and keeps them by distance: the same as to ask each pair, but in time that grows with the links.
        let longest = cluster.extent * std::f64::consts::SQRT_2;
        let mut missing = missing.round();
        let mut draws = missing * DRAWS_PER_LINK;
        while missing >= 1.0 && draws >= 1.0 {
            draws -= 1.0;
            let (a, b) = (all[dice.below(all.len())], all[dice.below(all.len())]);
            let chance = (-self.latency_ms(a, b) / (cluster.beta * longest)).exp();
            if a != b && dice.happens(chance) && self.join(a, b) {
                missing -= 1.0;
            }
        }
    }

    /// Joins two places; says whether they were not joined before.
    fn join(&mut self, a: usize, b: usize) -> bool {
        self.pairs.insert((a.min(b), a.max(b)))
    }

    /// How far two places are from each other.
    fn latency_ms(&self, a: usize, b: usize) -> f64 {
        let ((ax, ay), (bx, by)) = (self.places[a], self.places[b]);
        (ax - bx).hypot(ay - by)
    }
}

/// Places that are joined among themselves.
struct Cluster {
    count: usize,
    corner: (f64, f64),
    extent: f64,
    /// How many links meet at a place on average.
    degree: f64,
    /// Waxman's β: the larger, the more long links.
    beta: f64,
}

/// After so many fruitless draws a cluster is as dense as it gets.
const DRAWS_PER_LINK: f64 = 200.0;

// Flat random networks, after Waxman (1988), "Routing of multipoint connections".

/// Routers placed at random in a square; nearby ones are more likely to be linked (Waxman).
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waxman {
    /// How many routers.
    pub routers: usize,
    /// How many relays, each at a router.
    pub relays: usize,
    /// By how many links each of the ends is joined to routers.
    pub uplinks: usize,
    /// How many links meet at a router on average; 2 is the least, a tree.
    pub degree: f64,
    /// Waxman's β: the larger, the more long links.
    pub beta: f64,
    /// The side of the square in ms.
    pub extent_ms: f64,
    /// Mbit/s of each link, from and to.
    pub bandwidth_mbps: (f64, f64),
}

impl Waxman {
    /// So many routers and relays, in a country of 20 ms.
    pub fn new(routers: usize, relays: usize) -> Self {
        Self {
            routers,
            relays,
            uplinks: 3,
            degree: 3.5,
            beta: 0.2,
            extent_ms: 20.0,
            bandwidth_mbps: (10.0, 100.0),
        }
    }

    /// The network. Equal seeds give equal ones.
    pub fn generate(&self, seed: u64) -> Draft {
        let mut dice = Dice::new(seed);
        let mut edges = Edges::default();
        let cluster = Cluster {
            count: self.routers.max(1),
            corner: (0.0, 0.0),
            extent: self.extent_ms,
            degree: self.degree,
            beta: self.beta,
        };
        let all = edges.grow(&mut dice, &cluster);
        let (low, high) = self.bandwidth_mbps;
        let mut draft = routers(&edges, |_, _| dice.between(low, high));
        let hosts = Hosts {
            relays: self.relays,
            uplinks: self.uplinks,
            routers: &all,
            bandwidth: self.bandwidth_mbps,
        };
        hosts.attach(&mut draft, &mut dice);
        draft
    }
}
