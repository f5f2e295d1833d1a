//! What the seed does not show: other traffic and servers, a step of load, more than a server can do, a server that is slow.

use std::time::Duration;

use psmc_shares::admission::{ClassConfig, Config, Discipline, Measure};
use psmc_shares::{ClassId, ClassSet};
use psmc_sim::farm::ServerSetup;

use super::figures::{EXACT, IDLING, OURS, most_spread};
use super::literature::Allocation;
use super::load::{CAPACITY, Course, Method, PERIOD, SERVICE, Traffic, WARM_UP, mean};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-front-traffic",
        what: "ratios of response times under bursts, of unlike requests, of three classes, before larger servers, and of slowdown",
        seed: "none with figures: PSMC says that no other conclusion was reached",
        how: "\
simulated as psmc-fig-6.5, target 1 : 2. Bursts: each class's rate is now half above, now half below its average, for 50 requests' time on \
average. Heavy-tailed: bounded Pareto, shape 1.5, the largest 1000 times the least. Three classes: 1 : 2 : 4, as many requests of each. Eight processors: in one \
server, sampling periods an eighth as long. Slowdown: response over service time, and the second class asks for three times as much",
        criterion: "ours with idling within 5 % of the target at each load, its spread no more than 0.9 and, of the third class, 1.5",
        runs: 1,
        measure: traffic,
    },
    Experiment {
        name: "psmc-front-disciplines",
        what: "who is next: by the weights of fair queues, by age alone, or by age and what a class had lately, with the same correction of log-ratios",
        seed: "none",
        how: "simulated as psmc-fig-6.5, without idling, targets 1 : 2 and 1 : 3",
        criterion: "by age and recent mean the ratio spreads least at each load",
        runs: 1,
        measure: disciplines,
    },
    Experiment {
        name: "psmc-front-step",
        what: "the ratio of response times after a step of load from 40 to 85 %",
        seed: "none",
        how: "simulated as psmc-fig-6.5; the means of each sampling period over 20 runs, target 1 : 2. Settled is when they are within a tenth of the target, and stay there",
        criterion: "ours settled after 10 sampling periods, and never beyond twice the target",
        runs: 1,
        measure: step,
    },
    Experiment {
        name: "psmc-front-overload",
        what: "twice what a server can do: what is answered, and how long the first class takes",
        seed: "none: PSMC leaves overload to admission control",
        how: "\
simulated as psmc-fig-6.5, one request of the first class for three of the second, at 200 % load, so that the first class alone is half of what the \
server can do. Ours: the first class's objective is twice its 99th percentile at 5 % load, the second sheds; idling is off. `first come` has a queue of 1000 \
requests of each class, as has `precedence`, with which the first class comes first, so that nobody can be faster. All let in as many requests at once as their limit, which is measured",
        criterion: "ours answers at least 95 % of what the server can do, and the first class's 99th percentile is at most twice that at 5 % load, or what precedence alone yields if that is more",
        runs: 1,
        measure: overload,
    },
    Experiment {
        name: "psmc-front-slow",
        what: "two servers, one of which does a fifth of the other, and two groups of servers",
        seed: "none: PSMC's abstract has a cluster, its text one server",
        how: "\
simulated as psmc-fig-6.5, before two servers of four processors, target 1 : 2, 90 % of what both can do together; the limits are measured. Two groups: \
those two servers for both classes, and another one of four processors for the first class alone; as many requests of each class",
        criterion: "ours with idling within 5 % of the target, and in no more than 5 % of sampling periods is the first class slower than the second",
        runs: 1,
        measure: slow,
    },
];

const PERIODS: usize = 200;

fn traffic(setup: &mut Setup<'_>) -> Vec<Row> {
    let seed = u64::from(setup.run.0);
    let mut rows = Vec::new();
    for load in [30, 50, 80, 90, 95] {
        let poisson = Traffic::seed(f64::from(load) / 100.0);
        let bursty = Traffic { is_bursty: true, ..poisson.clone() };
        let heavy = Traffic { is_heavy: true, ..poisson.clone() };
        let both = Traffic { is_bursty: true, ..heavy.clone() };
        let three = Traffic { shares: vec![1.0; 3], ..poisson.clone() };
        let servers = vec![ServerSetup { processors: 8.0, speed: 1.0 }];
        let large = Traffic { servers, ..poisson.clone() };
        let unlike = Traffic { longer: vec![1.0, 3.0], ..poisson.clone() };
        let (two, more) = (vec![1.0, 2.0], vec![1.0, 2.0, 4.0]);
        let kinds = [
            ("bursts", bursty, &two, Measure::ResponseTime),
            ("heavy-tailed", heavy, &two, Measure::ResponseTime),
            ("bursts, heavy-tailed", both, &two, Measure::ResponseTime),
            ("three classes", three, &more, Measure::ResponseTime),
            ("eight processors", large, &two, Measure::ResponseTime),
            ("slowdown", unlike, &two, Measure::Slowdown),
        ];
        for (kind, traffic, deltas, measure) in kinds {
            for (name, method) in [("ours", OURS), ("ours, idling", IDLING)] {
                let group = format!("{kind}, load {load} %, {name}");
                if setup.wants_any(&group, ["mean", "spread"]) {
                    let course = traffic.play_measuring(&method, measure, deltas, PERIODS, seed);
                    rows.extend(of_classes(&group, &course, deltas, method == IDLING));
                }
            }
        }
    }
    rows
}

fn of_classes(group: &str, course: &Course, deltas: &[f64], must: bool) -> Vec<Row> {
    let of = |(class, &target): (usize, &f64)| {
        let name = if deltas.len() > 2 { format!(" 1 : {target}") } else { String::new() };
        let mean = Figure::new(format!("{group},{name} mean"), "ratio", course.mean_ratio(class));
        let spread = Figure::new(format!("{group},{name} spread"), "ratio", course.spread(class));
        if must {
            [mean.near(target, EXACT), spread.at_most(most_spread(target))]
        } else {
            [mean.shown(), spread.shown()]
        }
    };
    deltas.iter().enumerate().skip(1).flat_map(of).collect()
}

fn disciplines(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for target in [2.0, 3.0] {
        for load in [80, 90, 95] {
            let traffic = Traffic::seed(f64::from(load) / 100.0);
            let disciplines = [
                (Discipline::Fair, "by weights"),
                (Discipline::AgeAlone, "by age alone"),
                (Discipline::ByAge, "by age and recent mean"),
            ];
            let mut least = None::<f64>;
            for (discipline, name) in disciplines {
                let method = Method::Ours { discipline, idling: false };
                let course = traffic.play(&method, &[1.0, target], PERIODS, u64::from(setup.run.0));
                let figure = |what, value| {
                    Figure::new(format!("target {target}, load {load} %, {name}, {what}"), "ratio", value)
                };
                rows.push(figure("mean", course.mean_ratio(1)).shown());
                let spread = course.spread(1);
                let shown = figure("spread", spread);
                if discipline == Discipline::ByAge {
                    rows.push(shown.at_most(least));
                } else {
                    rows.push(shown.shown());
                    least = spread.map(|spread| least.map_or(spread, |least| least.min(spread)));
                }
            }
        }
    }
    rows
}

/// Runs of which the means are taken.
const STEPS: u64 = 20;

/// Sampling periods after the step.
const AFTER: usize = 30;

fn step(setup: &mut Setup<'_>) -> Vec<Row> {
    let target = 2.0;
    let at = PERIOD * u32::try_from(WARM_UP).unwrap_or(u32::MAX);
    let traffic = Traffic { steps: vec![(at, 85.0 / 40.0)], ..Traffic::seed(0.4) };
    let methods = [
        (Method::Seed(Allocation::Rates), "eq. 6.4"),
        (Method::Seed(Allocation::Feedback(0.5, 0.5)), "eq. 6.7 (0.5, 0.5)"),
        (OURS, "ours"),
        (IDLING, "ours, idling"),
    ];
    let mut rows = Vec::new();
    for (method, name) in methods {
        let runs = (0..STEPS)
            .map(|run| traffic.play(&method, &[1.0, target], AFTER, u64::from(setup.run.0) * STEPS + run));
        let runs: Vec<Vec<f64>> = runs.map(|course| course.ratios(1)).collect();
        let means: Vec<f64> = (0..AFTER)
            .filter_map(|period| mean(runs.iter().filter_map(|run| run.get(period).copied())))
            .collect();
        let off = means.iter().rposition(|ratio| (ratio / target - 1.0).abs() > 0.1);
        let settled = Figure::new(
            format!("{name}, settled after"),
            "periods",
            Some(off.map_or(0.0, |off| (off + 1) as f64)),
        );
        let most = runs.iter().flatten().copied().reduce(f64::max);
        let most = Figure::new(format!("{name}, highest of any period and run"), "ratio", most);
        if matches!(method, Method::Ours { .. }) {
            rows.extend([settled.at_most(10.0), most.at_most(2.0 * target)]);
        } else {
            rows.extend([settled.shown(), most.shown()]);
        }
    }
    rows
}

fn overload(setup: &mut Setup<'_>) -> Vec<Row> {
    let seed = u64::from(setup.run.0);
    let mut rows = Vec::new();
    for (processors, server) in [(1.0, "one processor"), (8.0, "eight processors")] {
        if !setup.wants_any(server, ["first come", "precedence", "ours"]) {
            continue;
        }
        let servers = vec![ServerSetup { processors, speed: 1.0 }];
        let calm = Traffic { shares: vec![1.0, 3.0], servers, ..Traffic::seed(0.05) };
        let full = Traffic { load: 2.0, ..calm.clone() };
        let deltas = [1.0, 3.0];
        let unloaded = calm.play(&OURS, &deltas, PERIODS, seed).percentile(0, 0.99);
        let objective = Duration::from_secs_f64(2.0 * unloaded.unwrap_or(SERVICE));
        let mut ours = full.config(&deltas);
        ours.classes[0].objective = Some(objective);
        ours.classes[1] = ClassConfig { shed: true, ..ours.classes[1].clone() };
        let mut first_come = Config { discipline: Discipline::FirstCome, ..full.config(&deltas) };
        for class in &mut first_come.classes {
            class.max_waiting = 1000;
        }
        // The first class comes first, and nothing is shed.
        let mut precedence = Config { discipline: Discipline::FirstCome, ..first_come.clone() };
        precedence.classes[0].objective = Some(Duration::from_nanos(1));
        let mut of_precedence = None;
        for (name, config) in [("first come", first_come), ("precedence", precedence), ("ours", ours)] {
            let course = full.play_ours(config, WARM_UP, PERIODS, seed);
            let label = |what: &str| format!("{server}, {name}, {what}");
            let goodput = course.goodput(full.period()) / (CAPACITY * processors) * 100.0;
            let goodput = Figure::new(label("answered of what can be"), "%", Some(goodput));
            let tail = course.percentile(0, 0.99).zip(unloaded).map(|(tail, unloaded)| tail / unloaded);
            if name == "precedence" {
                of_precedence = tail;
            }
            let tail =
                Figure::new(label("99th percentile of the first class over that at 5 % load"), "times", tail);
            let refused = |class: usize, what| {
                Figure::new(label(what), "%", course.refused(class).map(|share| share * 100.0)).shown()
            };
            if name == "ours" {
                rows.extend([
                    goodput.at_least(95.0),
                    tail.at_most(of_precedence.map(|least| least.max(2.0))),
                ]);
            } else {
                rows.extend([goodput.shown(), tail.shown()]);
            }
            rows.extend([
                refused(0, "refused of the first class"),
                refused(1, "refused of the second class"),
            ]);
            let second = course.percentile(1, 0.99).map(|tail| tail * 1000.0);
            rows.push(Figure::new(label("99th percentile of the second class"), "ms", second).shown());
        }
    }
    rows
}

fn slow(setup: &mut Setup<'_>) -> Vec<Row> {
    let servers = [1.0, 0.2].map(|speed| ServerSetup { processors: 4.0, speed });
    let one = Traffic { servers: servers.into(), ..Traffic::seed(0.9) };
    let more = [1.0, 0.2, 1.0].map(|speed| ServerSetup { processors: 4.0, speed });
    let two = Traffic { servers: more.into(), shares: vec![1.0, 1.0], ..Traffic::seed(0.9) };
    let mut rows = Vec::new();
    for (traffic, groups) in [(one, ""), (two, "two groups, ")] {
        for (idling, name) in [(false, "ours"), (true, "ours, idling")] {
            let mut config = Config { idling, ..traffic.config(&[1.0, 2.0]) };
            if let [_, _, own] = &mut config.servers[..] {
                own.classes = ClassSet::of([ClassId(0)]);
            }
            let course = traffic.play_ours(config, WARM_UP, PERIODS, u64::from(setup.run.0));
            let mean = Figure::new(format!("{groups}{name}, mean"), "ratio", course.mean_ratio(1));
            let turned = course.ratios(1).into_iter().map(|ratio| if ratio < 1.0 { 100.0 } else { 0.0 });
            let turned = Figure::new(
                format!("{groups}{name}, periods in which the first class is slower"),
                "%",
                self::mean(turned),
            );
            rows.push(if idling { mean.near(2.0, EXACT) } else { mean.shown() });
            rows.push(turned.at_most(5.0));
        }
    }
    rows
}
