//! People who wait for each packet or page: Telnet, and table 2.

use std::time::Duration;

use psmc_core::condition::Profile;
use psmc_sim::{TrafficKind, WebModel};

use super::network::{Node, domains};
use super::run::{Aggregate, FQ_CODEL, OURS, Outcome, PAYLOAD, STANDARD, Scene, TCP, Variant};
use crate::experiment::{Experiment, Figure, Row, SAME, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "qos-telnet",
        what: "how long packets of Telnet take where links are full of others of them, by conditioner",
        seed: "QoS §7.2: the adaptive conditioner reduces the delay of packets of flows of short round trips; figures are not printed; ns-2",
        how: TELNET,
        criterion: "ours: means no longer than by the standard conditioner and than FQ-CoDel's, and a hundredth",
        runs: 3,
        measure: telnet,
    },
    Experiment {
        name: "qos-table-2",
        what: "how long web pages take, by conditioner",
        seed: "QoS table 2: to the first packet of a response 0.48 ± 0.17 s by the standard conditioner and 0.45 ± 0.14 s by the adaptive one, to \
               all of it 2.23 ± 0.78 and 2.15 ± 0.75 s; 50 sessions; ns-2",
        how: WEB,
        criterion: "ours at least as much faster than the standard conditioner as the seed's is (6 and 4 %), and no slower than FQ-CoDel, and a \
                    hundredth",
        runs: 3,
        measure: table_2,
    },
];

const TELNET: &str = "\
simulated; the three domains of qos-table-1, links of 1 Mb/s, C2–E4 and C4–E7 0.5 Mb/s (the seed narrows C1–E4 and E5–E7, which this network \
does not have); 20 users of each of the five aggregates type 10 to 35 packets of 1024 bytes in a session, one each second on average \
(exponential), which is about 95 % of what the narrow links carry; profile of each host 0.17 Mb/s, 16 kB; 200 s after 20 s; \
from when a packet is typed until it has arrived. Short round trips are those of n3–n4 and n5–n6";

const WEB: &str = "\
simulated; the network of qos-telnet; n1, n2 and n5 ask n6, n8 and n9, 50 users in all; sessions of 5 pages, 20 s between pages, 1 + 3 objects \
10 ms apart on connections of their own (HTTP/1.0), 10 kB each (exponential; Pareto of shape 1.2 up to 1 MB): ns-2's model, of whose parameters the seed names only the \
pages, which takes about three \
quarters of the narrow links; profile of each host 0.17 Mb/s, 16 kB; 300 s after 20 s; from when an object is asked for until its first byte has come, and all of it";

fn telnet(setup: &mut Setup<'_>) -> Vec<Row> {
    let kind =
        TrafficKind::Telnet { tcp: TCP, users: 20, packets: 10..=35, payload: PAYLOAD, mean_gap: TYPING };
    let pairs: [(Node, Node); 5] = [("n1", "n8"), ("n2", "n9"), ("n3", "n4"), ("n5", "n6"), ("n7", "n9")];
    let aggregate = |(from, to)| Aggregate { from, to, kind: kind.clone() };
    let scene = scene(pairs.map(aggregate).into(), setup.seconds(200));
    let delays = play(setup, &scene, |outcomes| {
        let of = |places: &[usize]| -> Vec<f64> {
            places.iter().flat_map(|&place| outcomes[place].delays.iter().copied()).collect()
        };
        [of(&[0, 1, 2, 3, 4]), of(&[2, 3])].map(Spread::of)
    });
    let short = Wait { what: "short round trips", printed: [None, None], most: 100.0 };
    let all = Wait { what: "all", ..short };
    [all, short].into_iter().enumerate().flat_map(|(place, wait)| wait.rows(&delays, place)).collect()
}

fn table_2(setup: &mut Setup<'_>) -> Vec<Row> {
    let scene = scene(readers(), setup.seconds(300));
    let times = play(setup, &scene, |outcomes| {
        let first = outcomes.iter().flat_map(|outcome| outcome.first_delays.iter().copied()).collect();
        let all = outcomes.iter().flat_map(|outcome| outcome.delays.iter().copied()).collect();
        [first, all].map(Spread::of)
    });
    let wait = |what, [standard, adaptive]: [f64; 2]| Wait {
        what,
        printed: [Some(standard), Some(adaptive)],
        most: adaptive / standard * 100.0,
    };
    let waits = [wait("first byte", [0.48, 0.45]), wait("all", [2.23, 2.15])];
    waits.into_iter().enumerate().flat_map(|(place, wait)| wait.rows(&times, place)).collect()
}

/// What people wait for.
#[derive(Clone, Copy, Debug)]
struct Wait {
    what: &'static str,
    /// The seed's means, in seconds: standard and adaptive.
    printed: [Option<f64>; 2],
    /// Ours may take so many percent of what it takes by the standard conditioner.
    most: f64,
}

impl Wait {
    /// Means, 95th percentiles and deviations of all variants, and ours beside two of them.
    fn rows(self, times: &[[Spread; 2]], place: usize) -> Vec<Row> {
        let Self { what, printed, most } = self;
        let names =
            || variants().into_iter().map(|variant| variant.name).zip(times.iter().map(|times| times[place]));
        let figure = |name: &str, what_of_it: &str, unit, value| {
            Figure::new(format!("{what}, {name}{what_of_it}"), unit, Some(value))
        };
        let mean = |(number, (name, spread)): (usize, (&str, Spread))| {
            figure(name, "", "s", spread.mean).seed(printed.get(number).copied().flatten()).shown()
        };
        let mut rows: Vec<_> = names().enumerate().map(mean).collect();
        rows.extend(
            names().map(|(name, spread)| figure(name, ", 95th percentile", "s", spread.high).shown()),
        );
        rows.extend(
            names().map(|(name, spread)| figure(name, ", standard deviation", "s", spread.deviation).shown()),
        );
        let percent = |other: usize| times[OURS][place].mean / times[other][place].mean * 100.0;
        rows.push(figure("ours", ", of the standard one's", "%", percent(STANDARD)).at_most(most));
        rows.push(figure("ours", ", of FQ-CoDel's", "%", percent(FQ_CODEL)).at_most(100.0 / SAME));
        rows
    }
}

/// 50 people, on each pair of a client and a server 5 or 6.
fn readers() -> Vec<Aggregate> {
    let clients: [Node; 3] = ["n1", "n2", "n5"];
    let pairs = clients.into_iter().flat_map(|from| ["n6", "n8", "n9"].map(|to| (from, to)));
    let aggregate = |(number, (from, to))| {
        let users = if number < 5 { 6 } else { 5 };
        Aggregate { from, to, kind: TrafficKind::Web { tcp: TCP, users, model: PAGES } }
    };
    pairs.enumerate().map(aggregate).collect()
}

fn scene(aggregates: Vec<Aggregate>, seconds: u32) -> Scene {
    Scene {
        lines: domains(WIDE, NARROW),
        aggregates,
        profile: Profile { rate: NARROW / 3, burst: BURST },
        settled: SETTLED,
        end: SETTLED + Duration::from_secs(seconds.into()),
    }
}

/// Plays a scene by all variants.
fn play<T>(setup: &Setup<'_>, scene: &Scene, of: impl Fn(&[Outcome]) -> T) -> Vec<T> {
    let seed = u64::from(setup.run.0);
    variants().iter().map(|&variant| of(&scene.play(variant, seed))).collect()
}

/// With the table of table 1.
fn variants() -> [Variant; Variant::COUNT] {
    Variant::all(50)
}

/// Of some times, in seconds.
#[derive(Clone, Copy, Debug)]
struct Spread {
    mean: f64,
    deviation: f64,
    /// The 95th percentile.
    high: f64,
}

impl Spread {
    fn of(mut times: Vec<f64>) -> Self {
        times.sort_by(f64::total_cmp);
        let count = times.len().max(1) as f64;
        let mean = times.iter().sum::<f64>() / count;
        let variance = times.iter().map(|time| (time - mean).powi(2)).sum::<f64>() / count;
        let high = times.get(times.len() * 19 / 20).copied().unwrap_or_default();
        Self { mean, deviation: variance.sqrt(), high }
    }
}

/// The means of ns-2's examples of web traffic, but for the time between pages, by which 50 users take about three quarters of the
/// narrow links.
const PAGES: WebModel = WebModel {
    pages: 5,
    between_pages: Duration::from_secs(20),
    more_objects: 3.0,
    between_objects: Duration::from_millis(10),
    object_bytes: 10_000.0,
    shape: 1.2,
    most_bytes: 1e6,
};

/// The mean gap between two packets of a user.
const TYPING: Duration = Duration::from_secs(1);

/// Of all links but two, and of those.
const WIDE: u64 = 1_000_000;
const NARROW: u64 = 500_000;

/// Bytes that may exceed a profile's rate.
const BURST: u64 = 16_000;

/// By then queues and averages are what they will be.
const SETTLED: Duration = Duration::from_secs(20);
