//! Files: figures 9a and 9b, and table 1.

use std::time::Duration;

use psmc_core::condition::Profile;
use psmc_sim::{CongestionControl, TrafficKind};

use super::network::{FAST, Node, domains, simple};
use super::run::{Aggregate, FQ_CODEL, MAX, PACKET, PAYLOAD, STANDARD, Scene, Variant, tcp};
use crate::experiment::{Experiment, Figure, Row, SAME, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "qos-fig-9a",
        what: "what conditioners are worth to files on one bottleneck, by the number of flows",
        seed: "QoS figure 9a, whose points are not printed: the adaptive conditioner is better than the standard one for each number of \
               flows, total close to 10 Mb/s, and flows of short round trips do not take from those of long ones; ns-2",
        how: SIMPLE,
        criterion: "ours at least 95 % of what the bottleneck carries, no less than FQ-CoDel's and than the seed's with all state, less a \
                    hundredth; the slower aggregate at least two thirds of the faster one",
        runs: 3,
        measure: figure_9a,
    },
    Experiment {
        name: "qos-fig-9b",
        what: "what each aggregate gets in three domains, by conditioner, at 50 flows",
        seed: "QoS figure 9b, whose points are not printed: the adaptive conditioner is fairer between flows of short and of long round \
               trips; ns-2",
        how: DOMAINS,
        criterion: "ours: the slowest aggregate gets more of what the fastest gets than the standard conditioner has it",
        runs: 3,
        measure: figure_9b,
    },
    Experiment {
        name: "qos-table-1",
        what: "what conditioners are worth to files in three domains, by the number of flows of an aggregate",
        seed: "QoS table 1: standard, adaptive with a state of 50 flows, and with all state (max); ns-2",
        how: DOMAINS,
        criterion: "ours at least the seed's max, and, of what the bottlenecks carry, no less than FQ-CoDel in the same run, less a hundredth",
        runs: 3,
        measure: table_1,
    },
];

const SIMPLE: &str = "\
simulated; figure 8a, a drawing: n1 and n2 send to n3 and n4 over E1–C1, round trips of 24 and 60 ms, all links 10 Mb/s. Each of \
so many users of an aggregate transfers one file after another, 50 kB on average (exponential), with rests of 1 s: flows last from less \
than a second to some seconds. TCP is Reno with SACK and RACK, where ns-2 has NewReno; packets of 1024 bytes, windows of up to 64 of them, ECN; \
where rows say so it is CUBIC, or BBR as Linux has it, which heeds no marks and asks for none. \
RED as in the seed's §6, 60 packets; FQ-CoDel by RFC 8290 without marks of conditioners; profile of each sender 5 Mb/s, 64 kB; 20 s after 5 s; goodput";

const DOMAINS: &str = "\
simulated; figure 8b, a drawing of which the text names some links; here three domains in a row, where n1–n8 and n2–n9 cross all three \
bottlenecks (C2–E4, E5–C4, C4–E7), and n3–n4, n5–n6, n7–n9 one each; round trips from 34 to 130 ms, all links 10 Mb/s. The total over such \
a row says little by itself: what the two long aggregates get costs the total three times as much as it brings, so that it is from 9.5 Mb/s \
(all for them) to 28.5 (nothing), and 15.8 if each flow gets the same. Files, TCP and queues as in qos-fig-9a; profile of each sender 3.3 Mb/s, 64 kB; the \
state of the seed's conditioner is that of a whole edge router; 20 s after 5 s; goodput";

/// Micro-flows of an aggregate, and what they are.
#[derive(Clone, Copy, Debug)]
struct Load {
    flows: usize,
    congestion_control: CongestionControl,
    /// The mean rest of a user between two files.
    rest: Duration,
    /// Table 1, in Mb/s: standard, adaptive, max.
    printed: Option<[f64; 3]>,
}

/// The seed's, what TCP has become, and what a pause is worth.
const LOADS: [Load; 7] = [
    TEN,
    FIFTY,
    Load::of_seed(100, [11.67, 13.48, 14.89]),
    Load::of_seed(200, [11.77, 13.61, 14.91]),
    Load { congestion_control: CongestionControl::Cubic, printed: None, ..FIFTY },
    Load { congestion_control: CongestionControl::Bbr, printed: None, ..FIFTY },
    Load { rest: Duration::ZERO, printed: None, ..TEN },
];

const TEN: Load = Load::of_seed(10, [12.65, 12.87, 12.87]);

const FIFTY: Load = Load::of_seed(50, [12.18, 13.84, 14.20]);

impl Load {
    const fn of_seed(flows: usize, printed: [f64; 3]) -> Self {
        Self { flows, congestion_control: CongestionControl::Reno, rest: REST, printed: Some(printed) }
    }

    fn name(self) -> String {
        let kind = match self.congestion_control {
            CongestionControl::Reno => "",
            CongestionControl::Cubic => " of CUBIC",
            CongestionControl::Bbr => " of BBR",
        };
        let rest = if self.rest.is_zero() { " without rests" } else { "" };
        format!("{} flows{kind}{rest}", self.flows)
    }
}

/// States that the seed's edge routers hold, in figure 9a and in table 1.
const STATES_A: usize = 20;
const STATES_B: usize = 50;

fn figure_9a(setup: &mut Setup<'_>) -> Vec<Row> {
    let pairs = [("n1", "n3"), ("n2", "n4")];
    let mut rows = Vec::new();
    for load in LOADS {
        let (variants, group) = (Variant::all(STATES_A), load.name());
        if !setup.wants_any(&group, variants.map(|variant| variant.name)) {
            continue;
        }
        let scene = scene(setup, simple(FAST), &pairs, load, Profile { rate: FAST / 2, burst: BURST });
        let totals = variants.map(|variant| of_aggregates(setup, &scene, variant));
        let total = |place: usize| totals[place].iter().sum::<f64>();
        let least = (0.95 * capacity()).min(SAME * total(MAX).max(total(FQ_CODEL)));
        for (place, variant) in variants.iter().enumerate() {
            let figure = Figure::new(format!("{group}, {}", variant.name), "Mb/s", Some(total(place)));
            rows.push(if variant.is_ours() { figure.at_least(least) } else { figure.shown() });
        }
        for (place, variant) in variants.iter().enumerate() {
            let label = format!("{group}, {}, slower of faster aggregate", variant.name);
            let figure = Figure::new(label, "%", Some(evenness(&totals[place])));
            rows.push(if variant.is_ours() { figure.at_least(200.0 / 3.0) } else { figure.shown() });
        }
    }
    rows
}

fn figure_9b(setup: &mut Setup<'_>) -> Vec<Row> {
    let variants = Variant::all(STATES_B);
    let scene = domain_scene(setup, FIFTY);
    let rates = variants.map(|variant| of_aggregates(setup, &scene, variant));
    let mut rows = Vec::new();
    for (variant, rates) in variants.iter().zip(&rates) {
        for ((from, to), rate) in PAIRS.iter().zip(rates) {
            let label = format!("{}, {from}–{to}", variant.name);
            rows.push(Figure::new(label, "Mb/s", Some(*rate)).shown());
        }
    }
    for (place, variant) in variants.iter().enumerate() {
        let figure =
            Figure::new(format!("{}, slowest of fastest", variant.name), "%", Some(evenness(&rates[place])));
        rows.push(if variant.is_ours() {
            figure.at_least(evenness(&rates[STANDARD]))
        } else {
            figure.shown()
        });
    }
    rows
}

fn table_1(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for load in LOADS {
        let variants = Variant::all(STATES_B);
        if setup.wants_any(&load.name(), variants.map(|variant| variant.name)) {
            let scene = domain_scene(setup, load);
            let rates = variants.map(|variant| of_aggregates(setup, &scene, variant));
            rows.extend(totals(load, &variants, &rates));
            rows.extend(shares(load, &variants, &rates));
        }
    }
    if setup.wants(ASKED) {
        let wide = scene(setup, domains(WIDE, WIDE), &PAIRS, TEN, Profile { rate: WIDE, burst: BURST });
        let total = of_aggregates(setup, &wide, Variant::all(STATES_B)[FQ_CODEL]).iter().sum();
        rows.push(Figure::new(ASKED, "Mb/s", Some(total)).shown());
    }
    rows
}

/// What ten users of each aggregate transfer where nothing holds them up but round trips and their own rests.
const ASKED: &str = "10 flows, links of 1 Gb/s";
const WIDE: u64 = 1_000_000_000;

/// What all aggregates get.
fn totals(load: Load, variants: &[Variant], rates: &[Vec<f64>]) -> Vec<Row> {
    let group = load.name();
    let printed = |place: usize| load.printed.and_then(|printed| printed.get(place).copied());
    let row = |(place, variant): (usize, &Variant)| {
        let total = rates[place].iter().sum();
        let figure = Figure::new(format!("{group}, {}", variant.name), "Mb/s", Some(total));
        match printed(MAX) {
            Some(max) if variant.is_ours() => figure.seed(max).at_least(max),
            _ => figure.seed(printed(place)).shown(),
        }
    };
    variants.iter().enumerate().map(row).collect()
}

/// How much of the bottlenecks they use, and how even they are.
fn shares(load: Load, variants: &[Variant], rates: &[Vec<f64>]) -> Vec<Row> {
    let group = load.name();
    let used: Vec<_> = rates.iter().map(|rates| used(rates)).collect();
    let of_used = |(variant, percent): (&Variant, &f64)| {
        let label = format!("{group}, {}, bottlenecks used", variant.name);
        let figure = Figure::new(label, "%", Some(*percent));
        if variant.is_ours() { figure.at_least(SAME * used[FQ_CODEL]) } else { figure.shown() }
    };
    let even = |(variant, rates): (&Variant, &Vec<f64>)| {
        let label = format!("{group}, {}, slowest of fastest", variant.name);
        Figure::new(label, "%", Some(evenness(rates))).shown()
    };
    let evenness = variants.iter().zip(rates).map(even);
    variants.iter().zip(&used).map(of_used).chain(evenness).collect()
}

/// The share of what the three bottlenecks carry, on average: the first two aggregates cross all of them, the others one each.
fn used(rates: &[f64]) -> f64 {
    let (long, short) = rates.split_at(LONG);
    let used = BOTTLENECKS * long.iter().sum::<f64>() + short.iter().sum::<f64>();
    used / (BOTTLENECKS * capacity()) * 100.0
}

/// Mb/s of payload that a link carries.
fn capacity() -> f64 {
    FAST as f64 / 1e6 * PAYLOAD as f64 / PACKET
}

/// Mb/s of each aggregate.
fn of_aggregates(setup: &Setup<'_>, scene: &Scene, variant: Variant) -> Vec<f64> {
    let outcomes = scene.play(variant, u64::from(setup.run.0));
    scene.rates(&outcomes).into_iter().map(|rate| rate / 1e6).collect()
}

fn domain_scene(setup: &Setup<'_>, load: Load) -> Scene {
    scene(setup, domains(FAST, FAST), &PAIRS, load, Profile { rate: FAST / 3, burst: BURST })
}

fn scene(
    setup: &Setup<'_>,
    lines: Vec<super::network::Line>,
    pairs: &[(Node, Node)],
    load: Load,
    profile: Profile,
) -> Scene {
    let (tcp, users, mean_pause) = (tcp(load.congestion_control), load.flows, load.rest);
    let kind = TrafficKind::Transfers { tcp, users, mean_bytes: FILE, mean_pause };
    let aggregate = |&(from, to)| Aggregate { from, to, kind: kind.clone() };
    Scene {
        lines,
        aggregates: pairs.iter().map(aggregate).collect(),
        profile,
        settled: SETTLED,
        end: SETTLED + Duration::from_secs(setup.seconds(20).into()),
    }
}

/// The least of some rates in percent of the greatest.
fn evenness(rates: &[f64]) -> f64 {
    let (least, most) = rates.iter().fold((f64::MAX, 0.0_f64), |(a, b), &rate| (a.min(rate), b.max(rate)));
    if most > 0.0 { least / most * 100.0 } else { 0.0 }
}

/// The seed's aggregates in three domains (§7.2).
const PAIRS: [(Node, Node); 5] = [("n1", "n8"), ("n2", "n9"), ("n3", "n4"), ("n5", "n6"), ("n7", "n9")];

/// Aggregates of [`PAIRS`] that cross all bottlenecks, of which there are so many.
const LONG: usize = 2;
const BOTTLENECKS: f64 = 3.0;

/// Mean bytes of a file, and the mean rest between two.
const FILE: f64 = 50_000.0;
const REST: Duration = Duration::from_secs(1);

/// Bytes that may exceed a profile's rate.
const BURST: u64 = 64_000;

/// By then queues and averages are what they will be.
const SETTLED: Duration = Duration::from_secs(5);
