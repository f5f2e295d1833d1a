//! Networks of domains: the transit–stub model of GT-ITM (Zegura, Calvert, Bhattacharjee 1996, "How to model an
//! internetwork").

use super::{Cluster, Edges};
use super::{Hosts, routers};
use crate::dice::Dice;
use crate::network::Draft;

/// Transit domains joined with each other; stub domains hung onto their routers, some of them at two places.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct TransitStub {
    /// How many routers, about.
    pub routers: usize,
    /// How many relays, each at a router of a stub domain.
    pub relays: usize,
    /// By how many links each of the ends is joined to routers.
    pub uplinks: usize,
    /// How many routers a transit domain has.
    pub transit_size: usize,
    /// How many stub domains hang at each router of a transit domain.
    pub stubs_per_router: usize,
    /// The chance that a stub domain hangs at a second router.
    pub second_home: f64,
    /// Mbit/s of links within transit domains and between them, from and to.
    pub transit_mbps: (f64, f64),
    /// Mbit/s of all other links, from and to.
    pub stub_mbps: (f64, f64),
}

impl TransitStub {
    /// So many routers and relays. Where there are more routers, stub domains are larger, and then transit domains more.
    pub fn new(routers: usize, relays: usize) -> Self {
        Self {
            routers,
            relays,
            uplinks: 3,
            transit_size: 4,
            stubs_per_router: 3,
            second_home: 0.3,
            transit_mbps: (100.0, 1000.0),
            stub_mbps: (10.0, 100.0),
        }
    }

    /// The network. Equal seeds give equal ones.
    pub fn generate(&self, seed: u64) -> Draft {
        let mut dice = Dice::new(seed);
        let mut edges = Edges::default();
        let transit = self.transit(&mut edges, &mut dice);
        let stubs = self.stubs(&mut edges, &mut dice, &transit);
        let mut draft = routers(&edges, |a, b| {
            let both = transit.contains(&a) && transit.contains(&b);
            let (low, high) = if both { self.transit_mbps } else { self.stub_mbps };
            dice.between(low, high)
        });
        // The smallest networks have no stub domains.
        let places = if stubs.is_empty() { transit.collect() } else { stubs };
        let hosts =
            Hosts { relays: self.relays, uplinks: self.uplinks, routers: &places, bandwidth: self.stub_mbps };
        hosts.attach(&mut draft, &mut dice);
        draft
    }

    /// How many routers are in transit domains: the first of all. Without those, what is left falls apart into the stub domains.
    pub fn transit_routers(&self) -> usize {
        let (domains, size) = self.transit_domains();
        domains * size
    }

    /// How many there are, and how many routers each has.
    fn transit_domains(&self) -> (usize, usize) {
        let size = self.transit_size.clamp(1, self.routers.max(1));
        let per_domain = size * (1 + self.stubs_per_router * STUB_SIZE);
        (self.routers.div_ceil(per_domain).max(1), size)
    }

    /// The transit domains, in a circle with chords; their routers are the first.
    fn transit(&self, edges: &mut Edges, dice: &mut Dice) -> std::ops::Range<usize> {
        let (domains, size) = self.transit_domains();
        let mut clusters = Vec::new();
        for _ in 0..domains {
            let corner = (dice.between(0.0, COUNTRY), dice.between(0.0, COUNTRY));
            clusters.push(edges.grow(dice, &cluster(corner, size, TRANSIT, 3.0)));
        }
        for (number, one) in clusters.iter().enumerate().filter(|_| domains > 1) {
            for other in [(number + 1) % domains, dice.below(domains)] {
                if other != number {
                    edges.join(one[dice.below(size)], clusters[other][dice.below(size)]);
                }
            }
        }
        0..edges.places.len()
    }

    /// The stub domains, until there are enough routers; gives theirs.
    fn stubs(&self, edges: &mut Edges, dice: &mut Dice, transit: &std::ops::Range<usize>) -> Vec<usize> {
        let homes = transit.len() * self.stubs_per_router.max(1);
        let mut left = self.routers.saturating_sub(transit.len());
        let mut all = Vec::new();
        for number in 0..homes {
            let size = left.div_ceil(homes - number);
            if size == 0 {
                break;
            }
            left -= size;
            let home = number % transit.len();
            let stub = edges.grow(dice, &cluster(edges.places[home], size, STUB, 2.5));
            edges.join(home, stub[dice.below(size)]);
            if dice.happens(self.second_home) {
                edges.join(dice.below(transit.len()), stub[dice.below(size)]);
            }
            all.extend(stub);
        }
        all
    }
}

fn cluster(corner: (f64, f64), count: usize, extent: f64, degree: f64) -> Cluster {
    Cluster { count, corner, extent, degree, beta: 0.3 }
}

/// The size of everything in ms.
const COUNTRY: f64 = 40.0;

/// That of a transit domain in ms.
const TRANSIT: f64 = 10.0;

/// That of a stub domain in ms.
const STUB: f64 = 2.0;

/// How many routers a stub domain has, about.
const STUB_SIZE: usize = 8;
