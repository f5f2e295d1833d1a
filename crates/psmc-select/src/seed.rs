//! The seed's constructions (PSMC ch. V), as it gives them, to compare with.
//!
//! Theorems 5.1 and 5.2 do not hold, and what is built on them need not find what it looks for: the tests have examples. For
//! answers use [`widest_disjoint_paths`](crate::widest_disjoint_paths) and [`best`](crate::best).

mod greedy;

use crate::flow::{UnitFlow, maximum_flow, most_disjoint_paths};
use crate::network::Network;
use crate::{Bandwidth, Disjointness, Path};

pub use greedy::greedy;

/// Theorem 5.1: `count` node-disjoint paths by the K-best-paths problem, in which every link of the network costs nothing, and
/// so one set of paths costs as much as any other. `None` if there are not so many.
pub fn k_best_paths(network: &Network, count: usize) -> Option<Vec<Path>> {
    let mut flow = UnitFlow::new(network, Disjointness::Nodes, |_| Some(0));
    (0..count).all(|_| flow.augment()).then(|| flow.paths())
}

/// Theorem 5.2: some greatest set of disjoint paths, held to be the one that carries W if any does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MinNumber {
    /// W: the maximum flow.
    pub most: Bandwidth,
    /// The paths.
    pub paths: Vec<Path>,
    /// What they carry together: the seed's WL or WN.
    pub bandwidth: Bandwidth,
}

/// Theorem 5.2.
pub fn min_number(network: &Network, kind: Disjointness) -> MinNumber {
    let paths = most_disjoint_paths(network, kind);
    let bandwidth = paths.iter().map(|path| path.bandwidth().bits_per_second()).sum();
    MinNumber {
        most: maximum_flow(network).bandwidth,
        bandwidth: Bandwidth::from_bits_per_second(bandwidth),
        paths,
    }
}
