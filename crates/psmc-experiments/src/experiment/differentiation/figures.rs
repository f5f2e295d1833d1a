//! Figures 6.2 to 6.8: ratios of response times by load, of sampling periods one after the other, and how far they spread.

use psmc_shares::admission::{Discipline, RatioState};

use super::literature::Allocation;
use super::load::{Course, Method, Traffic, mean, percentile};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-6.2",
        what: "the ratio of response times by load, target 1 : 3: processes divided once a sampling period",
        seed: "PSMC figure 6.2: very different from the target; Apache 1.3 with 32 processes on a Pentium III",
        how: SERVER,
        criterion: MEAN,
        runs: 1,
        measure: |setup| sweep(setup, 3.0, &[(Method::Seed(Allocation::Fixed), "fixed")], false),
    },
    Experiment {
        name: "psmc-fig-6.3",
        what: "the ratio of response times by load, target 1 : 3: by queueing theory",
        seed: "PSMC figure 6.3: close to the target from 40 to 80 % load, not below 30 % nor above 90 %",
        how: SERVER,
        criterion: MEAN,
        runs: 1,
        measure: |setup| sweep(setup, 3.0, THEORY, false),
    },
    Experiment {
        name: "psmc-fig-6.4",
        what: "the ratio of response times by load, target 1 : 2: by queueing theory",
        seed: "PSMC figure 6.4: close to the target from 30 to 80 % load",
        how: SERVER,
        criterion: MEAN,
        runs: 1,
        measure: |setup| sweep(setup, 2.0, THEORY, false),
    },
    Experiment {
        name: "psmc-fig-6.5",
        what: "the ratio of response times and its spread by load, target 1 : 2: with feedback",
        seed: "PSMC figure 6.5: close to the target from 30 to 90 % load, with shorter intervals than by theory alone",
        how: SERVER,
        criterion: SPREAD,
        runs: 1,
        measure: |setup| sweep(setup, 2.0, FEEDBACK, true),
    },
    Experiment {
        name: "psmc-fig-6.6",
        what: "the ratio of response times and its spread by load, target 1 : 3: with feedback",
        seed: "PSMC figure 6.6: as figure 6.5",
        how: SERVER,
        criterion: SPREAD,
        runs: 1,
        measure: |setup| sweep(setup, 3.0, FEEDBACK, true),
    },
    Experiment {
        name: "psmc-fig-6.7",
        what: "ratios of 30 sampling periods one after the other, target 1 : 3: their mean distance from it",
        seed: "PSMC figure 6.7, without numbers: with feedback more consistent than by theory",
        how: SERVER,
        criterion: "ours with idling no further from the target than a tenth of it on average, and nearer than the seed's",
        runs: 1,
        measure: microscope,
    },
    Experiment {
        name: "psmc-fig-6.8",
        what: "the mean and the spread of the ratio, targets 1 : 2 and 1 : 3",
        seed: "PSMC figure 6.8, of which the text has the figures at 80 % load",
        how: SERVER,
        criterion: SPREAD,
        runs: 1,
        measure: variance,
    },
];

/// What all of these have in common.
pub(super) const SERVER: &str = "\
simulated: requests in two Poisson processes, 3 of the first class for each of the second, exponentially distributed, 10 ms of a processor on \
average, which those that the server has at once share evenly. Sampling periods of 10 s, a thousand requests' time; 100 to warm up, 200 that \
count. The ratio is that of the mean response times of what was answered in a period. The seed's: 32 processes; loads predicted by the \
mean of five periods. Chosen, for the seed prints none: H is 1, a hundred allocation periods in a sampling period, errors in mean service \
times. `eq. 6.4` gives each class a server of its own that is as fast as eq. 6.4 says, which on the seed's machine processes stand for. \
`precedence` serves the first class first. Ours: by age, the limit measured, one set of gains; `idling` keeps requests back where a \
ratio cannot be held otherwise";

const MEAN: &str = "\
ours with idling within 5 % of the target at each load; without, where precedence alone reaches 1.15 times the target; where that reaches no \
nine tenths of it, ours says that the ratio is infeasible";

const SPREAD: &str = "\
as psmc-fig-6.3, and from the 5th to the 95th percentile of the ratio no more than 0.9 at target 2, and 1.5 at target 3";

const PERIODS: usize = 200;

const LOADS: [u32; 8] = [30, 40, 50, 60, 70, 80, 90, 95];

const RATES: (Method, &str) = (Method::Seed(Allocation::Rates), "eq. 6.4");
const THEORY: &[(Method, &str)] = &[RATES, (Method::Seed(Allocation::Theory), "algorithm 6.1")];
const FEEDBACK: &[(Method, &str)] = &[
    RATES,
    (Method::Seed(Allocation::Feedback(0.5, 0.5)), "eq. 6.7 (0.5, 0.5)"),
    (Method::Seed(Allocation::Feedback(2.0, 1.0)), "eq. 6.7 (2, 1)"),
];

pub(super) const IDLING: Method = Method::Ours { discipline: Discipline::ByAge, idling: true };
pub(super) const OURS: Method = Method::Ours { discipline: Discipline::ByAge, idling: false };

/// How far the ratio may spread.
pub(super) fn most_spread(target: f64) -> f64 {
    if target < 2.5 { 0.9 } else { 1.5 }
}

fn sweep(setup: &mut Setup<'_>, target: f64, seeds: &[(Method, &str)], with_spread: bool) -> Vec<Row> {
    let mut rows = Vec::new();
    for load in LOADS {
        let group = format!("load {load} %");
        if setup.wants_any(&group, ["precedence", "eq. 6.", "algorithm", "fixed", "ours"]) {
            rows.extend(at_load(setup, &group, load, target, seeds, with_spread));
        }
    }
    rows
}

fn at_load(
    setup: &Setup<'_>,
    group: &str,
    load: u32,
    target: f64,
    seeds: &[(Method, &str)],
    with_spread: bool,
) -> Vec<Row> {
    let traffic = Traffic::seed(f64::from(load) / 100.0);
    let play = |method: &Method| traffic.play(method, &[1.0, target], PERIODS, u64::from(setup.run.0));
    let figure =
        |name: &str, what: &str, value| Figure::new(format!("{group}, {name}, {what}"), "ratio", value);
    let mut rows = Vec::new();
    for (method, name) in seeds {
        let course = play(method);
        rows.push(figure(name, "mean", course.mean_ratio(1)).shown());
        if with_spread {
            rows.push(figure(name, "spread", course.spread(1)).shown());
        }
    }
    let precedence = play(&Method::Precedence).mean_ratio(1);
    rows.push(figure("precedence", "mean", precedence).shown());
    let ours = play(&OURS);
    let reach = precedence.map_or(0.0, |precedence| precedence / target);
    let is_feasible = reach >= FEASIBLE;
    let mean = figure("ours", "mean", ours.mean_ratio(1));
    rows.push(if is_feasible { mean.near(target, EXACT) } else { mean.shown() });
    if with_spread {
        let spread = figure("ours", "spread", ours.spread(1));
        rows.push(if is_feasible { spread.at_most(most_spread(target)) } else { spread.shown() });
    }
    let told = Figure::new(format!("{group}, ours, periods told to be infeasible"), "%", infeasible(&ours));
    rows.push(if reach < INFEASIBLE {
        told.at_least(90.0)
    } else if is_feasible {
        told.at_most(10.0)
    } else {
        told.shown()
    });
    let idling = play(&IDLING);
    rows.push(figure("ours, idling", "mean", idling.mean_ratio(1)).near(target, EXACT));
    if with_spread {
        rows.push(figure("ours, idling", "spread", idling.spread(1)).at_most(most_spread(target)));
    }
    rows
}

/// How far a mean may be from its target.
pub(super) const EXACT: f64 = 0.05;

/// Precedence alone must reach so much of a target for it to be held in every sampling period, ...
const FEASIBLE: f64 = 1.15;

/// ... and where it does not reach this much of it, it cannot be held.
const INFEASIBLE: f64 = 0.9;

/// The share of sampling periods at whose end the ratio was told to be infeasible, in percent.
fn infeasible(course: &Course) -> Option<f64> {
    let told = course.snapshots.iter().filter_map(|snapshot| snapshot.ratios.first());
    mean(told.map(|state| if matches!(state, RatioState::Infeasible { .. }) { 100.0 } else { 0.0 }))
}

fn microscope(setup: &mut Setup<'_>) -> Vec<Row> {
    let target = 3.0;
    let mut rows = Vec::new();
    for load in [40, 60, 80] {
        let traffic = Traffic::seed(f64::from(load) / 100.0);
        let mut seeds = None::<f64>;
        for (method, name) in FEEDBACK.iter().chain(&[(OURS, "ours"), (IDLING, "ours, idling")]) {
            let ratios = traffic.play(method, &[1.0, target], 30, u64::from(setup.run.0)).ratios(1);
            let distance = mean(ratios.iter().map(|ratio| (ratio / target - 1.0).abs() * 100.0));
            let figure = Figure::new(format!("load {load} %, {name}"), "%", distance);
            rows.push(if *method == IDLING {
                figure.at_most(seeds.map(|seeds| seeds.min(10.0)))
            } else {
                if matches!(method, Method::Seed(_)) {
                    seeds = distance.map(|distance| seeds.map_or(distance, |seeds| seeds.min(distance)));
                }
                figure.shown()
            });
        }
    }
    rows
}

fn variance(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (target, printed) in [(2.0, [(2.7, 4.2), (2.2, 1.7)]), (3.0, [(3.3, 9.3), (3.0, 3.1)])] {
        for load in [40, 60, 80] {
            let traffic = Traffic::seed(f64::from(load) / 100.0);
            let [theory, feedback] = printed.map(|printed| Some(printed).filter(|_| load == 80));
            let methods = [
                (RATES, theory),
                (FEEDBACK[1].clone(), feedback),
                ((OURS, "ours"), None),
                ((IDLING, "ours, idling"), None),
            ];
            for ((method, name), printed) in methods {
                let course = traffic.play(&method, &[1.0, target], PERIODS, u64::from(setup.run.0));
                let figure = |what, value, printed| {
                    Figure::new(format!("target {target}, load {load} %, {name}, {what}"), "ratio", value)
                        .seed(printed)
                };
                let mean = figure("mean", course.mean_ratio(1), printed.map(|(mean, _)| mean));
                let spread =
                    figure("5th to 95th percentile", course.spread(1), printed.map(|(_, spread)| spread));
                if method == IDLING {
                    rows.extend([mean.near(target, EXACT), spread.at_most(most_spread(target))]);
                } else {
                    rows.extend([mean.shown(), spread.shown()]);
                }
            }
        }
    }
    rows.retain(|row| setup.wants(&row.label));
    rows
}

impl Course {
    pub(super) fn mean_ratio(&self, class: usize) -> Option<f64> {
        mean(self.ratios(class).into_iter())
    }

    pub(super) fn spread(&self, class: usize) -> Option<f64> {
        let ratios = self.ratios(class);
        Some(percentile(ratios.clone(), 0.95)? - percentile(ratios, 0.05)?)
    }
}
