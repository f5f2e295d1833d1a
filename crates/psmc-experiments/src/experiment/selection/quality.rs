//! How good a selection is.

use psmc_select::{Network, Objective, Problem, Steps, best};

use super::bed::{Algorithm, SEEDS, SOUND, network, problem, size_name};
use super::figures::{GENETIC_LEAST, GREEDY_LEAST, SIZES};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "psmc-fig-5.8",
    what: "how good the selections of proxy servers are, of 25 runs each",
    seed: "PSMC figure 5.8, whose points are not printed: of the best of all runs, the genetic algorithms reach 80 to \
           100 %, the greedy one 60 to 80 %",
    how: "computed; the networks of figure 5.7, 25 seeds for each algorithm (3 for 10,000 nodes), the greedy one with \
          nodes and links renumbered; in percent of what branch and bound proves to be the optimum, or, where it has not \
          finished after 300,000 steps, of the best of all. The objective is the seed's, Σ (α·BW + disjointness) over \
          pairs, or the sound one, α × what the paths carry together + mean disjointness",
    criterion: "ours at least 99 % of the optimum in each run, wherever it is proven",
    runs: 1,
    measure: rows,
}];

fn rows(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in SIZES {
        for (objective, name) in [(SEEDS, "the seed's objective"), (SOUND, "the sound objective")] {
            let group = format!("{}, {name}", size_name(size));
            if setup.wants_any(&group, Algorithm::ALL.map(|algorithm| format!("{}, least", algorithm.name())))
            {
                rows.extend(of_size(&group, size, objective));
            }
        }
    }
    rows
}

fn of_size(group: &str, size: (usize, usize), objective: Objective) -> Vec<Row> {
    let network = network(size.0, size.1);
    let problem = network.as_ref().and_then(|network| problem(network, objective));
    let Some((network, problem)) = network.as_ref().zip(problem) else {
        return vec![Figure::new(group, "%", None).shown()];
    };
    let runs = if size.1 > MANY_RELAYS { RUNS_OF_MANY } else { RUNS };
    let scores = Algorithm::ALL.map(|algorithm| scores(algorithm, network, &problem, runs));
    let answer = best(&problem, 1, &mut Steps::new(MOST_STEPS));
    let found = answer.selection.as_ref().map(|selection| selection.score.leading());
    let reference = scores.iter().flatten().copied().chain(found).fold(0.0, f64::max);
    let mut rows = Vec::new();
    for (algorithm, scores) in Algorithm::ALL.into_iter().zip(&scores) {
        rows.extend(shares(group, algorithm, scores, reference, answer.is_proven()));
    }
    rows.push(
        Figure::new(format!("{group}, gap of the proof"), "%", answer.gap().map(|gap| gap * 100.0)).shown(),
    );
    rows
}

/// Runs are independent, so each thread takes its share of the seeds.
fn scores(algorithm: Algorithm, network: &Network, problem: &Problem, runs: u64) -> Vec<f64> {
    let threads = std::thread::available_parallelism().map_or(1, |threads| threads.get());
    let run = |seed| algorithm.run(network, problem, seed).map_or(0.0, |found| found.score.leading());
    std::thread::scope(|scope| {
        let part = |first: u64| scope.spawn(move || (first..runs).step_by(threads).map(run).collect());
        let parts: Vec<std::thread::ScopedJoinHandle<'_, Vec<f64>>> = (0..threads as u64).map(part).collect();
        parts.into_iter().flat_map(|part| part.join().unwrap_or_default()).collect()
    })
}

/// The least and the mean, in percent of the reference.
fn shares(group: &str, algorithm: Algorithm, scores: &[f64], reference: f64, proven: bool) -> [Row; 2] {
    let percent = |score: f64| score / reference * 100.0;
    let least = scores.iter().copied().min_by(f64::total_cmp).map(percent);
    let mean = percent(scores.iter().sum::<f64>() / scores.len() as f64);
    let seed = match algorithm {
        Algorithm::Fixed | Algorithm::Variable => Some(GENETIC_LEAST),
        Algorithm::Greedy => Some(GREEDY_LEAST),
        Algorithm::Ours => None,
    };
    let figure = |what: &str, ours| Figure::new(format!("{group}, {}, {what}", algorithm.name()), "%", ours);
    let least = figure("least", least).seed(seed);
    let must_be_good = algorithm == Algorithm::Ours && proven;
    [
        if must_be_good { least.at_least(LEAST_PERCENT) } else { least.shown() },
        figure("mean", Some(mean)).shown(),
    ]
}

/// As many as the seed's.
const RUNS: u64 = 25;

/// Above so many relays a run takes seconds.
const MANY_RELAYS: usize = 100;

const RUNS_OF_MANY: u64 = 3;

const MOST_STEPS: u64 = 300_000;

const LEAST_PERCENT: f64 = 99.0;
