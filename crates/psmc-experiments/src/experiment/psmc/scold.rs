//! What it takes to have clients go around an attack: set-up, DNS, and the routes of a client.

mod lookup;
mod routes;
mod secondaries;
mod servers;
mod update;

use crate::experiment::Experiment;

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-table-3.1",
        what: "from the alert to clients on the indirect route, step by step",
        seed: "PSMC table 3.1: SCOLD's test bed; coordinator and proxies, DNS of the clients, clients",
        how: "real time; psmc demo --attack: a service behind a line of 20 Mb/s that is flooded with 200 Mb/s, four relays, \
              two clients, all programs of PSMC, looked at every 10 ms. From the guard's finding the flood until the relays \
              are chosen, the gateway is registered with them and DNS has them; from then until all clients' data go \
              through them. Median of three runs each; the total is that of the runs, too",
        criterion: "1 s for all of it",
        runs: 1,
        measure: routes::measure_set_up,
    },
    Experiment {
        name: "psmc-table-3.2",
        what: "routes are published on 1, 10, 25 and 50 name servers by secure DNS updates",
        seed: "PSMC table 3.2: secure updates of SCOLD's BIND by a proxy",
        how: "real time; psmc dns reroute publish with TSIG (HMAC-SHA-256) to instances of BIND 9 over 49 ms of round trip; \
              from the start of the program to its end, when all servers have acknowledged; median of three",
        criterion: "1 s for any number",
        runs: 1,
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
        runs: 1,
        measure: update::measure_attacked,
    },
    Experiment {
        name: "dns-secondaries",
        what: "50 secondaries of one primary serve routes that are published on it",
        seed: "none; the secure updates of PSMC table 3.2 go to each name server by itself",
        how: "real time; psmc dns reroute publish to a primary over 49 ms of round trip, with 50 instances of BIND 9 as \
              secondaries at its other end, all configured as docs/DNS.md says. From the start of the program until dig, which \
              asks one after the other, has the new record of the last one; three times. The middle one is that of the \
              run in the middle, the last one that of all runs",
        criterion: "1 s for the last one with our server as primary",
        runs: 1,
        measure: secondaries::measure,
    },
    Experiment {
        name: "psmc-table-3.5",
        what: "a name is resolved by psmc dns resolve beside the name server itself",
        seed: "PSMC table 3.5: the enhanced resolver library beside the original one; ping, HTTP and FTP are within 0.1 ms \
               of one another there, and ping's lookup is the row",
        how: "real time; psmc-dns on the client's host, asked by dnsperf, one question after the other for 2 s: for an \
              address; by the resolver for names that it never heard of; by the resolver for the address of a service \
              that has routes and is reached directly, as psmcd says. Medians; of these that of three turns. Lines to the \
              name server, which take the same time for both, are left out",
        criterion: "0.1 ms more than asked directly",
        runs: 1,
        measure: lookup::measure_resolver,
    },
    Experiment {
        name: "psmc-table-3.6",
        what: "a name server answers for an address that has alternate routes beside it",
        seed: "PSMC table 3.6: the enhanced BIND beside the original one; ping, HTTP and FTP are the same there",
        how: "real time; BIND 9 and psmc-dns on one host, each with routes published by psmc dns reroute and without, asked \
              there by dnsperf, one question after the other for 2 s. Medians; of these that of three turns",
        criterion: "0.1 ms more than BIND without routes",
        runs: 1,
        measure: lookup::measure_server,
    },
    Experiment {
        name: "psmc-table-3.8",
        what: "a client's indirect route is added and deleted while data flow",
        seed: "PSMC table 3.8: after a time-out of 90 s",
        how: "real time; psmc routes set and clear at a psmcd that prefers indirect routes, with UDP of 4 Mb/s in the tunnel; \
              direct 49 ms of round trip, through psmc-relay 87 ms. From the start of the command until the last data \
              leave the way they took before, at its far end, looked at every 10 ms; median of three",
        criterion: "2 round trips through the relay",
        runs: 1,
        measure: routes::measure,
    },
];

/// How often each is measured.
const RUNS: u32 = 3;

/// What a program of a run printed; nothing if it did not run.
fn output<'a>(results: &'a psmc_lab::results::Results, name: &str) -> &'a str {
    let program = results.programs.iter().find(|program| program.name == name);
    program.and_then(|program| program.output.as_deref()).unwrap_or_default()
}
