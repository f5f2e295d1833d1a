//! Flat random networks, after Waxman (1988), "Routing of multipoint connections".

use super::edges::{Cluster, Edges};
use super::{Hosts, routers};
use crate::dice::Dice;
use crate::network::Draft;

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
