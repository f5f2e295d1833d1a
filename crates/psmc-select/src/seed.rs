//! The seed's constructions (PSMC ch. V), as it gives them, to compare with.
//!
//! Theorems 5.1 and 5.2 do not hold, and what is built on them need not find what it looks for: the tests have examples. For
//! answers use [`widest_disjoint_paths`](crate::widest_disjoint_paths) and [`best`](crate::best).

use std::collections::BTreeMap;

use crate::dice::Dice;
use crate::flow::{UnitFlow, cheapest_maximum_flow, maximum_flow, most_disjoint_paths};
use crate::network::{ArcId, Network};
use crate::pool::Union;
use crate::{Bandwidth, Disjointness, Path, Problem, Selection};

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

// The seed's greedy algorithm for the most bandwidth with the least jointness.

/// "Greedy Algorithm" in PSMC ch. V: a greatest set S of link-disjoint paths; then, in what S leaves free, the maximum flow of
/// least cost, where links of S cost one each; both together.
///
/// It is run on the union of the candidates' routes, in which each path leads over a relay; that relay is selected. Where
/// that makes too many, or breaks a constraint, those paths go that carry least. `seed` renumbers nodes and links, for the
/// greatest set is one of several. `None` if nothing is left.
pub fn greedy(network: &Network, problem: &Problem, seed: u64) -> Option<Selection> {
    let candidates: Vec<_> =
        problem.eligible().iter().map(|number| &problem.pool().candidates()[*number]).collect();
    let union = Union::new(network, &candidates, true, Some(&mut Dice::new(seed)));
    let mut carried: BTreeMap<usize, u64> = BTreeMap::new();
    for (path, amount) in both_sets(&union.network) {
        let relay = path.arcs().iter().find_map(|arc| union.doors.get(arc)).copied().flatten();
        let number =
            problem.eligible().iter().find(|number| problem.pool().candidates()[**number].relay == relay);
        *carried.entry(*number?).or_default() += amount;
    }
    let mut set: Vec<_> = carried.into_iter().collect();
    set.sort_by_key(|(number, amount)| (std::cmp::Reverse(*amount), *number));
    set.truncate(*problem.sizes().end());
    while !set.is_empty() {
        let selection = problem.select(set.iter().map(|(number, _)| *number).collect());
        if selection.is_some() {
            return selection;
        }
        set.pop();
    }
    None
}

/// S and S′, with what each path carries.
fn both_sets(network: &Network) -> Vec<(Path, u64)> {
    let disjoint = most_disjoint_paths(network, Disjointness::Links);
    let mut used = vec![0; network.graph().edge_count()];
    let mut paths = Vec::new();
    for path in disjoint {
        let amount = path.bandwidth().bits_per_second();
        path.arcs().iter().for_each(|arc| used[arc.index()] += amount);
        paths.push((path, amount));
    }
    let free = |arc: ArcId| network.arc(arc).bandwidth.bits_per_second() - used[arc.index()];
    let rest = cheapest_maximum_flow(network, free, |arc| i64::from(used[arc.index()] > 0));
    paths.extend(rest.paths.into_iter().map(|(path, amount)| (path, amount.bits_per_second())));
    paths
}
