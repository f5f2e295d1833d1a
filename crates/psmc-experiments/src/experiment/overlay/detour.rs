//! Figure 3.9: what going around costs.

use std::time::Duration;

use psmc_sim::overlay::{Lines, Message, NodeId, Script, StepId, play};
use psmc_wire::datagram::DATAGRAM_OVERHEAD;
use psmc_wire::frame::DATA_OVERHEAD;
use psmc_wire::hop::HOP_HEADER_LEN;

use super::network::{Distances, Network, groups};
use super::{SEEDS, SIZES, median, spread};
use crate::dice::Dice;
use crate::experiment::{Figure, Row, Setup};

pub(super) fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    let wanted = SIZES.into_iter().filter(|nodes| setup.wants_any(&format!("{nodes} nodes"), LABELS));
    let sizes: Vec<(u32, Vec<Option<Costs>>)> = wanted.map(|nodes| (nodes, runs(nodes))).collect();
    let overheads = |of: fn(&Costs) -> f64| {
        let of_size = |(_, runs): &(u32, Vec<Option<Costs>>)| median(values(runs, of));
        median(sizes.iter().map(of_size))
    };
    let middles = [overheads(|costs| costs.ping.overhead()), overheads(|costs| costs.fetch.overhead())];
    sizes.iter().flat_map(|(nodes, runs)| rows_of(*nodes, runs, middles)).collect()
}

fn rows_of(nodes: u32, runs: &[Option<Costs>], middles: [Option<f64>; 2]) -> Vec<Row> {
    let figure = |place: usize, unit, of: fn(&Costs) -> f64| {
        Figure::new(format!("{nodes} nodes, {}", LABELS[place]), unit, median(values(runs, of)))
    };
    let spread = spread(&values(runs, |costs| costs.ping.indirect));
    vec![
        figure(0, "ms", |costs| costs.ping.direct).shown(),
        figure(1, "ms", |costs| costs.ping.indirect).shown(),
        figure(2, "%", |costs| costs.ping.overhead()).seed(SEED_PING).at_most(SEED_PING),
        figure(3, "%", |costs| costs.fetch.overhead()).seed(SEED_FETCH).at_most(SEED_FETCH),
        figure(4, "%", |costs| costs.ping.overhead()).beside(middles[0], CONSTANT),
        figure(5, "%", |costs| costs.fetch.overhead()).beside(middles[1], CONSTANT),
        Figure::new(format!("{nodes} nodes, {}", LABELS[6]), "%", spread).shown(),
    ]
}

fn values(runs: &[Option<Costs>], of: fn(&Costs) -> f64) -> Vec<Option<f64>> {
    runs.iter().map(|run| run.as_ref().map(of)).collect()
}

/// What both routes of a network cost, means over its clients.
struct Costs {
    ping: Both,
    fetch: Both,
}

/// In ms.
#[derive(Clone, Copy)]
struct Both {
    direct: f64,
    indirect: f64,
}

impl Both {
    /// What is added, in percent.
    fn overhead(self) -> f64 {
        (self.indirect / self.direct - 1.0) * 100.0
    }
}

fn runs(nodes: u32) -> Vec<Option<Costs>> {
    SEEDS.map(|seed| costs(&Network::generate(nodes, seed)?, seed)).collect()
}

fn costs(network: &Network, seed: u64) -> Option<Costs> {
    let direct: Vec<Way> = network.clients.iter().map(|client| direct(network, *client)).collect();
    let indirect = indirect(network)?;
    let both = |exchange: Exchange| {
        Some(Both {
            direct: mean(&network.calm, &direct, exchange, seed)?,
            indirect: mean(&network.flooded, &indirect, exchange, seed)?,
        })
    };
    Some(Costs { ping: both(ping)?, fetch: both(fetch)? })
}

/// From a client to the service, by nodes that hand packets on.
#[derive(Clone)]
struct Way {
    nodes: Vec<NodeId>,
    /// What is added to each packet on each leg, in bytes.
    added: Vec<u32>,
    /// Payload of a full packet of TCP.
    payload: u32,
}

fn direct(network: &Network, client: NodeId) -> Way {
    Way {
        nodes: vec![client, network.main_gateway, network.target],
        added: vec![0; 2],
        payload: PLAIN_PAYLOAD,
    }
}

/// Through that of each client's relays by which the service is the nearest.
fn indirect(network: &Network) -> Option<Vec<Way>> {
    let mut ways = Vec::new();
    for group in groups(network)? {
        let legs: Vec<_> = group
            .relays
            .iter()
            .enumerate()
            .map(|(number, relay)| {
                let gateway = network.gateways[number % network.gateways.len()];
                (*relay, gateway, network.distances(*relay))
            })
            .collect();
        for client in group.clients {
            let nearest = legs.iter().min_by(|one, other| {
                let length =
                    |(_, gateway, far): &(NodeId, NodeId, Distances)| far.ms(client) + far.ms(*gateway);
                length(one).total_cmp(&length(other))
            });
            let (relay, gateway, _) = nearest?;
            let nodes = vec![client, *relay, *gateway, network.target];
            ways.push(Way { nodes, added: vec![TUNNELLED, TUNNELLED, 0], payload: TUNNEL_PAYLOAD });
        }
    }
    Some(ways)
}

/// Adds what a client does to a script, after a step; the last of its steps.
type Exchange = fn(&Way, &mut Script, StepId) -> StepId;

/// How long it takes on average, in ms.
fn mean(lines: &Lines, ways: &[Way], exchange: Exchange, seed: u64) -> Option<f64> {
    let (mut script, mut dice) = (Script::new(), Dice::new(seed));
    let mut spans = Vec::new();
    // One client after the other, so that they do not meet.
    for (number, way) in (0..).zip(ways.iter().take(MOST_CLIENTS)) {
        for turn in 0..TURNS {
            let start = EACH * (number * TURNS + turn) + EACH.mul_f64(0.1 * dice.uniform());
            let begin = script.pause(start, &[]);
            spans.push((begin, exchange(way, &mut script, begin)));
        }
    }
    let ends = play(lines, &script, seed);
    let span = |(begin, end): &(StepId, StepId)| Some(ends[end.number()]? - ends[begin.number()]?);
    let sum: Duration = spans.iter().map(span).sum::<Option<_>>()?;
    Some(sum.as_secs_f64() * 1e3 / spans.len() as f64)
}

fn ping(way: &Way, script: &mut Script, after: StepId) -> StepId {
    let there = way.there(script, PING, after);
    way.back(script, PING, there)
}

/// 100 kB over a new connection of TCP: 10 segments (RFC 6928), and for each that is acknowledged two more (RFC 5681 §3.1).
fn fetch(way: &Way, script: &mut Script, after: StepId) -> StepId {
    let connected = ping(way, script, after);
    let asked = way.there(script, HEADERS + REQUEST, connected);
    let (mut arrived, mut acknowledged) = (Vec::new(), Vec::new());
    for number in 0..FETCHED.div_ceil(way.payload) {
        let released_by = number.checked_sub(FIRST_WINDOW).map(|beyond| acknowledged[beyond as usize / 2]);
        let segment = way.back(script, HEADERS + way.payload, released_by.unwrap_or(asked));
        arrived.push(segment);
        acknowledged.push(way.there(script, HEADERS, segment));
    }
    script.pause(Duration::ZERO, &arrived)
}

impl Way {
    /// A packet to the service.
    fn there(&self, script: &mut Script, bytes: u32, after: StepId) -> StepId {
        let legs = self.nodes.windows(2).zip(&self.added);
        legs.fold(after, |after, (ends, added)| hand_on(script, [ends[0], ends[1]], bytes + added, after))
    }

    /// And from it.
    fn back(&self, script: &mut Script, bytes: u32, after: StepId) -> StepId {
        let legs = self.nodes.windows(2).zip(&self.added).rev();
        legs.fold(after, |after, (ends, added)| hand_on(script, [ends[1], ends[0]], bytes + added, after))
    }
}

fn hand_on(script: &mut Script, [from, to]: [NodeId; 2], bytes: u32, after: StepId) -> StepId {
    script.send(Message { from, to, bytes, work: HANDED_ON }, &[after])
}

const LABELS: [&str; 7] = [
    "direct ping",
    "indirect ping",
    "overhead of ping",
    "overhead of 100 kB",
    "overhead of ping beside other sizes",
    "overhead of 100 kB beside other sizes",
    "spread of indirect ping",
];

/// Table 3.3, in percent.
const SEED_PING: f64 = 77.0;
const SEED_FETCH: f64 = 80.0;

/// How far overheads may be from the middle, in percentage points: networks of one size differ by as much.
const CONSTANT: f64 = 20.0;

/// A packet of ping.
const PING: u32 = 84;

/// Headers of IPv4 and TCP with timestamps.
const HEADERS: u32 = 52;

/// The longest packet on a line.
const LINE_MTU: u32 = 1500;

/// Payload of a full packet, outside the tunnel and in it.
const PLAIN_PAYLOAD: u32 = LINE_MTU - HEADERS;
const TUNNEL_PAYLOAD: u32 = PLAIN_PAYLOAD - TUNNELLED;

/// Headers of IPv4 and UDP.
const OUTER: u32 = 28;

/// What is added to a packet on its way through a relay: by the tunnel, and by what carries it.
#[expect(clippy::cast_possible_truncation, reason = "a few headers")]
const TUNNELLED: u32 = OUTER + (DATAGRAM_OVERHEAD + DATA_OVERHEAD + HOP_HEADER_LEN) as u32;

/// How long a node that hands a packet on, or takes it, works on it.
const HANDED_ON: Duration = Duration::from_micros(20);

/// Of HTTP.
const REQUEST: u32 = 100;

const FETCHED: u32 = 100_000;

const FIRST_WINDOW: u32 = 10;

/// How often each client does the same, ...
const TURNS: u32 = 5;

/// ... and how much time it has for it.
const EACH: Duration = Duration::from_secs(30);

const MOST_CLIENTS: usize = 100;

#[cfg(test)]
mod tests {
    use psmc_sim::overlay::Line;

    use super::*;

    /// Four nodes in a row, each line 5 ms long and so fast that only delays and work count.
    fn row() -> Lines {
        let mut lines = Lines::new(4);
        for node in 0..3 {
            let line = Line { bits_per_second: 1e15, delay: Duration::from_millis(5), load: 0.0 };
            lines.lay(NodeId(node), NodeId(node + 1), line);
        }
        lines
    }

    fn way(nodes: &[u32], payload: u32) -> Way {
        Way { nodes: nodes.iter().copied().map(NodeId).collect(), added: vec![0; nodes.len() - 1], payload }
    }

    fn takes(nodes: &[u32], exchange: Exchange) -> f64 {
        mean(&row(), &[way(nodes, 1000)], exchange, 1).unwrap()
    }

    #[test]
    fn a_ping_takes_a_round_trip_and_the_work_of_all_on_its_way() {
        assert!((takes(&[0, 2], ping) - (20.0 + 2.0 * 0.02)).abs() < 1e-3);
        assert!((takes(&[0, 1, 3], ping) - (30.0 + 4.0 * 0.02)).abs() < 1e-3);
    }

    #[test]
    fn a_fetch_doubles_its_window_each_round() {
        // Connection; request and 10 segments; 20, 40 and the last 30 of 100, the first of each after an acknowledgement
        // of the first of those before; each node works on all of them.
        let ways = 10.0;
        let time = takes(&[0, 2], fetch);
        assert!((ways * 10.0..ways * 10.0 + 100.0 * 0.02 * 2.0).contains(&time), "{time} ms");
    }

    #[test]
    fn a_detour_costs_what_it_is_longer() {
        let network = Network::generate(200, 1).unwrap();
        let costs = costs(&network, 1).unwrap();
        assert!(costs.ping.overhead() > 0.0 && costs.fetch.overhead() > 0.0);
        assert!(costs.fetch.direct > 3.0 * costs.ping.direct);
        let ways = indirect(&network).unwrap();
        assert_eq!(ways.len(), network.clients.len());
        assert!(ways.iter().all(|way| network.relays.contains(&way.nodes[1])));
    }
}
