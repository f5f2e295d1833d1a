//! Frank Watson's thesis on multiple paths over intermediate nodes, chapter 4: what TCP gets where rates are limited; with
//! the figures as the thesis prints them, in kB/s. Where weights are set by hand, these have a column for each limit of the first node.

mod network;
mod weights;

use psmc_lab::results::Results;

use self::network::{Buffer, Network};
use super::{Experiment, Figure, Row, SAME, Setup};

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

/// To what the connections, or each of the nodes, are limited.
const RATES: [u32; 7] = [20, 50, 100, 150, 200, 250, 500];

/// Table 4.4: without a tunnel.
const DIRECT: [f64; 7] = [19.16, 47.89, 95.68, 143.57, 191.1, 238.93, 475.91];

/// Table 4.6: through a tunnel.
const TUNNEL: [f64; 7] = [19.18, 47.91, 95.84, 148.8, 191.5, 239.81, 477.58];

/// A row for each number of nodes, from 1 to 5.
type Nodes = [[f64; RATES.len()]; 5];

/// Table 4.8: over nodes, without a buffer.
const UNBUFFERED: Nodes = [
    [18.59, 18.94, 65.78, 100.45, 124.91, 98.13, 156.43],
    [34.52, 75.72, 160.09, 215.88, 284.61, 342.22, 823.66],
    [52.62, 132.81, 239.66, 339.72, 553.93, 507.35, 1145.6],
    [71.8, 169.92, 372.87, 557.24, 539.76, 932.85, 1861.99],
    [90.27, 235.85, 378.31, 700.82, 943.65, 1181.53, 2355.65],
];

/// Table 4.10: over nodes, with a buffer.
const BUFFERED: Nodes = [
    [18.59, 19.29, 65.75, 105.93, 124.91, 110.03, 124.86],
    [34.25, 76.65, 114.26, 122.87, 150.46, 276.04, 344.46],
    [53.6, 129.88, 209.03, 365.87, 371.56, 548.52, 976.49],
    [70.97, 167.49, 305.79, 427.14, 733.86, 917.5, 1831.78],
    [89.35, 233.55, 466.35, 513.21, 929.92, 1162.14, 2325.29],
];

/// Table 4.2: with all that the network of 100 Mb/s carries, without a tunnel.
const BASELINE: f64 = 11228.4;

/// Table 4.2: over 1 to 5 nodes, without a buffer and with it.
const BASELINE_NODES: [[f64; 5]; 2] =
    [[8645.98, 11001.57, 10010.8, 10748.66, 10478.11], [9875.86, 10206.51, 9699.83, 9996.66, 11049.27]];

/// A way to share packets out, or a size of the buffer, and what a download gets.
type Line = (u32, [f64; RATES.len()]);

/// Table 4.12: two nodes, no buffer, the second unlimited; each weight of the second beside 1 of the first.
const TWO_UNBUFFERED: [Line; 7] = [
    (1, [74.73, 194.04, 379.29, 605.41, 731.56, 912.91, 615.69]),
    (5, [744.43, 993.16, 1698.55, 1064.84, 2827.98, 3579.81, 1360.96]),
    (10, [821.44, 970.64, 2980.17, 3741.78, 1341.0, 4823.39, 7429.3]),
    (15, [1099.2, 2766.55, 4537.04, 4715.12, 5726.8, 5537.9, 9547.39]),
    (20, [2545.89, 2965.74, 4677.69, 5783.55, 6657.01, 7490.8, 10312.84]),
    (25, [1351.84, 5215.93, 1434.78, 6791.28, 7720.03, 8171.29, 10010.05]),
    (50, [6735.84, 1526.95, 8058.24, 9238.52, 10543.52, 9898.79, 10386.47]),
];

/// Table 4.14: five nodes, no buffer, the others unlimited; each weight of the others together beside 1 of the first.
const FIVE_UNBUFFERED: [Line; 6] = [
    (5, [429.16, 473.08, 861.53, 969.8, 1077.58, 2471.8, 4623.66]),
    (10, [664.92, 1340.77, 2116.51, 2841.25, 3610.58, 4262.41, 7502.99]),
    (15, [2011.95, 2894.95, 4061.25, 4362.48, 5467.36, 6282.97, 8777.42]),
    (20, [1683.33, 2994.02, 4374.42, 5525.86, 6901.93, 6622.7, 11038.23]),
    (25, [4862.64, 5565.77, 6260.65, 6800.0, 7514.78, 8481.29, 11058.5]),
    (50, [7395.51, 8078.38, 8846.95, 9471.17, 10889.49, 11070.3, 11089.29]),
];

/// Table 4.16: as table 4.12 with a buffer.
const TWO_BUFFERED: [Line; 7] = [
    (1, [65.56, 170.42, 285.01, 482.97, 484.43, 798.32, 1591.96]),
    (5, [149.46, 378.63, 740.57, 695.41, 1467.37, 937.25, 3666.94]),
    (10, [246.87, 614.0, 755.12, 1836.36, 2449.2, 3051.8, 5903.01]),
    (15, [387.14, 597.32, 1729.88, 2527.56, 1228.37, 4349.0, 8113.38]),
    (20, [459.41, 1100.52, 2213.77, 3316.02, 4421.19, 5602.23, 10812.94]),
    (25, [526.93, 793.25, 2609.29, 4059.65, 5421.48, 6397.25, 10157.18]),
    (50, [1039.59, 2530.88, 5040.78, 7726.0, 10158.86, 10020.19, 10026.31]),
];

/// Table 4.18: as table 4.14 with a buffer.
const FIVE_BUFFERED: [Line; 6] = [
    (5, [150.08, 376.09, 535.07, 1091.85, 1467.25, 1828.28, 3612.16]),
    (10, [246.84, 616.7, 1238.35, 1842.64, 2417.22, 3078.82, 6017.99]),
    (15, [295.54, 857.57, 917.48, 2615.94, 3441.39, 4373.17, 8133.43]),
    (20, [439.95, 1104.84, 2266.62, 3337.03, 4354.55, 5606.78, 10058.13]),
    (25, [527.3, 1328.11, 2585.6, 4024.4, 5370.11, 6879.43, 10193.91]),
    (50, [1041.07, 2590.06, 5218.48, 7334.42, 10258.47, 11088.64, 11082.53]),
];

/// Table 4.20: two nodes, no buffer, 100 kB/s for the second.
const TWO_LIMITED: [Line; 7] = [
    (1, [74.02, 95.36, 120.71, 115.16, 115.25, 113.83, 120.84]),
    (5, [61.37, 87.88, 108.97, 121.59, 103.87, 110.27, 102.76]),
    (10, [61.3, 102.12, 121.61, 101.3, 103.08, 109.29, 121.61]),
    (15, [59.55, 101.79, 100.13, 112.86, 102.06, 121.61, 121.61]),
    (20, [61.37, 102.06, 101.84, 110.95, 121.61, 121.61, 119.55]),
    (25, [61.43, 100.29, 105.81, 109.06, 121.51, 120.48, 105.3]),
    (50, [54.81, 111.21, 114.28, 121.51, 104.42, 105.15, 107.26]),
];

/// Table 4.22: five nodes with a buffer, 100 kB/s for each of the others.
const FIVE_LIMITED: [Line; 6] = [
    (5, [192.4, 344.35, 471.66, 378.65, 379.09, 471.37, 379.47]),
    (10, [121.29, 322.16, 466.71, 466.98, 467.59, 467.85, 467.74]),
    (15, [127.86, 326.75, 467.07, 467.33, 465.71, 467.85, 467.36]),
    (20, [127.8, 319.98, 467.02, 467.7, 467.22, 466.74, 467.01]),
    (25, [127.8, 319.79, 315.31, 467.62, 377.06, 466.33, 467.37]),
    (50, [127.82, 319.6, 465.88, 466.93, 375.83, 467.78, 466.94]),
];

/// Table 4.24: one node, by the size of the buffer in packets.
const SIZES: [Line; 7] = [
    (1, [18.93, 48.25, 66.4, 96.97, 124.91, 98.32, 139.51]),
    (5, [19.12, 48.23, 65.78, 100.39, 124.91, 98.4, 153.59]),
    (10, [19.12, 48.25, 65.78, 100.38, 123.93, 100.68, 223.16]),
    (15, [19.12, 48.25, 66.11, 100.39, 114.58, 105.44, 199.05]),
    (20, [19.1, 48.25, 65.76, 102.05, 125.43, 98.46, 164.55]),
    (25, [18.94, 48.25, 65.78, 96.03, 124.77, 98.39, 144.63]),
    (50, [18.93, 47.1, 65.65, 100.32, 124.91, 98.39, 144.08]),
];
