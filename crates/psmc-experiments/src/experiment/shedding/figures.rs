//! Figures 9 to 11: what arrives at an overloaded server, what all servers accept, and what parameters matter.

use std::time::Duration;

use super::network::{Demand, crowd, optimum};
use super::run::{Course, Method};
use super::{literature, ours};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "drain-fig-9",
        what: "what arrives at an overloaded server, and what it accepts of it",
        seed: "DRAIN figure 9: both are about 400 packets/s from 5 s on, when its rules are distributed; ns-2",
        how: NETWORK,
        criterion: "with ours what arrives is within a tenth of what is accepted after 5 s, and the server accepts at least 95 % of what it does without",
        runs: 3,
        measure: figure_9,
    },
    Experiment {
        name: "drain-fig-10",
        what: "what all servers accept, by the number of connections to an overloaded one",
        seed: "DRAIN figure 10 and §5.2: with 400 connections of each client almost 90 % more than without NetDraino; ns-2",
        how: NETWORK,
        criterion: "ours at 400 connections 90 % more than without, everywhere at least 95 % of the most that there can be (by a linear program) and no less than the seed's",
        runs: 1,
        measure: figure_10,
    },
    Experiment {
        name: "drain-fig-11a",
        what: "what all servers accept, by the seed's k and our headroom",
        seed: "DRAIN figure 11a: no significant difference for k from 1 to 2; ns-2",
        how: NETWORK,
        criterion: "ours at least 95 % of the most that there can be, and no less than the seed's best",
        runs: 1,
        measure: figure_11a,
    },
    Experiment {
        name: "drain-fig-11b",
        what: "what all servers accept, by the seed's threshold of congestion and our time between reports",
        seed: "DRAIN figure 11b: no significant difference for thresholds from 5 to 20 packets, less above; ns-2",
        how: NETWORK,
        criterion: "ours at least 95 % of the most that there can be, and no less than the seed's best",
        runs: 1,
        measure: figure_11b,
    },
    Experiment {
        name: "drain-fig-11c",
        what: "what all servers accept, by the share of packets that the seed stamps and ours counts",
        seed: "DRAIN figure 11c: a tenth suffices; ns-2",
        how: NETWORK,
        criterion: "ours at least 95 % of the most that there can be, and no less than the seed's best",
        runs: 1,
        measure: figure_11c,
    },
];

const NETWORK: &str = "\
simulated, packet by packet; figure 8 is a drawing, of which the text has 25 clients and 5 servers, and from §5.2 that the network \
carries 900 packets/s and that S0 accepts 450. Chosen: five clients at each of five routers, whose links carry 180 packets/s each; S0 \
accepts 400 packets/s of TCP and 50 of UDP, each other server 400 and 100. From table I: packets of 1 KB, 100 TCP connections and \
18 KB/s of UDP of each client to S0, 10 and 4 KB/s to each other server, starting within 3 s; Pareto on–off applications, 0.5 and 1 s, \
at 64 kb/s and with a shape of 1.5, as ns-2's are; NewReno with timeouts from 0.2 to 60 s. RED of 30 packets, whose thresholds are 10 \
and 30. The seed's routers and servers as in §4: k 1.2, th_congest 15, p_a 0.1; chosen, for the seed prints none: rules last 10 s and are \
relaxed by four steps, 200 estimated packets suffice for a rule, a tenth of all is marked RCN. Ours: each router reports every 0.2 s what it \
was offered; reports and rules take 50 ms. 60 s, of which the first 10 do not count; accepted packets per second";

const SECONDS: u32 = 60;

const NONE: Method = Method::None;
const SEED: Method = Method::Seed(literature::Parameters::DEFAULT);
const OURS: Method = Method::Ours(ours::Parameters::DEFAULT);

fn figure_9(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    let mut without = None;
    for (method, name) in [(NONE, "without"), (SEED, "the seed's"), (OURS, "ours")] {
        let course = play(setup, Demand::DEFAULT, method);
        let (arrived, accepted) = course.first_server(course.settled(), course.seconds());
        let label = |what: &str| format!("{name}, {what}");
        let rate = |what: &str, rate| Figure::new(label(what), "packets/s", Some(rate)).shown();
        rows.push(rate("arrives", arrived));
        rows.push(rate("accepted", accepted));
        let of_without = accepted / *without.get_or_insert(accepted) * 100.0;
        let of_without = Figure::new(label("accepted of what is without"), "%", Some(of_without));
        let after = Figure::new(label("arrival is acceptance after"), "s", last_apart(&course));
        match method {
            Method::None => {}
            Method::Seed(_) => rows.extend([of_without.shown(), after.seed(5.0).shown()]),
            Method::Ours(_) => rows.extend([of_without.at_least(95.0), after.seed(5.0).at_most(5.0)]),
        }
    }
    rows
}

/// The end of the last second in which what arrives is more than a tenth above what is accepted.
fn last_apart(course: &Course) -> Option<f64> {
    let is_apart = |second: &usize| {
        let (arrived, accepted) = course.first_server(*second, second + 1);
        arrived > 1.1 * accepted
    };
    Some((0..course.seconds()).rev().find(is_apart).map_or(0.0, |second| (second + 1) as f64))
}

fn figure_10(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for connections in [10, 40, 100, 200, 300, 400] {
        let group = format!("{connections} connections");
        if !setup.wants_any(&group, ["without", "the seed's", "ours"]) {
            continue;
        }
        let demand = Demand::of_step(connections);
        let [without, seeds, ours] =
            [NONE, SEED, OURS].map(|method| play(setup, demand, method).throughput());
        let most = optimum(&crowd(demand));
        let figure = |what: &str, unit, value| Figure::new(format!("{group}, {what}"), unit, value);
        let gain = |with: f64| Some((with / without - 1.0) * 100.0);
        rows.push(figure("without", "packets/s", Some(without)).shown());
        rows.push(figure("the seed's", "packets/s", Some(seeds)).shown());
        rows.push(figure("ours", "packets/s", Some(ours)).at_least(seeds));
        rows.push(figure("ours, of the most", "%", most.map(|most| ours / most * 100.0)).at_least(95.0));
        rows.push(figure("the seed's, gain", "%", gain(seeds)).shown());
        let gain = figure("ours, gain", "%", gain(ours));
        rows.push(if connections == 400 { gain.seed(90.0).at_least(90.0) } else { gain.shown() });
    }
    rows
}

fn figure_11a(setup: &mut Setup<'_>) -> Vec<Row> {
    let seeds = [1.0, 1.2, 1.5, 2.0].map(|k| {
        let parameters = literature::Parameters { k, ..literature::Parameters::DEFAULT };
        (format!("k {k:.1}"), parameters)
    });
    let ours = [0.0, 0.1, 0.3].map(|headroom| {
        let parameters = ours::Parameters { headroom, ..ours::Parameters::DEFAULT };
        (format!("headroom {:.0} %", headroom * 100.0), parameters)
    });
    sweep(setup, &seeds, &ours)
}

fn figure_11b(setup: &mut Setup<'_>) -> Vec<Row> {
    let seeds = [5.0, 10.0, 15.0, 20.0, 25.0, 28.0].map(|threshold| {
        let parameters = literature::Parameters { threshold, ..literature::Parameters::DEFAULT };
        (format!("threshold {threshold:.0}"), parameters)
    });
    let ours = [100, 200, 500, 1000].map(|ms| {
        let interval = Duration::from_millis(ms);
        let parameters = ours::Parameters { interval, ..ours::Parameters::DEFAULT };
        (format!("reports every {ms} ms"), parameters)
    });
    sweep(setup, &seeds, &ours)
}

fn figure_11c(setup: &mut Setup<'_>) -> Vec<Row> {
    let seeds = [0.01, 0.05, 0.1, 0.2, 0.5].map(|stamped| {
        let parameters = literature::Parameters { stamped, ..literature::Parameters::DEFAULT };
        (format!("stamped {:.0} %", stamped * 100.0), parameters)
    });
    let ours = [0.01, 0.05, 0.1, 0.5, 1.0].map(|counted| {
        let parameters = ours::Parameters { counted, ..ours::Parameters::DEFAULT };
        (format!("counted {:.0} %", counted * 100.0), parameters)
    });
    sweep(setup, &seeds, &ours)
}

/// What all servers accept with each of these parameters, under the seed's default demand and under twice that.
fn sweep(
    setup: &mut Setup<'_>,
    seeds: &[(String, literature::Parameters)],
    ours: &[(String, ours::Parameters)],
) -> Vec<Row> {
    let mut rows = Vec::new();
    for times in [1, 2] {
        let Demand { connections, udp } = Demand::DEFAULT;
        let demand = Demand { connections: connections * times, udp: udp * f64::from(times) };
        let figure = |name: &str, what: &str, value| {
            Figure::new(format!("{} connections, {name}, {what}", demand.connections), "packets/s", value)
        };
        let without = play(setup, demand, NONE).throughput();
        rows.push(figure("without", "accepted", Some(without)).shown());
        let mut best = 0.0f64;
        for (name, parameters) in seeds {
            let accepted = play(setup, demand, Method::Seed(*parameters)).throughput();
            best = best.max(accepted);
            rows.push(figure("the seed's", name, Some(accepted)).shown());
        }
        let least = optimum(&crowd(demand)).map(|most| best.max(0.95 * most));
        for (name, parameters) in ours {
            let accepted = play(setup, demand, Method::Ours(*parameters)).throughput();
            rows.push(figure("ours", name, Some(accepted)).at_least(least));
        }
    }
    rows
}

fn play(setup: &Setup<'_>, demand: Demand, method: Method) -> Course {
    Course::play(crowd(demand), method, setup.seconds(SECONDS), u64::from(setup.run.0))
}
