//! UDP: over fast and slow paths, beside TCP, and as a video.

use super::{COMPETITION, UDP};
use crate::experiment::bed::{Bed, Link, Span, Stream, paths, throughput};
use crate::experiment::{Experiment, Figure, Row, Setup};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-table-4.6a",
        what: "UDP over 1 to 10 paths of 2 Mb/s",
        seed: "PSMC table 4.6a: packet generator over paths of 2 Mb/s",
        how: LINKS,
        criterion: "at least 98 % of the paths' sum",
        runs: 1,
        measure: |setup| sums(setup, 0, FAST),
    },
    Experiment {
        name: "psmc-table-4.6b",
        what: "UDP over 1 to 10 paths, one of 200 kb/s and the others of 2 Mb/s",
        seed: "PSMC table 4.6b: packet generator over such paths",
        how: LINKS,
        criterion: "at least 98 % of the paths' sum",
        runs: 1,
        measure: |setup| sums(setup, 1, 200),
    },
    Experiment {
        name: "psmc-table-4.6c",
        what: "UDP over 1 to 10 paths, one of 20 kb/s and the others of 2 Mb/s",
        seed: "PSMC table 4.6c: packet generator over such paths",
        how: LINKS,
        criterion: "at least 98 % of the paths' sum",
        runs: 1,
        measure: |setup| sums(setup, 2, 20),
    },
    Experiment {
        name: "psmc-table-4.7",
        what: "two TCP flows over two paths of 3 Mb/s: alone, beside UDP, and beside UDP with a limit",
        seed: "PSMC table 4.7: the TCP flows want 2 Mb/s each, UDP all there is; the limit is 1 Mb/s",
        how: "real time; two TCP flows with Reno for 9 s, of which the last 6 s count, that want all there is, and UDP of \
              6 Mb/s; `udp_rate_limit` of 1 Mb/s; links with 20 ms of round trip and drop-tail queues of 64 packets. \
              Rates are of inner packets of 1400 bytes, to which the tunnel adds 67",
        criterion: "with the limit each has at least 95 % of half of what UDP leaves",
        runs: 1,
        measure: competition,
    },
    Experiment {
        name: "psmc-video",
        what: "a video of 5 Mb/s over 1 and 3 paths of 2 Mb/s",
        seed: "PSMC ch. IV, UDP tests: it pauses all the time over one path, and is smooth over three",
        how: "real time; UDP of 5 Mb/s for 10 s from the start on; links with 20 ms of round trip and drop-tail queues of \
              64 packets. A player that waits 200 ms stalls if a packet comes later than that after the fastest",
        criterion: "over 3 paths less than 0.1 % is lost and none comes later than 200 ms",
        runs: 1,
        measure: video,
    },
];

const LINKS: &str = "\
real time; a fifth more than the paths carry is offered for 6 s (60 s over the slow path alone), of which the last two \
thirds count; links with 10 ms of delay each way and drop-tail queues of 64 packets. Rates are of inner packets \
of 1400 bytes, to which the tunnel adds 67";

/// What UDP gets if the first path has so many kilobits a second.
fn sums(setup: &mut Setup<'_>, column: usize, first: u32) -> Vec<Row> {
    let mut rows = Vec::new();
    for (number, seed) in UDP {
        let label = paths(number);
        if !setup.wants(&label) {
            continue;
        }
        let rates = std::iter::once(first).chain((1..number).map(|_| FAST));
        let sum = first + (number - 1) * FAST;
        let seconds = setup.seconds(if sum < FAST { SLOW_SECONDS } else { SECONDS });
        let offered = Stream::Udp { kilobits: sum * 6 / 5 };
        let name = format!("udp-{first}-{number}");
        let ours = Bed::tunnel(rates.map(|rate| Link::new(rate, DELAY_MS)))
            .stream("udp", offered, Span(0.0, f64::from(seconds)))
            .run(setup, &name, seconds)
            .and_then(|results| throughput(&results, "udp", Span::settled(seconds)));
        let figure = Figure::new(label, "Mb/s", ours).seed(seed[column]);
        rows.push(figure.at_least(SHARE * f64::from(sum) / 1000.0));
    }
    rows
}

fn competition(setup: &mut Setup<'_>) -> Vec<Row> {
    let seconds = setup.seconds(9);
    let span = Span(0.0, f64::from(seconds));
    let flow = Stream::Reno { bytes: None };
    let alone =
        Bed::tunnel([Link::new(3000, DELAY_MS); 2]).stream("tcp1", flow, span).stream("tcp2", flow, span);
    let beside = alone.clone().stream("udp", Stream::Udp { kilobits: 6000 }, span);
    let limited = beside.clone().set("udp_rate_limit", "1mbit");
    let mut rows = Vec::new();
    let cells = [("before UDP", alone), ("beside UDP", beside), ("UDP with rate control", limited)];
    for ((words, bed), seed) in cells.into_iter().zip(COMPETITION) {
        if !setup.wants_any(words, ["tcp1", "tcp2"]) {
            continue;
        }
        let results = bed.run(setup, &words.replace(' ', "-"), seconds);
        for flow in ["tcp1", "tcp2"] {
            let ours = results.as_ref().and_then(|results| throughput(results, flow, Span::settled(seconds)));
            let figure = Figure::new(format!("{words}, {flow}"), "Mb/s", ours).seed(seed);
            let is_limited = words == "UDP with rate control";
            rows.push(if is_limited { figure.at_least(TCP_SHARE * 2.5) } else { figure.shown() });
        }
    }
    rows
}

fn video(setup: &mut Setup<'_>) -> Vec<Row> {
    let seconds = setup.seconds(10);
    let mut rows = Vec::new();
    for number in [1, 3] {
        if !setup.wants_any(&paths(number), ["lost", "latest packet"]) {
            continue;
        }
        let results = Bed::tunnel((0..number).map(|_| Link::new(FAST, DELAY_MS)))
            .stream("video", Stream::Udp { kilobits: 5000 }, Span(0.0, f64::from(seconds)))
            .run(setup, &format!("video-{number}"), seconds);
        let video = results.as_ref().and_then(|results| results.traffic.first());
        let loss = video.and_then(|video| video.loss_percent);
        let latest = video.and_then(|video| video.latency.as_ref()).map(|latency| latency.max_ms);
        let loss = Figure::new(format!("{}, lost", paths(number)), "%", loss);
        let latest = Figure::new(format!("{}, latest packet", paths(number)), "ms", latest);
        rows.extend(match number {
            1 => [loss.shown(), latest.shown()],
            _ => [loss.at_most(0.1), latest.at_most(200.0)],
        });
    }
    rows
}

/// Of all paths but one, in kb/s.
const FAST: u32 = 2000;

const DELAY_MS: u32 = 10;

const SECONDS: u32 = 6;

/// A packet takes 0.6 s at 20 kb/s.
const SLOW_SECONDS: u32 = 60;

/// What ours must reach of the sum.
const SHARE: f64 = 0.98;

/// What TCP must reach of what UDP leaves it.
const TCP_SHARE: f64 = 0.95;
