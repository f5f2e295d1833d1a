//! What a tunnel costs: time with many paths, throughput with one.

use crate::experiment::bed::{Bed, Link, Span, Stream, mean, paths, throughput};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-fig-4.3",
        what: "latency over 1 to 10 paths, without and with putting packets in order",
        seed: "PSMC figure 4.3, whose points are not printed: constant without the buffer, rising with it",
        how: "real time; UDP of nine tenths of what the paths carry for 6 s, of which the last 4 s count: the mean time \
              from sender to receiver beyond the shortest, with `ordered_udp` for the buffer; links of 5 Mb/s with 30 ms \
              of round trip",
        criterion: "over any number of paths within 5 ms of what it is over one",
        runs: 1,
        measure: latencies,
    },
    Experiment {
        name: "psmc-fig-4.4",
        what: "overhead on a single path: TCP without a tunnel, and through one without and with a buffer",
        seed: "PSMC figure 4.4, whose points are not printed: comparable",
        how: "real time; one TCP flow with Reno for 9 s, of which the last 6 s count; a link of 5 Mb/s with 50 ms of \
              round trip and a drop-tail queue of 64 packets. Rates are of full-size packets without what the \
              tunnel adds, for which the link below it is faster by 67 bytes in 1400",
        criterion: "through the tunnel no more than 3 % less than without it",
        runs: 1,
        measure: overheads,
    },
];

fn latencies(setup: &mut Setup<'_>) -> Vec<Row> {
    let mut rows = Vec::new();
    for (words, ordered) in [("no buffer", false), ("buffer", true)] {
        let label = |number| format!("{words}, {}", paths(number));
        if !NUMBERS.iter().any(|number| setup.wants(&label(*number))) {
            continue;
        }
        let single = latency(setup, 1, ordered);
        rows.push(Figure::new(label(1), "ms", single).shown());
        for number in NUMBERS.into_iter().filter(|number| *number > 1) {
            if setup.wants(&label(number)) {
                let figure = Figure::new(label(number), "ms", latency(setup, number, ordered));
                rows.push(figure.beside(single, CONSTANT_MS));
            }
        }
    }
    rows
}

/// Mean one-way delay beyond the smallest, in ms.
fn latency(setup: &mut Setup<'_>, number: u32, ordered: bool) -> Option<f64> {
    let seconds = setup.seconds(6);
    let name = format!("latency-{number}-{ordered}");
    let results = Bed::tunnel((0..number).map(|_| Link::new(KILOBITS, 15)))
        .set("ordered_udp", ordered)
        .stream("udp", Stream::Udp { kilobits: number * KILOBITS * 9 / 10 }, Span(0.0, f64::from(seconds)))
        .run(setup, &name, seconds)?;
    let Span(start, _) = Span::settled(seconds);
    let samples = &results.traffic.first()?.latency.as_ref()?.samples_ms;
    let settled: Vec<_> = samples.iter().filter(|sample| sample.at_s >= start).map(|it| it.value).collect();
    mean(&settled)
}

fn overheads(setup: &mut Setup<'_>) -> Vec<Row> {
    let link = || [Link::new(KILOBITS, 25)];
    let mut run = |name: &str, bed: Bed| {
        let seconds = setup.seconds(9);
        let flow = Stream::Reno { bytes: None };
        let results = bed.stream("flow", flow, Span(0.0, f64::from(seconds))).run(setup, name, seconds)?;
        throughput(&results, "flow", Span::settled(seconds))
    };
    let plain = run("plain", Bed::direct(link()));
    let unbuffered = run("off", Bed::tunnel(link()).set("reorder", "off"));
    let buffered = run("deadline", Bed::tunnel(link()));
    let least = plain.map(|plain| plain * (1.0 - OVERHEAD));
    vec![
        Figure::new("no tunnel", "Mb/s", plain).shown(),
        Figure::new("tunnel, no buffer", "Mb/s", unbuffered).at_least(least),
        Figure::new("tunnel, buffer", "Mb/s", buffered).at_least(least),
    ]
}

/// Of paths: the seed's axis, thinned.
const NUMBERS: [u32; 6] = [1, 2, 4, 6, 8, 10];

const KILOBITS: u32 = 5000;

const CONSTANT_MS: f64 = 5.0;

const OVERHEAD: f64 = 0.03;
