//! What it takes to have clients go around an attack: set-up, DNS, and the routes of a client.

mod reroute;
mod routes;
mod servers;
mod setup;
mod stopwatch;
mod update;

use crate::experiment::Experiment;

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-table-3.1",
        what: "from the alert to clients on the indirect route, step by step",
        seed: "PSMC table 3.1: SCOLD's test bed; coordinator and proxies, DNS of the clients, clients",
        how: "real time; psmc demo --attack: a service behind a line of 20 Mb/s that is flooded with 200 Mb/s, three relays, \
              two clients, all programs of PSMC, looked at every 10 ms. From the guard's finding the flood until the relays \
              are chosen, the gateway is registered with them and DNS has them; from then until all clients' data go \
              through them. Median of three runs each; the total is that of the runs, too",
        criterion: "1 s for all of it",
        measure: setup::measure,
    },
    Experiment {
        name: "psmc-table-3.2",
        what: "routes are published on 1, 10, 25 and 50 name servers by secure DNS updates",
        seed: "PSMC table 3.2: secure updates of SCOLD's BIND by a proxy",
        how: "real time; psmc dns reroute publish with TSIG (HMAC-SHA-256) to instances of BIND 9 over 49 ms of round trip; \
              from the start of the program to its end, when all servers have acknowledged; median of three",
        criterion: "1 s for any number",
        measure: update::measure,
    },
    Experiment {
        name: "psmc-table-3.4",
        what: "1 and 10 name servers behind a line that is attacked: nsupdate, and psmc dns reroute with a second way",
        seed: "PSMC table 3.4: nsupdate over the direct route, nsreroute over the indirect one",
        how: "real time; instances of BIND 9, direct 49 ms of round trip and 10 Mb/s, through psmc-relay and a tunnel 87 ms; \
              psmc dns reroute publish --server DIRECT,INDIRECT beside nsupdate of an address over the direct way, one for \
              each server at the same time, started again if it gives up. The attack is UDP of 100 Mb/s over the direct \
              way. Median of three; what has not ended after 30 s counts as that",
        criterion: "under attack faster than nsupdate",
        measure: reroute::measure,
    },
    Experiment {
        name: "psmc-table-3.8",
        what: "a client's indirect route is added and deleted while data flow",
        seed: "PSMC table 3.8: after a time-out of 90 s",
        how: "real time; psmc routes set and clear at a psmcd that prefers indirect routes, with UDP of 4 Mb/s in the tunnel; \
              direct 49 ms of round trip, through psmc-relay 87 ms. From the start of the command until the last data \
              leave the way they took before, at its far end, looked at every 10 ms; median of three",
        criterion: "2 round trips through the relay",
        measure: routes::measure,
    },
];

/// How often each is measured.
const RUNS: u32 = 3;

/// What a program of a run printed; nothing if it did not run.
fn output<'a>(results: &'a crate::results::Results, name: &str) -> &'a str {
    let program = results.programs.iter().find(|program| program.name == name);
    program.and_then(|program| program.output.as_deref()).unwrap_or_default()
}
