//! Buffers that put a flow back in order: of fixed sizes, adaptive, and by deadlines.

use std::fmt::{self, Display};

use crate::experiment::bed::{Bed, Link, Span, Stream, paths, throughput};
use crate::experiment::{Experiment, Figure, Row, SAME, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-4.6a",
        what: "TCP over 1 to 10 paths with buffers of 10, 20 and 40 packets, the adaptive one, and deadlines",
        seed: "PSMC figure 4.6a, whose points are not printed: adaptive best; 10 too small above 6 paths, 40 worst",
        how: LINKS,
        criterion: "deadlines no worse than adaptive, which is no worse than any fixed size (1 % for chance)",
        runs: 1,
        measure: schemes,
    },
    Experiment {
        name: "psmc-fig-4.6b",
        what: "TCP over 5 paths with buffers of 1 to 60 packets",
        seed: "PSMC figure 4.6b, whose points are not printed: insensitive from 10 to 25, then falling",
        how: LINKS,
        criterion: "deadlines no worse than any size (1 % for chance)",
        runs: 1,
        measure: sizes,
    },
];

const LINKS: &str = "\
real time; one TCP flow with Reno for 9 s, of which the last 6 s count; links of 5 Mb/s with 30 ms of round trip and \
drop-tail queues of 64 packets. Rates are of inner packets of 1400 bytes, to which the tunnel adds 67";

/// How packets are put back in order.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Buffer {
    Fixed(u32),
    Adaptive,
    Deadline,
}

fn schemes(setup: &mut Setup<'_>) -> Vec<Row> {
    let fixed = [10, 20, 40].map(Buffer::Fixed);
    let mut rows = Vec::new();
    for number in NUMBERS {
        if !setup.wants_any(&paths(number), fixed.into_iter().chain([Buffer::Adaptive, Buffer::Deadline])) {
            continue;
        }
        let figure = |buffer: Buffer, ours| Figure::new(format!("{}, {buffer}", paths(number)), "Mb/s", ours);
        let sizes = fixed.map(|buffer| (buffer, run(setup, number, buffer)));
        let adaptive = run(setup, number, Buffer::Adaptive);
        let deadline = run(setup, number, Buffer::Deadline);
        rows.extend(sizes.map(|(buffer, ours)| figure(buffer, ours).shown()));
        rows.push(figure(Buffer::Adaptive, adaptive).at_least(no_worse(sizes.map(|(_, ours)| ours))));
        rows.push(figure(Buffer::Deadline, deadline).at_least(no_worse([adaptive])));
    }
    rows
}

fn sizes(setup: &mut Setup<'_>) -> Vec<Row> {
    let sizes = SIZES.map(|size| (Buffer::Fixed(size), run(setup, FIVE, Buffer::Fixed(size))));
    let deadline = run(setup, FIVE, Buffer::Deadline);
    let figure = |buffer: Buffer, ours| Figure::new(buffer.to_string(), "Mb/s", ours);
    let mut rows: Vec<_> = sizes.iter().map(|(buffer, ours)| figure(*buffer, *ours).shown()).collect();
    rows.push(figure(Buffer::Deadline, deadline).at_least(no_worse(sizes.map(|(_, ours)| ours))));
    rows
}

/// The least of what is no worse than the best of these.
fn no_worse<const N: usize>(others: [Option<f64>; N]) -> Option<f64> {
    let best = others.into_iter().flatten().reduce(f64::max);
    best.map(|best| best * SAME)
}

fn run(setup: &mut Setup<'_>, number: u32, buffer: Buffer) -> Option<f64> {
    let seconds = setup.seconds(SECONDS);
    let bed = Bed::tunnel((0..number).map(|_| Link::new(KILOBITS, DELAY_MS)));
    let bed = match buffer {
        Buffer::Fixed(size) => bed.set("reorder", "fixed").set("reorder_packets", i64::from(size)),
        Buffer::Adaptive => bed.set("reorder", "adaptive"),
        Buffer::Deadline => bed.set("reorder", "deadline"),
    };
    let name = format!("buffer-{number}-{buffer}").replace(' ', "-");
    let results = bed
        .stream("flow", Stream::Reno { bytes: None }, Span(0.0, f64::from(seconds)))
        .run(setup, &name, seconds)?;
    throughput(&results, "flow", Span::settled(seconds))
}

impl Display for Buffer {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(1) => out.write_str("1 packet"),
            Self::Fixed(size) => write!(out, "{size} packets"),
            Self::Adaptive => out.write_str("adaptive"),
            Self::Deadline => out.write_str("deadline"),
        }
    }
}

/// Of paths: the seed's axis, thinned.
const NUMBERS: [u32; 6] = [1, 2, 4, 6, 8, 10];

/// The seed does not say over how many paths it swept the size; its other sweeps have five.
const FIVE: u32 = 5;

/// Of buffers, in packets.
const SIZES: [u32; 8] = [1, 5, 10, 15, 20, 25, 40, 60];

const KILOBITS: u32 = 5000;

/// Half of the round trip.
const DELAY_MS: u32 = 15;

const SECONDS: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chance_may_make_one_percent() {
        assert_eq!(no_worse([Some(10.0), None, Some(20.0)]), Some(19.8));
        assert_eq!(no_worse([None]), None);
    }
}
