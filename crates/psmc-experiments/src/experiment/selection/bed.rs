//! Networks to select in, and the algorithms, timed.

use std::time::Instant;

use psmc_select::generate::TransitStub;
use psmc_select::{
    Chromosomes, Constraints, Genetic, JointnessBy, Network, Objective, Pool, Problem, Selection, Steps,
    genetic, local, seed,
};

/// The algorithms that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Algorithm {
    Fixed,
    Variable,
    Greedy,
    Ours,
}

impl Algorithm {
    pub(super) const ALL: [Self; 4] = [Self::Fixed, Self::Variable, Self::Greedy, Self::Ours];

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Fixed => "genetic, fixed length",
            Self::Variable => "genetic, variable length",
            Self::Greedy => "greedy",
            Self::Ours => "ours",
        }
    }

    /// Lets it search to its end.
    pub(super) fn run(self, network: &Network, problem: &Problem, seed: u64) -> Option<Selection> {
        let mut steps = Steps::unlimited();
        let mut breed = |kind| genetic(problem, &Genetic::new(kind), seed, &mut steps);
        match self {
            Self::Fixed => breed(Chromosomes::Fixed),
            Self::Variable => breed(Chromosomes::Variable),
            Self::Greedy => seed::greedy(network, problem, seed),
            Self::Ours => local(problem, None, seed, &mut steps),
        }
    }
}

/// The seed's Σ (α·BW + Disjoint) over pairs, α = 1/W.
pub(super) const SEEDS: Objective = Objective::SeedWeighted { weight: 1.0, by: JointnessBy::Links };

/// The same as it should be: what the paths carry together, and the mean over pairs.
pub(super) const SOUND: Objective = Objective::Weighted { weight: 1.0, by: JointnessBy::Links };

/// A transit–stub network of so many nodes and relays; `None` if it is none, which would be a fault of the generator.
pub(super) fn network(nodes: usize, relays: usize) -> Option<Network> {
    Network::build(&TransitStub::new(nodes, relays).generate(SEED)).ok()
}

/// To select as the seed does, with its two constraints.
pub(super) fn problem(network: &Network, objective: Objective) -> Option<Problem> {
    Problem::new(network, Pool::of_relays(network), objective, Constraints::default()).ok()
}

/// What something takes, in ms: the least of some runs, for what disturbs a run only adds to it.
pub(super) fn milliseconds<T>(runs: u32, mut work: impl FnMut() -> T) -> Option<f64> {
    let times = (0..runs).map(|_| {
        let start = Instant::now();
        std::hint::black_box(work());
        start.elapsed().as_secs_f64() * 1e3
    });
    times.min_by(f64::total_cmp)
}

/// How people write a size.
pub(super) fn size_name((nodes, relays): (usize, usize)) -> String {
    format!("{nodes}({relays})")
}

/// Of the networks.
const SEED: u64 = 1;
