//! Requests that are few and long: how far ratios of single periods spread whatever is done, and over which time they are held.

use psmc_shares::admission::{Config, Discipline};

use super::figures::{EXACT, IDLING, OURS, most_spread};
use super::load::{Course, Method, Traffic, WARM_UP};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "psmc-front-heavy-tailed",
    what: "heavy-tailed requests and bursts: how far ratios spread of which nothing is held, and over ten periods in which as much is known as of exponential ones in one",
    seed: "none",
    how: "\
simulated as psmc-front-traffic. The variance of heavy-tailed requests is ten times that of exponential ones of the same mean, so that means over ten \
sampling periods are as exact as those over one are of these; 2,000 periods. `alike`: two classes that are served as they come, so that their ratio is 1 but for chance, times the target",
    criterion: "over ten periods ours, with idling, within 5 % of the target, and its spread no more than 0.9 and 1.5",
    runs: 1,
    measure: heavy,
}];

/// Periods that are taken together: the variance of bounded Pareto of shape 1.5 and range 1000 is 9.9 times the square of its mean.
const TOGETHER: usize = 10;

const PERIODS: usize = 2000;

fn heavy(setup: &mut Setup<'_>) -> Vec<Row> {
    let seed = u64::from(setup.run.0);
    let mut rows = Vec::new();
    let kinds =
        [(true, false, "heavy-tailed"), (true, true, "bursts, heavy-tailed"), (false, true, "bursts")];
    for (is_heavy, is_bursty, kind) in kinds {
        for load in [30, 50, 80, 90, 95] {
            let group = format!("{kind}, load {load} %");
            if !setup.wants_any(&group, ["alike", "ours"]) {
                continue;
            }
            let traffic = Traffic { is_heavy, is_bursty, ..Traffic::seed(f64::from(load) / 100.0) };
            let config = Config { discipline: Discipline::FirstCome, ..traffic.config(&[1.0, 1.0]) };
            let alike = traffic.play_ours(config, WARM_UP, PERIODS, seed);
            for target in [2.0, 3.0] {
                rows.extend(of_target(&group, target, &traffic, &alike, seed));
            }
        }
    }
    rows
}

fn of_target(group: &str, target: f64, traffic: &Traffic, alike: &Course, seed: u64) -> Vec<Row> {
    let figure = |what: &str, value| Figure::new(format!("{group}, target {target}, {what}"), "ratio", value);
    let times = |course: &Course| course.spread(1).map(|spread| spread * target);
    let mut rows = vec![
        figure("alike, spread", times(alike)).shown(),
        figure("alike, over ten periods, spread", times(&alike.together(TOGETHER))).shown(),
    ];
    let play = |method: &Method| traffic.play(method, &[1.0, target], PERIODS, seed);
    let ours = play(&OURS).together(TOGETHER);
    rows.push(figure("ours, over ten periods, mean", ours.mean_ratio(1)).shown());
    rows.push(figure("ours, over ten periods, spread", ours.spread(1)).shown());
    let idling = play(&IDLING);
    rows.push(figure("ours, idling, spread", idling.spread(1)).shown());
    let idling = idling.together(TOGETHER);
    rows.push(figure("ours, idling, over ten periods, mean", idling.mean_ratio(1)).near(target, EXACT));
    rows.push(
        figure("ours, idling, over ten periods, spread", idling.spread(1)).at_most(most_spread(target)),
    );
    rows
}
