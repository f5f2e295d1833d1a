//! A network like a real one.

use psmc_select::{Draft, DraftLink, DraftNode, Network, Objective, Steps, best};

use super::{Algorithm, SEEDS, SOUND, milliseconds, problem};
use super::{REAL_RESULT, REAL_TIMES_MS};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "psmc-table-5.1",
    what: "the selection among mirror sites seen from one host",
    seed: "PSMC table 5.1: 7.1, 7.2 and 3.1 s, all with the optimal result",
    how: "computed. The seed's topology, from a university to Redhat's mirrors, is a picture; this is one of the same \
          character, a tree of traces: a campus with two providers, their backbones, fourteen mirrors at universities \
          and companies; the far half, from the mirrors to the destination, has a link for each. The seed's constraints, \
          its objective and the sound one; the least of 3 runs; the optimum is proven by branch and bound",
    criterion: "ours at most 50 ms, and at least 99 % of the optimum",
    runs: 1,
    measure: rows,
}];

fn rows(_: &mut Setup<'_>) -> Vec<Row> {
    let network = Network::build(&mirrors()).ok();
    let seeds = REAL_TIMES_MS.into_iter().map(Some).chain([None]);
    let rows = |(algorithm, seed)| of_algorithm(network.as_ref(), algorithm, seed);
    Algorithm::ALL.into_iter().zip(seeds).flat_map(rows).collect()
}

/// `seed`: the seed's time in ms.
fn of_algorithm(network: Option<&Network>, algorithm: Algorithm, seed: Option<f64>) -> [Row; 3] {
    let figure = |what: &str, unit, ours| Figure::new(format!("{}, {what}", algorithm.name()), unit, ours);
    let time = figure("time", "ms", network.and_then(|network| time(network, algorithm))).seed(seed);
    let result = |what: &str, objective| {
        let share = network.and_then(|network| share(network, algorithm, objective));
        figure(what, "%", share).seed(seed.map(|_| REAL_RESULT))
    };
    let results = [result("result", SEEDS), result("result, sound objective", SOUND)];
    let is_ours = algorithm == Algorithm::Ours;
    let [seeds, sound] = results.map(|row| if is_ours { row.at_least(99.0) } else { row.shown() });
    [if is_ours { time.at_most(50.0) } else { time.shown() }, seeds, sound]
}

fn time(network: &Network, algorithm: Algorithm) -> Option<f64> {
    milliseconds(3, || problem(network, SEEDS).and_then(|problem| algorithm.run(network, &problem, 1)))
}

/// What it reaches, in percent of the optimum; `None` if that could not be proven.
fn share(network: &Network, algorithm: Algorithm, objective: Objective) -> Option<f64> {
    let problem = problem(network, objective)?;
    let answer = best(&problem, 1, &mut Steps::new(1_000_000));
    let optimum = answer.selection.as_ref().filter(|_| answer.is_proven())?.score.leading();
    Some(algorithm.run(network, &problem, 1)?.score.leading() / optimum * 100.0)
}

/// The host, the way to each mirror, and behind the mirrors the destination.
fn mirrors() -> Draft {
    let mut draft = Draft { source: "host".into(), destination: "destination".into(), ..Draft::default() };
    for (from, to, bandwidth, latency) in ROUTERS {
        draft.links.push(DraftLink::new(*from, *to, *bandwidth, *latency));
    }
    for (number, (name, router, bandwidth, latency)) in MIRRORS.iter().enumerate() {
        draft.nodes.push(DraftNode::relay(*name));
        draft.links.push(DraftLink::new(*router, *name, *bandwidth, *latency));
        // The far half is as diverse as the near one.
        let far = 20.0 + (number * 7 % 10) as f64;
        draft.links.push(DraftLink::new(*name, "destination", 2.0 * bandwidth, far));
    }
    draft
}

/// Between routers: Mbit/s and ms.
const ROUTERS: &[(&str, &str, f64, f64)] = &[
    ("host", "campus", 100.0, 0.5),
    ("campus", "gigapop", 155.0, 2.0),
    ("campus", "isp", 45.0, 3.0),
    ("gigapop", "denver", 622.0, 2.0),
    ("denver", "kansas-city", 2400.0, 10.0),
    ("denver", "sunnyvale", 2400.0, 24.0),
    ("denver", "seattle", 2400.0, 26.0),
    ("kansas-city", "indianapolis", 2400.0, 9.0),
    ("kansas-city", "houston", 2400.0, 15.0),
    ("indianapolis", "chicago", 2400.0, 4.0),
    ("indianapolis", "atlanta", 2400.0, 11.0),
    ("chicago", "new-york", 2400.0, 20.0),
    ("new-york", "washington", 2400.0, 4.0),
    ("isp", "isp-dallas", 155.0, 18.0),
    ("isp", "isp-san-jose", 155.0, 27.0),
    ("isp-dallas", "isp-ashburn", 622.0, 32.0),
    ("isp-san-jose", "isp-tokyo", 155.0, 105.0),
];

/// Mirrors: the router that they are at, Mbit/s and ms.
const MIRRORS: &[(&str, &str, f64, f64)] = &[
    ("mirror-utah", "seattle", 34.0, 20.0),
    ("mirror-stanford", "sunnyvale", 45.0, 2.0),
    ("mirror-washington", "seattle", 60.0, 2.0),
    ("mirror-texas", "houston", 45.0, 5.0),
    ("mirror-indiana", "indianapolis", 70.0, 2.0),
    ("mirror-illinois", "chicago", 34.0, 4.0),
    ("mirror-georgia", "atlanta", 45.0, 2.0),
    ("mirror-cornell", "new-york", 20.0, 6.0),
    ("mirror-maryland", "washington", 34.0, 2.0),
    ("mirror-duke", "washington", 45.0, 9.0),
    ("mirror-dallas", "isp-dallas", 20.0, 1.0),
    ("mirror-san-jose", "isp-san-jose", 30.0, 1.0),
    ("mirror-ashburn", "isp-ashburn", 25.0, 1.0),
    ("mirror-tokyo", "isp-tokyo", 10.0, 3.0),
];
