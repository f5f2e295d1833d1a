//! The life of a path: set up, found bad, deleted, added.

use super::{BAD_PATH, PROLONGED, SET_UP};
use crate::experiment::bed::{Bed, Link, Span, Stream, paths};
use crate::experiment::{Experiment, Figure, Row, Setup};
use psmc_lab::results::{PathResult, Results, Sample};

pub(super) const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        name: "psmc-table-4.4",
        what: "set-up of 2, 5, 10 and 50 paths",
        seed: "PSMC table 4.4: secure communication with the proxies by scripts",
        how: "real time; the daemon of the site that dials is started, and each path is up when its round trip is \
              measured, looked at every 10 ms; links of 5 Mb/s with 50 ms of round trip",
        criterion: "all paths are up after 6 round trips and 50 ms",
        runs: 1,
        measure: set_up,
    },
    Experiment {
        name: "psmc-table-4.5",
        what: "a bad path is detected and deleted, and another is added, while a flow goes on",
        seed: "PSMC table 4.5: five paths, one under attack; a download of 240 s takes 252 s",
        how: "real time; one TCP flow with Reno over 5 paths of 5 Mb/s with 50 ms of round trip, looked at every 10 ms. \
              Detected: the path swallows every packet, and the longest time in which the flow then gets nothing, which \
              includes that what was swallowed is sent again; deleted: the interface goes down, likewise; added: the \
              interface of a sixth path goes up, and the time until packets are sent there. The length is that \
              of a flow of about 12 s, whose fifth path goes bad and is replaced 200 ms later, beside the same without",
        criterion: "detected in 3 round trips (60 ms if they are shorter), deleted and added in 2; 1 % longer",
        runs: 5,
        measure: bad_path,
    },
];

fn set_up(setup: &mut Setup<'_>) -> Vec<Row> {
    let wanted = SET_UP.into_iter().filter(|(number, _)| setup.wants(&paths(*number))).collect::<Vec<_>>();
    let row = |(number, seed): (u32, f64)| {
        let results = Bed::tunnel((0..number).map(|_| LINK))
            .stream("udp", Stream::Udp { kilobits: 500 }, Span(0.0, 4.0))
            .event(1.0, "kill = \"tunnel.sender\"")
            .event(EVENT, "restart = \"tunnel.sender\"")
            .sample_ms(SAMPLE_MS)
            .run(setup, &format!("set-up-{number}"), 4);
        let ours = results.and_then(|results| all_up(&results));
        Figure::new(paths(number), "s", ours).seed(seed).at_most(6.0 * ROUND_TRIP + 0.05)
    };
    wanted.into_iter().map(row).collect()
}

/// How long after the last event the last path has measured its round trip.
fn all_up(results: &Results) -> Option<f64> {
    let restarted = results.events.last()?.happened_s;
    let after = |path: &PathResult| first(&path.rtt_series_ms, restarted, |_| true);
    let up: Option<Vec<_>> = results.paths.iter().map(after).collect();
    up?.into_iter().reduce(f64::max).map(|last| last - restarted)
}

fn bad_path(setup: &mut Setup<'_>) -> Vec<Row> {
    let [detected, deleted, added] = BAD_PATH;
    let mut rows = Vec::new();
    let labels = ["detected", "deleted", "added", "flow prolonged"];
    let [detect, delete, add, prolong] = labels.map(|label| setup.wants(label));
    if detect {
        let ours = event(setup, "detect", "black_hole = \"path5\"", pause);
        let most = (3.0 * ROUND_TRIP).max(0.06);
        rows.push(Figure::new("detected", "s", ours).seed(detected).at_most(most));
    }
    if delete {
        let ours = event(setup, "delete", "cut = \"path5\"", pause);
        rows.push(Figure::new("deleted", "s", ours).seed(deleted).at_most(2.0 * ROUND_TRIP));
    }
    if add {
        let ours = event(setup, "add", "restore = \"path6\"", joined);
        rows.push(Figure::new("added", "s", ours).seed(added).at_most(2.0 * ROUND_TRIP));
    }
    if prolong {
        let calm = length(setup, "calm", |bed| bed);
        let replaced =
            |bed: Bed| bed.event(EVENT, "black_hole = \"path5\"").event(REPLACED, "restore = \"path6\"");
        let attacked = length(setup, "attacked", replaced);
        let ours = calm.zip(attacked).map(|(calm, attacked)| (attacked / calm - 1.0) * 100.0);
        rows.push(Figure::new("flow prolonged", "%", ours).seed(PROLONGED).at_most(1.0));
    }
    rows
}

/// Five paths, and a sixth whose interface is down.
fn six() -> Bed {
    Bed::tunnel([LINK; 6]).event(0.0, "cut = \"path6\"").sample_ms(SAMPLE_MS)
}

/// What is measured of a flow during which something happens.
fn event(setup: &mut Setup<'_>, name: &str, what: &str, measure: fn(&Results) -> Option<f64>) -> Option<f64> {
    let results = six()
        .stream("flow", Stream::Reno { bytes: None }, Span(0.0, 6.0))
        .event(EVENT, what)
        .run(setup, name, 6)?;
    measure(&results)
}

/// How long a flow of many bytes takes, in s.
fn length(setup: &mut Setup<'_>, name: &str, attack: fn(Bed) -> Bed) -> Option<f64> {
    let flow = Stream::Reno { bytes: Some(BYTES) };
    let results = attack(six().stream("flow", flow, Span(0.0, 30.0))).run(setup, name, 30)?;
    let goodput = results.traffic.first()?.goodput_mbps;
    (results.traffic.first()?.bytes == BYTES).then(|| BITS / 1e6 / goodput)
}

/// The longest time within a second of the last event in which the flow got nothing, in s.
fn pause(results: &Results) -> Option<f64> {
    let happened = results.events.last()?.happened_s;
    let after = |sample: &&Sample| sample.at_s > happened && sample.at_s <= happened + 1.0;
    let gaps = results.traffic.first()?.gap_series_ms.iter().filter(after);
    gaps.map(|gap| gap.value / 1e3).reduce(f64::max)
}

/// How long after the last event the sixth path was sent to.
fn joined(results: &Results) -> Option<f64> {
    let happened = results.events.last()?.happened_s;
    let sent = &results.paths.get(5)?.sent_series_mbps;
    first(sent, happened, |rate| rate >= CARRIES).map(|at| at - happened)
}

/// When a series first has such a value after a time.
fn first(series: &[Sample], after: f64, is_such: fn(f64) -> bool) -> Option<f64> {
    series.iter().find(|sample| sample.at_s > after && is_such(sample.value)).map(|sample| sample.at_s)
}

const LINK: Link = Link::new(5000, 25);

/// In s.
const ROUND_TRIP: f64 = 0.05;

/// When it happens, in s: the flow has found its rate.
const EVENT: f64 = 3.0;

/// When another path takes over from a bad one: it is detected by then.
const REPLACED: f64 = 3.2;

/// Of the flow that is prolonged.
const BYTES: u64 = 30_000_000;
const BITS: f64 = 240_000_000.0;

/// In Mb/s: a packet of data in an interval, more than a path is probed with.
const CARRIES: f64 = 1.0;

const SAMPLE_MS: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_is_searched_after_a_time() {
        let series =
            [(0.9, 2.0), (1.0, 3.0), (1.1, 0.5), (1.2, 4.0)].map(|(at_s, value)| Sample { at_s, value });
        assert_eq!(first(&series, 1.0, |rate| rate >= CARRIES), Some(1.2));
        assert_eq!(first(&series, 1.2, |_| true), None);
    }
}
