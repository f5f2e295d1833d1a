//! Paths of which one is much slower than the others.

use crate::experiment::bed::{Bed, Link, Span, Stream, throughput};
use crate::experiment::{Experiment, Figure, Row, SAME, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-4.5a",
        what: "TCP over two paths, the second of which is slower and slower",
        seed: "PSMC figure 4.5a, whose points are not printed: a bad path hurts, more so without the buffer",
        how: LINKS,
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
        how: LINKS,
        criterion: "with the buffer no less than over the good paths alone (1 % for chance)",
        runs: 1,
        measure: |setup| {
            let rows = NUMBERS.map(|number| Uneven {
                label: format!("({number}, 0.1)"),
                good: number - 1,
                bad: GOOD / 10,
            });
            uneven(setup, &rows)
        },
    },
];

const LINKS: &str = "\
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
            _ => run(setup, *good, None, "deadline"),
        };
        alone = Some((*good, better));
        let unbuffered = run(setup, *good, Some(*bad), "off");
        let buffered = run(setup, *good, Some(*bad), "deadline");
        let figure = |what: &str, ours| Figure::new(format!("{label}, {what}"), "Mb/s", ours);
        rows.push(figure("the better alone", better).shown());
        rows.push(figure("no buffer", unbuffered).shown());
        rows.push(figure("buffer", buffered).at_least(better.map(|rate| rate * SAME)));
    }
    rows
}

fn run(setup: &mut Setup<'_>, good: u32, bad: Option<u32>, reorder: &str) -> Option<f64> {
    let seconds = setup.seconds(SECONDS);
    let rates = (0..good).map(|_| GOOD).chain(bad);
    let name = format!("uneven-{good}-{}-{reorder}", bad.unwrap_or(0));
    let results = Bed::tunnel(rates.map(|rate| Link::new(rate, DELAY_MS)))
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
const NUMBERS: [u32; 6] = [2, 3, 4, 6, 8, 10];

/// In kb/s.
const GOOD: u32 = 5000;

/// Half of the round trip.
const DELAY_MS: u32 = 25;

const SECONDS: u32 = 9;
