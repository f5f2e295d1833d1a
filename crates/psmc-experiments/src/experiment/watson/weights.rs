//! Weights set by hand, beside what the tunnel finds by itself; and the size of the buffer.

use super::{
    BASELINE, BASELINE_NODES, FIVE_BUFFERED, FIVE_LIMITED, FIVE_UNBUFFERED, Line, RATES, SIZES, TWO_BUFFERED,
    TWO_LIMITED, TWO_UNBUFFERED,
};
use crate::experiment::bed::{Bed, Link, Span, Stream, goodput, mean};
use crate::experiment::{Experiment, Figure, Row, SAME, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "watson-table-4.2",
        what: "a download over 100 Mb/s: direct, and over 1 to 5 nodes without and with a buffer",
        seed: "WATSON table 4.2: 600 MHz Pentium III, Linux 2.4.24, apache bench",
        how: LINKS,
        criterion: "nothing below 95 % of direct",
        runs: 1,
        measure: baseline,
    },
    Experiment {
        name: "watson-table-4.12",
        what: "weights for two nodes, the first of which is limited, without a buffer",
        seed: "WATSON table 4.12: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: AUTOMATIC,
        runs: 1,
        measure: |setup| {
            weights(setup, &Weighted { nodes: 2, others: ETHERNET, reorder: "off" }, &TWO_UNBUFFERED)
        },
    },
    Experiment {
        name: "watson-table-4.14",
        what: "weights for five nodes, the first of which is limited, without a buffer",
        seed: "WATSON table 4.14: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: AUTOMATIC,
        runs: 1,
        measure: |setup| {
            weights(setup, &Weighted { nodes: 5, others: ETHERNET / 4, reorder: "off" }, &FIVE_UNBUFFERED)
        },
    },
    Experiment {
        name: "watson-table-4.16",
        what: "weights for two nodes, the first of which is limited, with a buffer",
        seed: "WATSON table 4.16: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: AUTOMATIC,
        runs: 1,
        measure: |setup| {
            weights(setup, &Weighted { nodes: 2, others: ETHERNET, reorder: "deadline" }, &TWO_BUFFERED)
        },
    },
    Experiment {
        name: "watson-table-4.18",
        what: "weights for five nodes, the first of which is limited, with a buffer",
        seed: "WATSON table 4.18: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: AUTOMATIC,
        runs: 1,
        measure: |setup| {
            weights(setup, &Weighted { nodes: 5, others: ETHERNET / 4, reorder: "deadline" }, &FIVE_BUFFERED)
        },
    },
    Experiment {
        name: "watson-table-4.20",
        what: "weights for two nodes, the first limited and 100 kB/s for the other, without a buffer",
        seed: "WATSON table 4.20: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: AUTOMATIC,
        runs: 1,
        measure: |setup| weights(setup, &Weighted { nodes: 2, others: SLOW, reorder: "off" }, &TWO_LIMITED),
    },
    Experiment {
        name: "watson-table-4.22",
        what: "weights for five nodes, the first limited and 100 kB/s for each of the others, with a buffer",
        seed: "WATSON table 4.22: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: AUTOMATIC,
        runs: 1,
        measure: |setup| {
            weights(setup, &Weighted { nodes: 5, others: SLOW, reorder: "deadline" }, &FIVE_LIMITED)
        },
    },
    Experiment {
        name: "watson-table-4.24",
        what: "buffers of 1 to 50 packets on one limited node",
        seed: "WATSON table 4.24: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: "within 2 % of the mean of all sizes",
        runs: 1,
        measure: sizes,
    },
];

const AUTOMATIC: &str =
    "the scheduler `earliest`, which knows no weights, no worse than the best weight (1 % for chance)";

const LINKS: &str = "\
real time; one TCP flow with Reno for 6 s, or 15 s where all nodes are limited, of which the last two thirds count, payload in kB (1000 bytes) a second; a link for \
each node, with 1 ms of delay and a drop-tail queue of 64 packets; nodes without a limit share 100 Mb/s evenly, as they \
did in the seed; weights by the scheduler `wrr`. Limits count inner packets of 1400 bytes, to which the tunnel \
adds 67";

/// Nodes of which the first is limited as the columns say.
struct Weighted {
    nodes: u32,
    /// What each of the others has, in kb/s.
    others: u32,
    reorder: &'static str,
}

fn weights<const N: usize>(setup: &mut Setup<'_>, weighted: &Weighted, seeds: &[Line; N]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (column, limit) in RATES.into_iter().enumerate() {
        let first = format!("first node {limit} kB/s");
        let ratios = seeds.iter().map(|(weight, _)| format!("1:{weight}")).chain(["automatic".to_owned()]);
        if !setup.wants_any(&first, ratios) {
            continue;
        }
        let figure = |words: &str, ours| Figure::new(format!("{first}, {words}"), "kB/s", ours);
        let mut best: Option<f64> = None;
        for (weight, seed) in seeds {
            let bed = weighted.bed(limit, *weight).set("scheduler", "wrr");
            let ours = download(setup, &format!("first-{limit}-weight-{weight}"), bed, weighted.seconds());
            best = best.into_iter().chain(ours).reduce(f64::max);
            rows.push(figure(&format!("1:{weight}"), ours).seed(seed[column]).shown());
        }
        let bed = weighted.bed(limit, 1).set("scheduler", "earliest");
        let automatic = download(setup, &format!("first-{limit}-automatic"), bed, weighted.seconds());
        rows.push(figure("automatic", automatic).at_least(best.map(|best| best * SAME)));
    }
    rows
}

impl Weighted {
    fn seconds(&self) -> u32 {
        if self.others == SLOW { SLOW_SECONDS } else { SECONDS }
    }

    /// The weight is that of all others together, beside 1 of the first.
    fn bed(&self, limit: u32, weight: u32) -> Bed {
        let others = self.nodes - 1;
        let first = Link { weight: others, ..Link::new(limit * KILOBYTE, DELAY_MS) };
        let other = Link { weight, ..Link::new(self.others, DELAY_MS) };
        let links = std::iter::once(first).chain((0..others).map(|_| other));
        Bed::tunnel(links).set("reorder", self.reorder)
    }
}

fn baseline(setup: &mut Setup<'_>) -> Vec<Row> {
    let direct = download(setup, "direct", Bed::direct([Link::new(ETHERNET, DELAY_MS)]), SECONDS);
    let mut rows = vec![Figure::new("direct", "kB/s", direct).seed(BASELINE).shown()];
    let least = direct.map(|direct| direct * BASELINE_SHARE);
    for (reorder, seeds) in ["off", "deadline"].into_iter().zip(BASELINE_NODES) {
        let words = if reorder == "off" { "no buffer" } else { "buffer" };
        for (nodes, seed) in (1..).zip(seeds) {
            let label = format!("{nodes} node{}, {words}", if nodes == 1 { "" } else { "s" });
            if setup.wants(&label) {
                let links = (0..nodes).map(|_| Link::new(ETHERNET / nodes, DELAY_MS));
                let bed = Bed::tunnel(links).set("reorder", reorder);
                let ours = download(setup, &format!("nodes-{nodes}-{reorder}"), bed, SECONDS);
                rows.push(Figure::new(label, "kB/s", ours).seed(seed).at_least(least));
            }
        }
    }
    rows
}

fn sizes(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (column, limit) in RATES.into_iter().enumerate() {
        let words = format!("node {limit} kB/s");
        if !setup.wants_any(&words, SIZES.map(|(size, _)| format!("buffer of {size}"))) {
            continue;
        }
        let cells = SIZES.map(|(size, seeds)| {
            let bed = Bed::tunnel([Link::new(limit * KILOBYTE, DELAY_MS)])
                .set("reorder", "fixed")
                .set("reorder_packets", i64::from(size));
            (size, seeds[column], download(setup, &format!("node-{limit}-buffer-{size}"), bed, SLOW_SECONDS))
        });
        let middle = mean(&cells.iter().filter_map(|(_, _, ours)| *ours).collect::<Vec<_>>());
        rows.extend(cells.map(|(size, seed, ours)| {
            let figure = Figure::new(format!("{words}, buffer of {size}"), "kB/s", ours);
            figure.seed(seed).near(middle, TOLERANCE)
        }));
    }
    rows
}

/// What a download gets in so many seconds, in kB/s.
fn download(setup: &mut Setup<'_>, name: &str, bed: Bed, seconds: u32) -> Option<f64> {
    let seconds = setup.seconds(seconds);
    let flow = Stream::Reno { bytes: None };
    let results = bed.stream("download", flow, Span(0.0, f64::from(seconds))).run(setup, name, seconds)?;
    goodput(&results, "download", Span::settled(seconds)).map(|rate| rate * 1000.0 / f64::from(KILOBYTE))
}

/// In kb/s.
const ETHERNET: u32 = 100_000;

/// 100 kB/s in kb/s.
const SLOW: u32 = 800;

/// In kb.
const KILOBYTE: u32 = 8;

const DELAY_MS: u32 = 1;

const SECONDS: u32 = 6;

/// Where all nodes are slow a full queue takes seconds.
const SLOW_SECONDS: u32 = 15;

/// Of what a direct download gets.
const BASELINE_SHARE: f64 = 0.95;

/// By how much the sizes of buffers may differ.
const TOLERANCE: f64 = 0.02;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_of_the_first_to_all_others() {
        let text = Weighted { nodes: 5, others: SLOW, reorder: "off" }.bed(20, 10).scenario(1);
        let weights: Vec<_> = text.lines().filter(|line| line.starts_with("weight")).collect();
        assert_eq!(weights, ["weight = 4", "weight = 10", "weight = 10", "weight = 10", "weight = 10"]);
    }
}
