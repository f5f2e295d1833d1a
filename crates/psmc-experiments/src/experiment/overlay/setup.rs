//! Figure 3.8: from the alert until clients go around.

use std::time::Duration;

use psmc_sim::overlay::{NodeId, Script, StepId, play};

use super::network::{Distances, Group, Network, groups};
use super::{MESSAGE, STORED, Talk};
use super::{SEEDS, SIZES, bytes, median, spread};
use crate::dice::Dice;
use crate::experiment::{Figure, Row, Setup};

pub(super) fn measure(setup: &mut Setup<'_>) -> Vec<Row> {
    let wanted = SIZES.into_iter().filter(|nodes| setup.wants_any(&format!("{nodes} nodes"), LABELS));
    let sizes: Vec<(u32, Runs)> = wanted.map(|nodes| (nodes, runs(nodes))).collect();
    let Some((first, smallest)) = sizes.first() else { return Vec::new() };
    let others = (*first != SIZES[0]).then(|| runs(SIZES[0]));
    let base = others.as_ref().unwrap_or(smallest);
    sizes.iter().flat_map(|(nodes, runs)| rows_of(*nodes, runs, base)).collect()
}

/// Those of one size; growth is beside `base`, those of the smallest.
fn rows_of(nodes: u32, runs: &Runs, base: &Runs) -> Vec<Row> {
    let middle = |of| median(values(runs, of));
    let growth = |of| middle(of).zip(median(values(base, of))).map(|(now, before)| now / before);
    let figure =
        |place: usize, unit, ours| Figure::new(format!("{nodes} nodes, {}", LABELS[place]), unit, ours);
    let by_dns = middle(|times| times.by_dns);
    let round_trip = middle(|times| times.round_trip);
    vec![
        figure(0, "s", middle(|times| times.registered)).shown(),
        figure(1, "s", middle(|times| times.published)).shown(),
        figure(2, "s", by_dns).seed(SCOLD).at_most(SCOLD),
        figure(3, "s", middle(|times| times.last)).shown(),
        figure(4, "s", middle(|times| times.told)).shown(),
        figure(5, "%", spread(&values(runs, |times| times.by_dns))).shown(),
        figure(6, "ms", round_trip.map(|round_trip| round_trip * 1e3)).shown(),
        figure(7, "times", growth(|times| times.by_dns)).at_most(growth(|times| times.round_trip)),
    ]
}

fn values(runs: &Runs, of: fn(&Times) -> f64) -> Vec<Option<f64>> {
    runs.iter().map(|run| run.as_ref().map(of)).collect()
}

/// One for each seed.
type Runs = Vec<Option<Times>>;

/// When what had happened in a network, in s since the alert.
struct Times {
    /// The coordinator knows that the gateway is registered with all relays.
    registered: f64,
    /// The last name server has the routes of all groups.
    published: f64,
    /// Clients that have found them in DNS go around: the mean, ...
    by_dns: f64,
    /// ... and the last.
    last: f64,
    /// The mean of clients that the coordinator has told.
    told: f64,
    /// Between clients and the service by the direct route, as bits travel: the mean.
    round_trip: f64,
}

/// How clients learn of routes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum News {
    Dns,
    Coordinator,
}

/// Steps of a script after which something has happened.
struct Marks {
    registered: StepId,
    published: Vec<StepId>,
    /// For each client those of its relays.
    around: Vec<Vec<StepId>>,
}

fn runs(nodes: u32) -> Runs {
    SEEDS.map(|seed| times(&Network::generate(nodes, seed)?, seed)).collect()
}

fn times(network: &Network, seed: u64) -> Option<Times> {
    let groups = groups(network)?;
    let run = |news| {
        let (script, marks) = script(network, &groups, news, seed)?;
        let ends = play(&network.flooded, &script, seed);
        let end = |step: &StepId| ends[step.number()].map(|end| end.as_secs_f64());
        // The first of the paths that works carries data.
        let around = |steps: &Vec<StepId>| {
            steps.iter().map(end).collect::<Option<Vec<_>>>()?.into_iter().reduce(f64::min)
        };
        let around: Vec<f64> = marks.around.iter().map(around).collect::<Option<_>>()?;
        let published: Vec<f64> = marks.published.iter().map(end).collect::<Option<_>>()?;
        Some((end(&marks.registered)?, published, around))
    };
    let (registered, published, by_dns) = run(News::Dns)?;
    let (_, _, told) = run(News::Coordinator)?;
    let service = network.distances(network.target);
    let far: Vec<f64> = network.clients.iter().map(|client| service.ms(*client)).collect();
    let mean = |times: &[f64]| times.iter().sum::<f64>() / times.len() as f64;
    let last = |times: &[f64]| times.iter().copied().reduce(f64::max);
    Some(Times {
        registered,
        published: last(&published)?,
        by_dns: mean(&by_dns),
        last: last(&by_dns)?,
        told: mean(&told),
        round_trip: 2.0 * mean(&far) / 1e3,
    })
}

/// Everything from the alert on. `None` if a client has no name server.
fn script(network: &Network, groups: &[Group], news: News, seed: u64) -> Option<(Script, Marks)> {
    let (mut script, mut dice) = (Script::new(), Dice::new(seed));
    let registered = register(network, groups, &mut script);
    let served = publish(network, groups, registered, &mut script);
    let servers = Servers::new(network);
    let mut around = Vec::new();
    for group in groups {
        for client in &group.clients {
            let learned = match news {
                News::Dns => {
                    let server = servers.nearest(*client)?;
                    let looks = script.pause(RESOLVER_LOOKS.mul_f64(dice.uniform()), &[served[server]]);
                    let talk = Talk { near: *client, far: network.servers[server] };
                    look_up(talk, groups.len(), &mut script, looks)
                }
                News::Coordinator => {
                    let talk = Talk { near: network.coordinator, far: *client };
                    talk.tell_tls(&mut script, bytes::routes(RELAYS), MESSAGE, &[registered])
                }
            };
            let ways = group.relays.iter().enumerate().map(|(number, relay)| {
                let gateway = network.gateways[number % network.gateways.len()];
                let works = path(*client, *relay, gateway, &mut script, learned);
                script.pause(PATHS_LOOKED_AT.mul_f64(dice.uniform()), &[works])
            });
            around.push(ways.collect());
        }
    }
    Some((script, Marks { registered, published: served, around }))
}

/// The guard, which leaves by a hidden line, alerts; the gateway registers with all relays at once over its hidden lines.
fn register(network: &Network, groups: &[Group], script: &mut Script) -> StepId {
    let relays: Vec<(usize, NodeId)> =
        groups.iter().flat_map(|group| group.relays.iter().copied().enumerate()).collect();
    let signal = Talk { near: network.gateways[0], far: network.coordinator };
    let alert = signal.tell_tls(script, bytes::alert(), STORED, &[]);
    for (_, relay) in &relays {
        Talk { near: network.coordinator, far: *relay }.ask_tls(script, bytes::cap(), &[alert]);
    }
    let back = Talk { near: signal.far, far: signal.near };
    let told = tell_all(back, script, &bytes::mitigation(relays.len()), MESSAGE, &[alert]);
    let register = |(number, relay): &(usize, NodeId)| {
        let talk = Talk { near: network.gateways[number % network.gateways.len()], far: *relay };
        let welcome = talk.open_tls(script, bytes::hello(), &told);
        talk.ask_tls(script, bytes::register(), &[welcome])
    };
    let all: Vec<StepId> = relays.iter().map(register).collect();
    let ready = tell_all(signal, script, &bytes::ready(relays.len()), STORED, &all);
    script.pause(Duration::ZERO, &ready)
}

/// Messages on a connection with TLS, which are one after the other on their way.
fn tell_all(talk: Talk, script: &mut Script, bytes: &[u32], work: Duration, after: &[StepId]) -> Vec<StepId> {
    bytes.iter().map(|bytes| talk.tell_tls(script, *bytes, work, after)).collect()
}

/// The coordinator updates all servers at once, the records of all groups over one connection: it looks what is there, changes
/// it, and looks whether it is served. For each server the step by which that is so.
fn publish(network: &Network, groups: &[Group], ready: StepId, script: &mut Script) -> Vec<StepId> {
    let count = |groups: &[Group]| u32::try_from(groups.len()).unwrap_or(u32::MAX);
    let update = |server: &NodeId| {
        let talk = Talk { near: network.coordinator, far: *server };
        let open = talk.open(script, &[ready]);
        let looked = talk.ask(script, bytes::asked_signed(0, RELAYS), MESSAGE, &[open]);
        let updated = groups.chunks(MAX_TOGETHER).fold(looked, |before, part| {
            talk.ask(script, bytes::update(count(part), RELAYS), STORED, &[before])
        });
        talk.ask(script, bytes::asked_signed(count(groups), RELAYS), MESSAGE, &[updated])
    };
    network.servers.iter().map(update).collect()
}

/// A resolver asks for routes, over TCP if they are too many for UDP.
fn look_up(talk: Talk, groups: usize, script: &mut Script, after: StepId) -> StepId {
    let groups = u32::try_from(groups).unwrap_or(u32::MAX);
    let asked = talk.there(script, bytes::question(), MESSAGE, &[after]);
    if let Some(answer) = bytes::answer(groups, RELAYS) {
        return talk.back(script, answer, MESSAGE, &[asked]);
    }
    let refused = talk.back(script, bytes::question(), MESSAGE, &[asked]);
    let open = talk.open(script, &[refused]);
    talk.ask(script, bytes::asked(groups, RELAYS), MESSAGE, &[open])
}

/// A client reserves a session at a relay, and probes the path through it.
fn path(client: NodeId, relay: NodeId, gateway: NodeId, script: &mut Script, after: StepId) -> StepId {
    let (near, far) = (Talk { near: client, far: relay }, Talk { near: relay, far: gateway });
    // HELLO and RESERVE leave together, and so do their answers.
    let ([hello, welcome], [reserve, reserved]) = (bytes::hello(), bytes::reserve());
    let reserved = near.open_tls(script, [hello + reserve, welcome + reserved], &[after]);
    let probe = near.there(script, PROBE, MESSAGE, &[reserved]);
    let probed = far.there(script, PROBE, MESSAGE, &[probe]);
    let answer = far.back(script, PROBE, MESSAGE, &[probed]);
    near.back(script, PROBE, MESSAGE, &[answer])
}

/// Which name server is the nearest.
struct Servers {
    far: Vec<Distances>,
}

impl Servers {
    fn new(network: &Network) -> Self {
        Self { far: network.servers.iter().map(|server| network.distances(*server)).collect() }
    }

    fn nearest(&self, client: NodeId) -> Option<usize> {
        let distance = |server: &usize| self.far[*server].ms(client);
        (0..self.far.len()).min_by(|one, other| distance(one).total_cmp(&distance(other)))
    }
}

const LABELS: [&str; 8] = [
    "gateway registered",
    "name servers updated",
    "clients around by DNS",
    "last client around by DNS",
    "clients around, told by the coordinator",
    "spread of clients around by DNS",
    "round trip to the service",
    "growth of clients around by DNS",
];

/// Relays of a group.
const RELAYS: u32 = 3;

/// Groups in one update, as psmc-dns has it.
const MAX_TOGETHER: usize = 16;

/// How often a resolver looks for routes of a service in trouble.
const RESOLVER_LOOKS: Duration = Duration::from_millis(250);

/// How often psmcd looks at the paths that learned routes stand in for.
const PATHS_LOOKED_AT: Duration = Duration::from_millis(100);

/// A probe: 40 bytes of ours and the hop header in UDP and IPv4.
const PROBE: u32 = 88;

/// Table 3.1: all three steps on SCOLD's test bed, in s.
const SCOLD: f64 = 9.5;

#[cfg(test)]
mod tests {
    use psmc_sim::overlay::{Line, Lines};

    use super::*;

    /// A star: all lines are 5 ms long and so fast that only delays and work count.
    fn star() -> Network {
        let mut lines = Lines::new(12);
        for node in 1..12 {
            let line = Line { bits_per_second: 1e15, delay: Duration::from_millis(5), load: 0.0 };
            lines.lay(NodeId(0), NodeId(node), line);
        }
        Network {
            calm: lines.clone(),
            flooded: lines,
            target: NodeId(1),
            coordinator: NodeId(2),
            main_gateway: NodeId(3),
            gateways: [4, 5, 6].map(NodeId),
            relays: [7, 8, 9].map(NodeId).to_vec(),
            clients: vec![NodeId(10)],
            servers: vec![NodeId(11)],
        }
    }

    #[test]
    fn a_star_takes_what_a_pencil_says() {
        let times = times(&star(), 1).unwrap();
        let near = |ours: f64, ms: f64, within: f64| {
            assert!((ours * 1e3 - ms).abs() <= within, "{ours} s instead of {ms} ms");
        };
        // One way is 10 ms: alert, told, TCP, TLS, HELLO, REGISTER, ready: 11 ways. Stored twice; three relays at once,
        // each by a gateway of its own: 3 × 1 ms of handshake, and eight small messages but those that are stored.
        near(times.registered, 110.0 + 4.0 + 3.0 + 6.0 * 0.05, 0.01);
        // TCP and three questions, of which one is stored.
        let published = times.registered * 1e3 + 80.0 + 2.0 + 7.0 * 0.05;
        near(times.published, published, 0.01);
        // A resolver looks after 0 to 250 ms, and asks; TCP, TLS, HELLO with RESERVE; the probe goes two ways further, and
        // psmcd looks after 0 to 100 ms. At the client messages of three relays wait for each other.
        let fixed = published + 20.0 + 60.0 + 40.0;
        near(times.by_dns, fixed + 175.0, 180.0);
        near(times.last, times.by_dns * 1e3, 0.001);
        near(times.round_trip, 20.0, 0.001);
        near(times.told, times.registered * 1e3 + 10.0 + 60.0 + 40.0 + 50.0, 60.0);
    }

    #[test]
    fn a_longer_way_or_more_clients_take_longer() {
        let [small, large] =
            [100, 1000].map(|nodes| times(&Network::generate(nodes, 1).unwrap(), 1).unwrap());
        for times in [&small, &large] {
            assert!(
                times.registered < times.published && times.told < times.by_dns && times.by_dns < times.last
            );
        }
        let growth = |of: fn(&Times) -> f64| of(&large) / of(&small);
        let (ours, network) = (growth(|times| times.by_dns), growth(|times| times.round_trip));
        assert!(ours > 1.0 && ours < network, "{ours} times, the network {network} times");
    }

    #[test]
    fn equal_seeds_take_equally_long() {
        let network = Network::generate(200, 2).unwrap();
        let by_dns = |seed| times(&network, seed).unwrap().by_dns.to_bits();
        assert_eq!(by_dns(2), by_dns(2));
        assert_ne!(by_dns(2), by_dns(3));
    }
}
