//! Networks drawn by chance: how long a selection takes, and how good it is.

use psmc_select::{Network, Objective, Problem, Steps, best, local};

use super::{Algorithm, SEEDS, SOUND, milliseconds, network, problem, size_name};
use super::{GENETIC_LEAST, GREEDY_LEAST, SIZES};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-5.7",
        what: "how long the selection of proxy servers takes, by size of the network",
        seed: "PSMC figure 5.7, whose points are not printed: seconds; time grows with the network, greedy takes the least",
        how: "computed, nothing is sent; transit–stub networks (seed 1), whose ends have three uplinks; 20(10) are 20 nodes and 10 relays besides; routes, \
          problem and search of one thread together, the least of 3 runs; the seed's objective and constraints; 100 \
          generations of 50. Growth is counted in looks at nodes and links and in valuations, so it is the same on any \
          machine; times are those of this one, and count in a release build",
        criterion: "ours at most 50 ms for 200(20); for 20 relays no faster growth than n log n up to 10,000 nodes",
        runs: 1,
        measure: durations,
    },
    Experiment {
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
        measure: qualities,
    },
];

fn durations(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for size in SIZES {
        let names = Algorithm::ALL.map(Algorithm::name);
        if setup.wants_any(&size_name(size), names) {
            rows.extend(times(setup, size));
        }
    }
    rows.extend(growth(setup));
    rows
}

fn times(setup: &Setup<'_>, size: (usize, usize)) -> Vec<Row> {
    let network = network(size.0, size.1);
    let row = |algorithm: Algorithm| {
        let label = format!("{}, {}", size_name(size), algorithm.name());
        let ours =
            network.as_ref().filter(|_| setup.wants(&label)).and_then(|network| time(network, algorithm));
        let figure = Figure::new(label, "ms", ours);
        if algorithm == Algorithm::Ours && size == (200, 20) {
            figure.at_most(MOST_MS)
        } else {
            figure.shown()
        }
    };
    Algorithm::ALL.map(row).into()
}

fn time(network: &Network, algorithm: Algorithm) -> Option<f64> {
    milliseconds(RUNS, || problem(network, SEEDS).and_then(|problem| algorithm.run(network, &problem, 1)))
}

/// Steps for n nodes and always 20 relays, by n log n, as a multiple of what they are for the smallest network.
fn growth(setup: &Setup<'_>) -> Vec<Row> {
    let label = |nodes: usize, what: &str| format!("{nodes}(20), growth of steps by n log n, {what}");
    let wanted = |nodes: usize| STEPS.iter().any(|what| setup.wants(&label(nodes, what)));
    if !GROWTH.into_iter().any(wanted) {
        return Vec::new();
    }
    let least = steps(GROWTH[0]);
    let row = |nodes: usize| {
        let times = steps(nodes).zip(least).map(|(steps, least)| [steps[0] / least[0], steps[1] / least[1]]);
        [0, 1].map(|which| {
            let ours = times.map(|times| times[which]);
            Figure::new(label(nodes, STEPS[which]), "times", ours).at_most(MOST_GROWTH)
        })
    };
    GROWTH.into_iter().flat_map(row).collect()
}

/// Those of the routes, and all of them, each by n log n.
fn steps(nodes: usize) -> Option<[f64; 2]> {
    let network = network(nodes, 20)?;
    let problem = problem(&network, SEEDS)?;
    let mut search = Steps::unlimited();
    local(&problem, None, 1, &mut search)?;
    let routes = problem.pool().steps();
    let by = nodes as f64 * (nodes as f64).log2();
    Some([routes, routes + search.spent()].map(|steps| steps as f64 / by))
}

const STEPS: [&str; 2] = ["routes", "all"];

const RUNS: u32 = 3;

const MOST_MS: f64 = 50.0;

/// Networks for the growth.
const GROWTH: [usize; 4] = [200, 1000, 5000, 10_000];

/// Networks of one size differ by as much.
const MOST_GROWTH: f64 = 1.25;

fn qualities(setup: &mut Setup<'_>) -> Vec<Row> {
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
    let runs = if size.1 > MANY_RELAYS { RUNS_OF_MANY } else { QUALITY_RUNS };
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
const QUALITY_RUNS: u64 = 25;

/// Above so many relays a run takes seconds.
const MANY_RELAYS: usize = 100;

const RUNS_OF_MANY: u64 = 3;

const MOST_STEPS: u64 = 300_000;

const LEAST_PERCENT: f64 = 99.0;
