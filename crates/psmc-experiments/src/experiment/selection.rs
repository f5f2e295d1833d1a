//! The thesis on proxy-server-based multipath connections, chapter V: the selection of proxy servers. Nothing is sent; what
//! is measured is the time that a selection takes, and how good it is.

mod drawn;
mod real;

use std::time::Instant;

use psmc_select::generate::TransitStub;
use psmc_select::{
    Chromosomes, Constraints, Genetic, JointnessBy, Network, Objective, Pool, Problem, Selection, Steps,
    genetic, local, seed,
};

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[drawn::EXPERIMENTS, real::EXPERIMENTS];

/// Figure 5.7 says sizes so: 20(10) are 20 nodes and 10 proxy servers besides. The last is ours.
const SIZES: [(usize, usize); 6] = [(20, 10), (50, 10), (100, 10), (200, 20), (500, 50), (10_000, 500)];

/// Figure 5.8: the least of what 25 runs of the genetic algorithms reach, in percent of the best of all runs.
const GENETIC_LEAST: f64 = 80.0;

/// Figure 5.8: and of the greedy algorithm.
const GREEDY_LEAST: f64 = 60.0;

/// Table 5.1: genetic with fixed and with variable length, greedy; in ms.
const REAL_TIMES_MS: [f64; 3] = [7100.0, 7200.0, 3100.0];

/// Table 5.1: what each of them reaches, in percent of the optimum.
const REAL_RESULT: f64 = 100.0;

/// The algorithms that are compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Algorithm {
    Fixed,
    Variable,
    Greedy,
    Ours,
}

impl Algorithm {
    const ALL: [Self; 4] = [Self::Fixed, Self::Variable, Self::Greedy, Self::Ours];

    fn name(self) -> &'static str {
        match self {
            Self::Fixed => "genetic, fixed length",
            Self::Variable => "genetic, variable length",
            Self::Greedy => "greedy",
            Self::Ours => "ours",
        }
    }

    /// Lets it search to its end.
    fn run(self, network: &Network, problem: &Problem, seed: u64) -> Option<Selection> {
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
const SEEDS: Objective = Objective::SeedWeighted { weight: 1.0, by: JointnessBy::Links };

/// The same as it should be: what the paths carry together, and the mean over pairs.
const SOUND: Objective = Objective::Weighted { weight: 1.0, by: JointnessBy::Links };

/// A transit–stub network of so many nodes and relays; `None` if it is none, which would be a fault of the generator.
fn network(nodes: usize, relays: usize) -> Option<Network> {
    Network::build(&TransitStub::new(nodes, relays).generate(SEED)).ok()
}

/// To select as the seed does, with its two constraints.
fn problem(network: &Network, objective: Objective) -> Option<Problem> {
    Problem::new(network, Pool::of_relays(network), objective, Constraints::default()).ok()
}

/// What something takes, in ms: the least of some runs, for what disturbs a run only adds to it.
fn milliseconds<T>(runs: u32, mut work: impl FnMut() -> T) -> Option<f64> {
    let times = (0..runs).map(|_| {
        let start = Instant::now();
        std::hint::black_box(work());
        start.elapsed().as_secs_f64() * 1e3
    });
    times.min_by(f64::total_cmp)
}

/// How people write a size.
fn size_name((nodes, relays): (usize, usize)) -> String {
    format!("{nodes}({relays})")
}

/// Of the networks.
const SEED: u64 = 1;
