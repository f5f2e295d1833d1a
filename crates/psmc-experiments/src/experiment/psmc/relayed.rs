//! Through a relay instead of through a gateway that is attacked.

pub(super) mod network;

use network::{Network, Route};

use super::{INDIRECT, TUNNELS};
use crate::experiment::{Experiment, Figure, Row, Setup};
use psmc_lab::bench::median;
use psmc_lab::results::{Results, TrafficResult};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-table-3.3",
        what: "direct and through a relay, without and with an attack: ping, HTTP and FTP",
        seed: "PSMC table 3.3: SCOLD's test bed of slow machines, a flood by Stacheldraht against the direct route",
        how: HOW,
        criterion: "through the relay as long as that way takes without PSMC: pings 0.2 ms more at most, transfers at 95 % of the \
                    rate; under attack the same, ± 5 %",
        runs: 1,
        measure: attack,
    },
    Experiment {
        name: "psmc-table-3.7",
        what: "1, 10, 50 and 100 tunnels through one relay, of which one is used",
        seed: "PSMC table 3.7: ping and HTTP through one of several IP tunnels",
        how: HOW,
        criterion: "the same for any number, ± 5 %",
        runs: 1,
        measure: tunnels,
    },
];

const HOW: &str = "\
real time; direct 49 ms of round trip and 10 Mb/s, through the relay 87 ms and 10 Mb/s, of full-size packets in the tunnel; \
psmc-relay on the proxy, a tunnel whose only path leads through it; pings every 100 ms, median; HTTP by requests at random \
times on connections of their own, median; FTP by seven TCP connections from the target, median; TCP with Reno. The detour is \
the relay's way by the kernel's forwarding, without a tunnel, of packets that are as large as those in the tunnel, and pings \
that are as long on the way as with the tunnel's headers. The attack is UDP of 50 Mb/s over the direct way; what has not ended \
there when the run does counts as long as that is. Seed 1";

/// Table 3.3.
fn attack(setup: &mut Setup<'_>) -> Vec<Row> {
    let wanted: Vec<_> =
        TESTS.iter().zip(INDIRECT).filter(|(test, _)| setup.wants_any(test.label, LABELS)).collect();
    if wanted.is_empty() {
        return Vec::new();
    }
    let seconds = setup.seconds(SECONDS);
    let mut run = |name: &str, route, attacked: bool| {
        let network = Network { attack: attacked.then_some(ATTACK), ..Network::by(route) };
        setup.run(name, &network.scenario(seconds, &TESTS))
    };
    let direct = run("direct", Route::Direct, false);
    let detour = run("detour", Route::Detour, false);
    let indirect = run("indirect", Route::Relayed, false);
    let direct_attacked = run("direct-attacked", Route::Direct, true);
    let indirect_attacked = run("indirect-attacked", Route::Relayed, true);

    let mut rows = Vec::new();
    for (test, seed) in wanted {
        let of = |results: &Option<Results>| test.figure(results.as_ref()?, None);
        let figure = |column: usize, ours| {
            Figure::new(format!("{}, {}", test.label, LABELS[column]), test.unit(), ours)
        };
        let calm = of(&indirect);
        let attacked = direct_attacked.as_ref().and_then(|run| test.figure(run, Some(f64::from(seconds))));
        rows.extend([
            figure(0, of(&direct)).seed(seed[0]).shown(),
            figure(1, of(&detour)).shown(),
            figure(2, calm).seed(seed[1]).at_most(of(&detour).map(|detour| test.bound(detour))),
            figure(3, attacked).seed(seed[2]).shown(),
            figure(4, of(&indirect_attacked)).seed(seed[3]).near(calm, SAME),
        ]);
    }
    rows
}

/// Table 3.7.
fn tunnels(setup: &mut Setup<'_>) -> Vec<Row> {
    let seconds = setup.seconds(SHORT_SECONDS);
    let label = |test: &Test, number| {
        format!("{}, {number} {}", test.label, if number == 1 { "tunnel" } else { "tunnels" })
    };
    let mut first: Option<Results> = None;
    let mut rows = Vec::new();
    for (number, seeds) in TUNNELS {
        if !SHORT.iter().any(|test| setup.wants(&label(test, number))) {
            continue;
        }
        let name = format!("tunnels-{number}");
        let network = Network { tunnels: number, ..Network::by(Route::Relayed) };
        let results = setup.run(&name, &network.scenario(seconds, &SHORT));
        for (test, seed) in SHORT.iter().zip(seeds) {
            let of = |results: &Option<Results>| test.figure(results.as_ref()?, None);
            let figure = Figure::new(label(test, number), test.unit(), of(&results)).seed(seed);
            rows.push(if number == 1 { figure.shown() } else { figure.near(of(&first), SAME) });
        }
        first = first.or(results);
    }
    rows
}

/// What is tried, and in which part of a run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Test {
    label: &'static str,
    kind: Kind,
    /// From when to when, as shares of the run.
    span: (f64, f64),
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Ping,
    /// So many bytes, so often per second.
    Http(u32, f64),
    /// So many bytes, [`TRANSFERS`] times.
    Ftp(u32),
}

const LABELS: [&str; 5] =
    ["direct", "detour without PSMC", "indirect", "direct, attacked", "indirect, attacked"];

/// The tunnel is up after less than a tenth of a run.
const TESTS: [Test; 7] = [
    Test { label: "ping", kind: Kind::Ping, span: (0.09, 0.14) },
    Test { label: "HTTP 100 kB", kind: Kind::Http(100_000, 1.0), span: (0.14, 0.25) },
    Test { label: "HTTP 500 kB", kind: Kind::Http(500_000, 0.6), span: (0.26, 0.42) },
    Test { label: "HTTP 1 MB", kind: Kind::Http(1_000_000, 0.4), span: (0.43, 0.66) },
    Test { label: "FTP 100 kB", kind: Kind::Ftp(100_000), span: (0.68, 0.76) },
    Test { label: "FTP 500 kB", kind: Kind::Ftp(500_000), span: (0.76, 0.86) },
    Test { label: "FTP 1 MB", kind: Kind::Ftp(1_000_000), span: (0.86, 0.99) },
];

/// Of table 3.7, whose runs are shorter.
const SHORT: [Test; 2] = [
    Test { label: "ping", kind: Kind::Ping, span: (0.4, 0.65) },
    Test { label: "HTTP 100 kB", kind: Kind::Http(100_000, 2.0), span: (0.65, 0.97) },
];

/// By FTP.
const TRANSFERS: u32 = 7;

/// Of each run.
const SECONDS: u32 = 100;
const SHORT_SECONDS: u32 = 20;

/// In Mb/s.
const ATTACK: u32 = 50;

/// What PSMC may add to a round trip, in ms.
const ADDED_MS: f64 = 0.2;

/// What must be reached of the rate without PSMC.
const SHARE: f64 = 0.95;

/// What counts as unchanged.
const SAME: f64 = 0.05;

impl Test {
    /// What it has yielded, in its unit. What has not ended counts as so many seconds, or makes it none.
    fn figure(&self, results: &Results, unended: Option<f64>) -> Option<f64> {
        let stream = |name: &str| results.traffic.iter().find(|stream| stream.name == name);
        let seconds = match self.kind {
            Kind::Ping | Kind::Http(..) => {
                stream(&self.stream())?.latency.as_ref().map(|times| times.p50_ms / 1e3).or(unended)
            }
            Kind::Ftp(bytes) => {
                let time = |number| transfer_time(stream(&self.transfer(number))?, bytes).or(unended);
                median((0..TRANSFERS).map(time))
            }
        };
        seconds.map(|seconds| if matches!(self.kind, Kind::Ping) { seconds * 1e3 } else { seconds })
    }

    /// What it may be through a relay if it is this without PSMC.
    fn bound(&self, detour: f64) -> f64 {
        match self.kind {
            Kind::Ping => detour + ADDED_MS,
            Kind::Http(..) | Kind::Ftp(_) => detour / SHARE,
        }
    }

    fn unit(&self) -> &'static str {
        if matches!(self.kind, Kind::Ping) { "ms" } else { "s" }
    }

    /// What the scenario calls it.
    fn stream(&self) -> String {
        self.label.replace(' ', "-")
    }

    /// The same of one transfer.
    fn transfer(&self, number: u32) -> String {
        format!("{}-{number}", self.stream())
    }
}

#[expect(clippy::cast_precision_loss, reason = "bytes of a short transfer")]
fn transfer_time(stream: &TrafficResult, bytes: u32) -> Option<f64> {
    let is_whole = stream.bytes >= u64::from(bytes);
    is_whole.then(|| stream.bytes as f64 * 8.0 / 1e6 / stream.goodput_mbps)
}
