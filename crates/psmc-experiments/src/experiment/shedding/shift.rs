//! Demand that moves from one ingress to another.

use std::time::Duration;

use psmc_sim::crowd::{CrowdSetup, Load, SourceSetup};

use super::network::setup as network;
use super::run::{Course, Method};
use super::{literature, ours};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[Experiment {
    name: "drain-shift",
    what: "how much of an overloaded server is idle once demand enters elsewhere",
    seed: "none: DRAIN §4.3 gives each router a share of what it has sent, and hears no more of one that is not congested",
    how: "\
simulated as drain-fig-9; two routers whose links carry 1000 packets/s, and UDP to S0, which accepts 400 packets/s of it: 2000 by the \
first router, 600 by the second; 900 to another server, which accepts all, by the second. After 5 s, while the seed's first rules last, the \
2000 and the 900 change places. Twenty TCP connections of each client to S0, without whose acknowledgements the seed's routers would not \
learn of it. Idle is what S0 does not accept of the 400",
    criterion: "ours no more than 5 % idle from 1 s on",
    runs: 5,
    measure: shift,
}];

/// When it moves, in seconds.
const SHIFT: usize = 5;

const SECONDS: u32 = 28;

const ACCEPTED: f64 = 400.0;

fn shift(setup: &mut Setup<'_>) -> Vec<Row> {
    let seed = u64::from(setup.run.0);
    let methods = [
        (Method::Seed(literature::Parameters::DEFAULT), "the seed's"),
        (Method::Ours(ours::Parameters::DEFAULT), "ours"),
    ];
    let mut rows = Vec::new();
    for (method, name) in methods {
        let course = Course::play(crowd(), method, SECONDS, seed);
        let figure = |what: &str, from, until| {
            let idle = (1.0 - course.udp_of_first_server(from, until) / ACCEPTED) * 100.0;
            Figure::new(format!("{name}, idle {what}"), "%", Some(idle))
        };
        rows.push(figure("before", SHIFT - 1, SHIFT).shown());
        rows.push(figure("in the second after it", SHIFT, SHIFT + 1).shown());
        for (what, until) in
            [("from 1 to 2 s after it", 2), ("from 1 to 5 s after it", 5), ("from 1 to 20 s after it", 20)]
        {
            let idle = figure(what, SHIFT + 1, SHIFT + until);
            rows.push(if matches!(method, Method::Ours(_)) { idle.at_most(5.0) } else { idle.shown() });
        }
    }
    rows
}

fn crowd() -> CrowdSetup {
    let shift = Duration::from_secs(SHIFT as u64);
    let always = (Duration::ZERO, Duration::MAX);
    let source = |(ingress, server, load, (from, until))| SourceSetup {
        client: u32::try_from(ingress).unwrap_or(0),
        ingress,
        server,
        load,
        from,
        until,
        delay: Duration::from_millis(20),
    };
    let (before, after) = ((Duration::ZERO, shift), (shift, Duration::MAX));
    let sources = [
        (0, 0, Load::Stream(2000.0), before),
        (1, 0, Load::Stream(2000.0), after),
        (1, 0, Load::Stream(600.0), always),
        (1, 1, Load::Stream(900.0), before),
        (0, 1, Load::Stream(900.0), after),
        // By whose acknowledgements the seed's routers learn of S0.
        (0, 0, Load::Connections(20), always),
        (1, 0, Load::Connections(20), always),
    ];
    let mut servers = vec![[ACCEPTED, ACCEPTED]];
    servers.resize(5, [2000.0, 2000.0]);
    network(sources.map(source).into(), 1000.0, servers)
}
