//! How near the estimator of stripes is to the least error that is possible, and how often its intervals are right.

use psmc_tomography::Estimate;
use psmc_tomography::stripes::{Stripe, Stripes, Tree};

use crate::dice::Dice;
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "qos-stripes",
    what: "loss inferred from 200 stripes to two receivers: its error, and the coverage of its intervals",
    seed: "QoS §3.2 and §7.1: inferred loss is close to the real one with 20 stripes a second for 10 s, which are 200; no intervals",
    how: "computed; each probe of a stripe shares the fate of the others where their ways are one; 10,000 runs for each set of \
          losses. The error is the root of the mean square; its bound is that of Cramér and Rao",
    criterion: "errors of no more than 1.2 of the bound; 95 % intervals that cover in 93 to 97 % of all runs, where 10 losses or more are \
                expected, and in 93 % at least where fewer are",
    runs: 1,
    measure,
}];

fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for losses in LOSSES {
        let of = losses.map(|loss| format!("{:.0}", loss * 100.0)).join(", ");
        let labels =
            PLACES.into_iter().flat_map(|place| [ERROR, COVERAGE].map(|what| format!("{place}, {what}")));
        if !setup.wants_any(&of, labels) {
            continue;
        }
        for ((estimates, place), (loss, bound)) in
            runs(losses).iter().zip(PLACES).zip(losses.into_iter().zip(bounds(losses)))
        {
            let figure =
                |what: &str, unit, value| Figure::new(format!("{of}, {place}, {what}"), unit, Some(value));
            rows.push(figure(ERROR, "of the bound", error(estimates, loss) / bound).at_most(1.2));
            let coverage = figure(COVERAGE, "%", coverage(estimates, loss) * 100.0);
            let is_frequent = loss * STRIPES as f64 >= 10.0;
            rows.push(if is_frequent { coverage.beside(95.0, 2.0) } else { coverage.at_least(93.0) });
        }
    }
    rows
}

/// The estimates of each segment in all runs: of the one that is shared, and of those to the receivers.
fn runs(losses: [f64; 3]) -> [Vec<Estimate>; 3] {
    let mut segments = [(); 3].map(|()| Vec::new());
    for seed in 0..RUNS {
        let Ok(tree) = Tree::new(&[0, 1, 1]) else { return segments };
        let (mut dice, mut stripes) = (Dice::new(seed), Stripes::new(tree));
        for number in 0..STRIPES {
            // A stripe goes to two receivers of the tree, so it counts.
            let _ = stripes.record(&send(losses, number, &mut dice));
        }
        for (estimates, answer) in segments.iter_mut().zip(stripes.loss()) {
            estimates.extend(answer);
        }
    }
    segments
}

fn send(losses: [f64; 3], number: usize, dice: &mut Dice) -> Stripe {
    let [shared, left, right] = losses.map(|loss| !dice.happens(loss));
    let ([twice, once], passed) =
        if number.is_multiple_of(2) { ([2, 3], [left, right]) } else { ([3, 2], [right, left]) };
    Stripe { twice, once, arrived: [passed[0], passed[0], passed[1]].map(|passed| shared && passed) }
}

/// The bound of Cramér and Rao for the deviation of each segment's estimate: outcomes are a multinomial distribution with as many
/// free shares as there are segments, so it is the inverse of the Fisher information of those, carried over by the delta method.
fn bounds(losses: [f64; 3]) -> [f64; 3] {
    let [reached, left, right] = losses.map(|loss| 1.0 - loss);
    let shared = reached * ((1.0 - left) * (1.0 - right) / (left * right) + 1.0 - reached);
    let of_leaf = |here: f64, other: f64| here * (1.0 - here) / (reached * other);
    [shared, of_leaf(left, right), of_leaf(right, left)].map(|variance| (variance / STRIPES as f64).sqrt())
}

fn error(estimates: &[Estimate], truth: f64) -> f64 {
    let squares: f64 = estimates.iter().map(|estimate| (estimate.value() - truth).powi(2)).sum();
    (squares / estimates.len() as f64).sqrt()
}

fn coverage(estimates: &[Estimate], truth: f64) -> f64 {
    estimates.iter().filter(|estimate| estimate.covers(truth)).count() as f64 / RUNS as f64
}

const PLACES: [&str; 3] = ["shared", "left", "right"];
const ERROR: &str = "error";
const COVERAGE: &str = "coverage";

/// Of 95 %, so many runs show the coverage to 0.2 points.
const RUNS: u64 = 10_000;
const STRIPES: usize = 200;

/// Of the shared segment, and of those to the receivers.
const LOSSES: [[f64; 3]; 6] = [
    [0.01, 0.01, 0.01],
    [0.02, 0.05, 0.03],
    [0.05, 0.05, 0.1],
    [0.1, 0.1, 0.1],
    [0.2, 0.06, 0.08],
    [0.08, 0.2, 0.15],
];
