//! How long a selection takes.

use psmc_select::{Network, Steps, local};

use super::bed::{Algorithm, SEEDS, milliseconds, network, problem, size_name};
use super::figures::SIZES;
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "psmc-fig-5.7",
    what: "how long the selection of proxy servers takes, by size of the network",
    seed: "PSMC figure 5.7, whose points are not printed: seconds; time grows with the network, greedy takes the least",
    how: "computed, nothing is sent; transit–stub networks (seed 1), whose ends have three uplinks; 20(10) are 20 nodes and 10 relays besides; routes, \
          problem and search of one thread together, the least of 3 runs; the seed's objective and constraints; 100 \
          generations of 50. Growth is counted in looks at nodes and links and in valuations, so it is the same on any \
          machine; times are those of this one, and count in a release build",
    criterion: "ours at most 50 ms for 200(20); for 20 relays no faster growth than n log n up to 10,000 nodes",
    runs: 1,
    measure: rows,
}];

fn rows(setup: &mut Setup<'_>) -> Vec<Row> {
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
