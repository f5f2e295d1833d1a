//! Frank Watson's thesis on multiple paths over intermediate nodes, chapter 4: what TCP gets where rates are limited.

mod figures;
mod network;
mod weights;

use super::{Experiment, Figure, Row, SAME, Setup};
use psmc_lab::results::Results;

use figures::{BUFFERED, DIRECT, RATES, TUNNEL, UNBUFFERED};
use network::{Buffer, Network};

pub(super) const FAMILIES: &[&[Experiment]] = &[LIMITS, weights::EXPERIMENTS];

const LIMITS: &[Experiment] = &[
    Experiment {
        name: "watson-table-4.4",
        what: "a download over one rate-limited connection: direct, and through a tunnel",
        seed: "WATSON tables 4.4 and 4.6: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: "at least 95 % of the limit",
        runs: 1,
        measure: |setup| [single(setup, Way::Direct), single(setup, Way::Tunnel)].concat(),
    },
    Experiment {
        name: "watson-table-4.6",
        what: "a download over one rate-limited connection through a tunnel",
        seed: "WATSON table 4.6: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: "at least 95 % of the limit",
        runs: 1,
        measure: |setup| single(setup, Way::Tunnel),
    },
    Experiment {
        name: "watson-table-4.8",
        what: "a download over 1 to 5 rate-limited nodes, without and with a buffer",
        seed: "WATSON tables 4.8 and 4.10: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: "at least 95 % of nodes × limit; with the buffer at least what it is without",
        runs: 1,
        measure: |setup| nodes(setup, &[Buffer::Off, Buffer::On]),
    },
    Experiment {
        name: "watson-table-4.10",
        what: "a download over 1 to 5 rate-limited nodes, with a buffer",
        seed: "WATSON table 4.10: 600 MHz Pentium III, Linux 2.4.24, apache bench, tc",
        how: LINKS,
        criterion: "at least 95 % of nodes × limit, and at least what it is without the buffer",
        runs: 1,
        measure: |setup| nodes(setup, &[Buffer::On]),
    },
];

const LINKS: &str = "\
real time; one TCP flow with Reno downloads what the limit lets through in 10 s (20 s up to 50 kB/s), payload in kB \
(1000 bytes) a second from the first SYN to the last byte; links with 1 ms of delay, no loss, drop-tail queues of 50 \
packets, room for the 64 kB that were the largest window of the time. A limit counts inner packets, as it does \
in the seed, whose nodes take off the outer header first: ours pass on whole datagrams, so their rate is higher by the \
67 bytes that a packet of 1400 gets";

/// A connection without nodes, or with one.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Way {
    Direct,
    Tunnel,
}

fn single(setup: &mut Setup<'_>, way: Way) -> Vec<Row> {
    let (words, figures) = match way {
        Way::Direct => ("direct", DIRECT),
        Way::Tunnel => ("tunnel", TUNNEL),
    };
    let mut rows = Vec::new();
    for (limit, seed) in RATES.into_iter().zip(figures) {
        let label = format!("{words}, {limit} kB/s");
        if setup.wants(&label) {
            let network = match way {
                Way::Direct => Network::Direct { limit },
                Way::Tunnel => Network::Nodes { nodes: 1, limit, buffer: Buffer::On },
            };
            let ours = download(setup, &format!("{words}-{limit}"), network);
            rows.push(figure(label, seed, ours).at_least(SHARE * f64::from(limit)));
        }
    }
    rows
}

/// Rows for these buffers. What a download gets without one is measured in any case, beside what it gets with one.
fn nodes(setup: &mut Setup<'_>, buffers: &[Buffer]) -> Vec<Row> {
    let mut rows = Vec::new();
    for (nodes, row) in (1..).zip(0..UNBUFFERED.len()) {
        for (column, limit) in RATES.into_iter().enumerate() {
            let wanted = buffers.iter().filter(|buffer| setup.wants(&label(nodes, limit, **buffer)));
            let wanted: Vec<_> = wanted.copied().collect();
            if wanted.is_empty() {
                continue;
            }
            let without = over_nodes(setup, nodes, limit, Buffer::Off);
            let with = over_nodes(setup, nodes, limit, Buffer::On);
            let least = SHARE * f64::from(nodes * limit);
            rows.extend(wanted.into_iter().map(|buffer| {
                let label = label(nodes, limit, buffer);
                match buffer {
                    Buffer::Off => figure(label, UNBUFFERED[row][column], without).at_least(least),
                    Buffer::On => {
                        let least = least.max(without.unwrap_or(0.0) * SAME);
                        figure(label, BUFFERED[row][column], with).at_least(least)
                    }
                }
            }));
        }
    }
    rows
}

fn over_nodes(setup: &mut Setup<'_>, nodes: u32, limit: u32, buffer: Buffer) -> Option<f64> {
    let name = format!("nodes-{nodes}-{limit}-{}", buffer.name());
    download(setup, &name, Network::Nodes { nodes, limit, buffer })
}

fn label(nodes: u32, limit: u32, buffer: Buffer) -> String {
    let plural = if nodes == 1 { "" } else { "s" };
    format!("{nodes} node{plural}, {limit} kB/s, {}", buffer.words())
}

fn figure(label: String, seed: f64, ours: Option<f64>) -> Figure {
    Figure::new(label, "kB/s", ours).seed(seed)
}

/// What a download gets, in kB/s.
fn download(setup: &mut Setup<'_>, name: &str, network: Network) -> Option<f64> {
    let seconds = setup.seconds(network.best_seconds());
    let results = setup.run(name, &network.scenario(seconds))?;
    goodput(&results)
}

fn goodput(results: &Results) -> Option<f64> {
    let kilobytes = |mbps: f64| mbps * 1000.0 / 8.0;
    results.traffic.first().map(|download| kilobytes(download.goodput_mbps))
}

/// What ours must reach of the limit.
const SHARE: f64 = 0.95;
