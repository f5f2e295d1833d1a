//! Paths of the same rate, from one to many, and paths of which one is much slower than the others: how much of them is used.

use crate::experiment::bed::{Bed, Link, Span, Stream, paths, throughput};
use crate::experiment::{Experiment, Figure, Row, SAME, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-4.2a",
        what: "throughput over 1 to 32 paths: TCP without and with a buffer, and UDP",
        seed: "PSMC figure 4.2a, whose points are not printed: without the buffer worse than a single path above 6 \
               paths, with it falling after 8 or 9",
        how: LINKS,
        criterion: "with the buffer, and for UDP, at least 95 % of the paths' sum",
        runs: 1,
        measure: |setup| sweep(setup, Unit::Throughput),
    },
    Experiment {
        name: "psmc-fig-4.2b",
        what: "utilisation of 1 to 32 paths: TCP without and with a buffer, and UDP",
        seed: "PSMC figure 4.2b, whose points are not printed: TCP falls with the number of paths, UDP does not",
        how: LINKS,
        criterion: "with the buffer, and for UDP, at least 95 %",
        runs: 1,
        measure: |setup| sweep(setup, Unit::Utilisation),
    },
];

const LINKS: &str = "\
real time; one TCP flow with Reno, or a fifth more UDP than the paths carry, for 9 s, of which the last 6 s count; links \
of 5 Mb/s with 50 ms of round trip and drop-tail queues of 64 packets. Rates are of inner packets of 1400 bytes, \
to which the tunnel adds 67";

/// What the figure shows of a run.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Unit {
    Throughput,
    Utilisation,
}

/// What goes over the paths.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    /// TCP on one link, without a tunnel.
    Plain,
    Unbuffered,
    Buffered,
    Udp,
}

fn sweep(setup: &mut Setup<'_>, unit: Unit) -> Vec<Row> {
    let tunnels = [Kind::Unbuffered, Kind::Buffered, Kind::Udp];
    let cells = NUMBERS.into_iter().flat_map(|number| tunnels.map(|kind| (kind, number)));
    let mut rows = Vec::new();
    for (kind, number) in std::iter::once((Kind::Plain, 1)).chain(cells) {
        let label = format!("{}, {}", kind.words(), paths(number));
        if setup.wants(&label) {
            let capacity = f64::from(number * KILOBITS) / 1000.0;
            let (name, scale) = match unit {
                Unit::Throughput => ("Mb/s", 1.0),
                Unit::Utilisation => ("%", 100.0 / capacity),
            };
            let ours = run(setup, kind, number).map(|rate| rate * scale);
            let figure = Figure::new(label, name, ours);
            rows.push(match kind {
                Kind::Plain | Kind::Unbuffered => figure.shown(),
                Kind::Buffered | Kind::Udp => figure.at_least(SHARE * capacity * scale),
            });
        }
    }
    rows
}

/// In Mb/s.
fn run(setup: &mut Setup<'_>, kind: Kind, number: u32) -> Option<f64> {
    let seconds = setup.seconds(SECONDS);
    let links = (0..number).map(|_| Link::new(KILOBITS, DELAY_MS));
    let bed = match kind {
        Kind::Plain => Bed::direct(links),
        Kind::Unbuffered => Bed::tunnel(links).set("reorder", "off"),
        Kind::Buffered | Kind::Udp => Bed::tunnel(links),
    };
    let stream = match kind {
        Kind::Udp => Stream::Udp { kilobits: number * KILOBITS * 6 / 5 },
        Kind::Plain | Kind::Unbuffered | Kind::Buffered => Stream::Reno { bytes: None },
    };
    let results = bed.stream("flow", stream, Span(0.0, f64::from(seconds))).run(
        setup,
        &format!("{}-{number}", kind.name()),
        seconds,
    )?;
    throughput(&results, "flow", Span::settled(seconds))
}

impl Kind {
    fn words(self) -> &'static str {
        match self {
            Self::Plain => "TCP without a tunnel",
            Self::Unbuffered => "TCP, no buffer",
            Self::Buffered => "TCP, buffer",
            Self::Udp => "UDP",
        }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::Unbuffered => "off",
            Self::Buffered => "deadline",
            Self::Udp => "udp",
        }
    }
}

/// The seed's axis, thinned, and beyond it.
const NUMBERS: [u32; 8] = [1, 2, 4, 6, 8, 10, 16, 32];

const KILOBITS: u32 = 5000;

/// Half of the round trip.
const DELAY_MS: u32 = 25;

const SECONDS: u32 = 9;

/// What ours must reach of the sum.
const SHARE: f64 = 0.95;

pub(super) const UNEVEN_EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-4.5a",
        what: "TCP over two paths, the second of which is slower and slower",
        seed: "PSMC figure 4.5a, whose points are not printed: a bad path hurts, more so without the buffer",
        how: UNEVEN_LINKS,
        criterion: "with the buffer no less than over the first path alone (1 % for chance)",
        runs: 1,
        measure: |setup| {
            let rows =
                RATIOS.map(|(words, second)| Uneven { label: format!("(1, {words})"), good: 1, bad: second });
            uneven(setup, &rows)
        },
    },
    Experiment {
        name: "psmc-fig-4.5b",
        what: "TCP over 2 to 10 paths, one of which has a tenth of the others' rate",
        seed: "PSMC figure 4.5b, whose points are not printed: the bad path hurts more with more paths",
        how: UNEVEN_LINKS,
        criterion: "with the buffer no less than over the good paths alone (1 % for chance)",
        runs: 1,
        measure: |setup| {
            let rows = UNEVEN_NUMBERS.map(|number| Uneven {
                label: format!("({number}, 0.1)"),
                good: number - 1,
                bad: GOOD / 10,
            });
            uneven(setup, &rows)
        },
    },
];

const UNEVEN_LINKS: &str = "\
real time; one TCP flow with Reno for 9 s, of which the last 6 s count; links of 5 Mb/s or as much less as said, with \
50 ms of round trip and drop-tail queues of 64 packets. Rates are of inner packets of 1400 bytes, to which the \
tunnel adds 67";

/// Some good paths and a bad one.
struct Uneven {
    /// As the seed's axis has it.
    label: String,
    good: u32,
    /// In kb/s.
    bad: u32,
}

fn uneven(setup: &mut Setup<'_>, cells: &[Uneven]) -> Vec<Row> {
    let mut alone: Option<(u32, Option<f64>)> = None;
    let mut rows = Vec::new();
    for Uneven { label, good, bad } in cells {
        if !setup.wants_any(label, ["the better alone", "no buffer", "buffer"]) {
            continue;
        }
        let better = match alone {
            Some((paths, better)) if paths == *good => better,
            _ => run_uneven(setup, *good, None, "deadline"),
        };
        alone = Some((*good, better));
        let unbuffered = run_uneven(setup, *good, Some(*bad), "off");
        let buffered = run_uneven(setup, *good, Some(*bad), "deadline");
        let figure = |what: &str, ours| Figure::new(format!("{label}, {what}"), "Mb/s", ours);
        rows.push(figure("the better alone", better).shown());
        rows.push(figure("no buffer", unbuffered).shown());
        rows.push(figure("buffer", buffered).at_least(better.map(|rate| rate * SAME)));
    }
    rows
}

fn run_uneven(setup: &mut Setup<'_>, good: u32, bad: Option<u32>, reorder: &str) -> Option<f64> {
    let seconds = setup.seconds(UNEVEN_SECONDS);
    let rates = (0..good).map(|_| GOOD).chain(bad);
    let name = format!("uneven-{good}-{}-{reorder}", bad.unwrap_or(0));
    let results = Bed::tunnel(rates.map(|rate| Link::new(rate, UNEVEN_DELAY_MS)))
        .set("reorder", reorder)
        .stream("flow", Stream::Reno { bytes: None }, Span(0.0, f64::from(seconds)))
        .run(setup, &name, seconds)?;
    throughput(&results, "flow", Span::settled(seconds))
}

/// What the second path has of the first: in words, and in kb/s.
const RATIOS: [(&str, u32); 6] = [
    ("1", GOOD),
    ("1/2", GOOD / 2),
    ("1/4", GOOD / 4),
    ("1/8", GOOD / 8),
    ("1/10", GOOD / 10),
    ("1/16", GOOD / 16),
];

/// Of paths, the bad one included.
const UNEVEN_NUMBERS: [u32; 6] = [2, 3, 4, 6, 8, 10];

/// In kb/s.
const GOOD: u32 = 5000;

/// Half of the round trip.
const UNEVEN_DELAY_MS: u32 = 25;

const UNEVEN_SECONDS: u32 = 9;
