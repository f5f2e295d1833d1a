//! The network: 25 clients, five ingresses, five servers, the first of which is overloaded.

use std::time::Duration;

use microlp::{ComparisonOp, LinearExpr, OptimizationDirection, Problem};
use psmc_drain::ClassId;
use psmc_sim::crowd::{CrowdSetup, Kind, Load, OnOffSetup, QueueSetup, SourceSetup};

/// Routers where clients enter; each has a link towards the servers.
pub(super) const INGRESSES: usize = 5;

const SERVERS: usize = 5;

const CLIENTS_OF_INGRESS: u32 = 5;

/// What the links carry together, in packets per second: the seed's "maximum bandwidth of network" (§5.2).
const LINKS: f64 = 900.0;

/// What a server accepts of TCP, in packets per second: the seed's figure 9 has about 400.
const TCP_ACCEPTED: f64 = 400.0;

/// What the overloaded server accepts of UDP: with TCP 450, the seed's "accepting rate of S0" (§5.2).
const UDP_ACCEPTED: f64 = 50.0;

/// What each other server accepts of UDP: all that clients send there.
const UDP_OF_OTHERS: f64 = 100.0;

/// Connections of each client to each other server (table I).
const CONNECTIONS_TO_OTHERS: u32 = 10;

/// UDP of each client to each other server, in packets of 1 KB per second (table I).
const UDP_TO_OTHERS: f64 = 4.0;

/// Sources start at random within so long.
const STARTING: f64 = 3.0;

const ON_OFF: OnOffSetup = OnOffSetup {
    // 64 kb/s in packets of 1 KB.
    rate: 8.0,
    on: Duration::from_millis(500),
    off: Duration::from_millis(1000),
    shape: 1.5,
};

/// 30 packets under RED. ns-2's maximum of 15 would keep the average from the threshold of 15 that the seed asks for.
const QUEUE: QueueSetup = QueueSetup { limit: 30, min: 10.0, max: 30.0, most: 0.1, weight: 0.002 };

/// How much passes at once at a policer or throttle, in seconds at its rate.
pub(super) const BURST: f64 = 0.1;

/// What each client sends to the overloaded server.
#[derive(Clone, Copy, Debug)]
pub(super) struct Demand {
    pub(super) connections: u32,
    /// Packets of 1 KB per second.
    pub(super) udp: f64,
}

impl Demand {
    /// The seed's default (table I).
    pub(super) const DEFAULT: Self = Self { connections: 100, udp: 18.0 };

    /// By the seed's steps of figure 10: with ten more connections 2 KB/s more.
    pub(super) fn of_step(connections: u32) -> Self {
        Self { connections, udp: f64::from(connections) / 5.0 - 2.0 }
    }
}

/// What a server polices.
pub(super) fn class(server: usize, kind: Kind) -> ClassId {
    ClassId(u32::try_from(server * 2 + kind as usize).unwrap_or(u32::MAX))
}

/// What all servers police.
pub(super) fn classes() -> impl Iterator<Item = (usize, Kind)> {
    (0..SERVERS).flat_map(|server| [Kind::Tcp, Kind::Udp].map(|kind| (server, kind)))
}

/// What a server accepts of each kind, in packets per second.
fn accepted(server: usize) -> [f64; 2] {
    [TCP_ACCEPTED, if server == 0 { UDP_ACCEPTED } else { UDP_OF_OTHERS }]
}

/// The seed's network with such a demand.
pub(super) fn crowd(demand: Demand) -> CrowdSetup {
    let mut sources = Vec::new();
    for (ingress, client) in (0..INGRESSES).flat_map(|at| (0..CLIENTS_OF_INGRESS).map(move |one| (at, one))) {
        let client = u32::try_from(ingress).unwrap_or(0) * CLIENTS_OF_INGRESS + client;
        for server in 0..SERVERS {
            let to_others = [Load::Connections(CONNECTIONS_TO_OTHERS), Load::Stream(UDP_TO_OTHERS)];
            let to_first = [Load::Connections(demand.connections), Load::Stream(demand.udp)];
            for load in if server == 0 { to_first } else { to_others } {
                // Evenly over the time of starting, and over round trips from 40 to 88 ms.
                let from = Duration::from_secs_f64(STARTING * f64::from(client * 7 % 25) / 25.0);
                let delay = Duration::from_millis(20 + u64::from(client));
                sources.push(SourceSetup {
                    client,
                    ingress,
                    server,
                    load,
                    from,
                    until: Duration::MAX,
                    delay,
                });
            }
        }
    }
    setup(sources, LINKS / INGRESSES as f64, (0..SERVERS).map(accepted).collect())
}

/// Other sources over links that carry so much each, to servers that accept so much of each kind.
pub(super) fn setup(sources: Vec<SourceSetup>, link: f64, servers: Vec<[f64; 2]>) -> CrowdSetup {
    CrowdSetup { links: vec![link; INGRESSES], queue: QUEUE, servers, burst: BURST, sources, on_off: ON_OFF }
}

/// The most that servers can accept together in such a network, in packets per second, by a linear program: nobody sends more than it
/// has, no link carries more than it can, no server accepts more than it does.
pub(super) fn optimum(setup: &CrowdSetup) -> Option<f64> {
    let mut problem = Problem::new(OptimizationDirection::Maximize);
    let mut links = vec![LinearExpr::empty(); setup.links.len()];
    let mut servers = vec![[LinearExpr::empty(), LinearExpr::empty()]; setup.servers.len()];
    for source in &setup.sources {
        let (kind, most) = match source.load {
            Load::Connections(count) => (Kind::Tcp, f64::from(count) * mean_of(setup.on_off)),
            Load::Stream(rate) => (Kind::Udp, rate),
        };
        let rate = problem.add_var(1.0, (0.0, most));
        links[source.ingress].add(rate, 1.0);
        servers[source.server][kind as usize].add(rate, 1.0);
    }
    for (link, rate) in links.into_iter().zip(&setup.links) {
        problem.add_constraint(link, ComparisonOp::Le, *rate);
    }
    for (sums, rates) in servers.into_iter().zip(&setup.servers) {
        for (sum, rate) in sums.into_iter().zip(rates) {
            problem.add_constraint(sum, ComparisonOp::Le, *rate);
        }
    }
    Some(problem.solve().ok()?.into_solution().ok()?.objective())
}

/// What a connection's application has on average, in packets per second.
fn mean_of(on_off: OnOffSetup) -> f64 {
    on_off.rate * on_off.on.div_duration_f64(on_off.on + on_off.off)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_most_is_what_links_carry_once_there_is_more_than_that() {
        let most = optimum(&crowd(Demand::DEFAULT));
        assert!(most.is_some_and(|most| (most - LINKS).abs() < 1e-6), "{most:?}");
    }

    #[test]
    fn the_most_is_what_is_offered_or_accepted_if_that_is_less() {
        let source = |server, load| SourceSetup {
            client: 0,
            ingress: 0,
            server,
            load,
            from: Duration::ZERO,
            until: Duration::MAX,
            delay: Duration::ZERO,
        };
        let sources = vec![source(0, Load::Stream(70.0)), source(1, Load::Stream(60.0))];
        let most = optimum(&setup(sources, 1000.0, (0..SERVERS).map(accepted).collect()));
        assert!(most.is_some_and(|most| (most - 110.0).abs() < 1e-6), "{most:?}");
    }
}
