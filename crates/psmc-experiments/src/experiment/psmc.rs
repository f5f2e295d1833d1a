//! The thesis on proxy-server-based multipath connections: how an indirect route is set up and what it is worth
//! (chapter III), what a tunnel over several paths carries (chapter IV), and files from several mirrors (chapter V); with
//! the figures as the thesis prints them.

mod buffers;
mod fairness;
mod latency;
mod life;
mod loss;
mod mirrors;
mod paths;
mod relayed;
mod scold;
mod udp;

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[
    scold::EXPERIMENTS,
    relayed::EXPERIMENTS,
    paths::EXPERIMENTS,
    latency::EXPERIMENTS,
    paths::UNEVEN_EXPERIMENTS,
    buffers::EXPERIMENTS,
    loss::EXPERIMENTS,
    fairness::EXPERIMENTS,
    life::EXPERIMENTS,
    udp::EXPERIMENTS,
    mirrors::EXPERIMENTS,
];

/// Table 3.1: the three steps of the set-up, in s.
const SCOLD_SET_UP: [f64; 3] = [2.1, 4.7, 2.7];

/// Table 3.2: numbers of name servers, and how long a secure update of all takes, in s.
const SECURE_UPDATE: [(u32, f64); 4] = [(1, 4.7), (10, 25.0), (25, 96.0), (50, 240.0)];

/// Table 3.3: ping in ms; HTTP of 100 kB, 500 kB and 1 MB, and FTP likewise, in s: direct, indirect, and both under attack.
const INDIRECT: [[Option<f64>; 4]; 7] = [
    [Some(49.0), Some(87.0), Some(1048.0), Some(87.0)],
    [Some(6.1), Some(11.0), Some(109.0), Some(11.0)],
    [Some(41.0), Some(71.0), Some(658.0), Some(71.0)],
    [Some(92.0), Some(158.0), None, Some(158.0)],
    [Some(4.2), Some(7.5), Some(67.0), Some(7.5)],
    [Some(23.0), Some(39.0), Some(345.0), Some(39.0)],
    [Some(52.0), Some(88.0), Some(871.0), Some(88.0)],
];

/// Table 3.4: numbers of name servers; nsupdate and nsreroute in s, and both under attack.
const REROUTE: [(u32, [Option<f64>; 4]); 2] =
    [(1, [Some(4.2), Some(7.1), Some(50.0), Some(7.1)]), (10, [Some(21.1), Some(27.4), None, Some(27.4)])];

/// Tables 3.5 and 3.6: how long a lookup takes by the enhanced resolver and by the original one, and the same of the name
/// server, in ms.
const RESOLVER: [f64; 2] = [0.7, 0.6];
const SERVER: [f64; 2] = [1.2, 1.1];

/// Table 3.7: numbers of tunnels; ping in ms, and HTTP of 100 kB in s.
const TUNNELS: [(u32, [f64; 2]); 4] =
    [(1, [87.0, 11.0]), (10, [87.0, 11.0]), (50, [87.0, 11.0]), (100, [87.0, 11.0])];

/// Table 3.8: how long it takes to delete a route and to add one, in s.
const ROUTE_CHANGE: [f64; 2] = [2.8, 2.8];

/// Tables 4.6a, b and c: for each number of paths, what UDP gets in Mb/s, if all paths have 2 Mb/s, or one has 200 kb/s,
/// or 20 kb/s.
const UDP: [(u32, [f64; 3]); 5] = [
    (1, [2.0, 0.2, 0.02]),
    (2, [4.0, 2.2, 2.02]),
    (3, [6.0, 4.2, 4.02]),
    (4, [8.0, 6.2, 6.01]),
    (10, [20.0, 18.1, 18.01]),
];

/// Table 4.4: numbers of paths, and how long it takes to set them up, in s.
const SET_UP: [(u32, f64); 4] = [(2, 10.3), (5, 12.1), (10, 14.8), (50, 20.4)];

/// Table 4.5: how long it takes to detect a bad path, to delete it, and to add another, in s.
const BAD_PATH: [f64; 3] = [2.1, 5.8, 5.7];

/// Table 4.5: by how much that prolongs a flow, in percent: 252 s instead of 240 s.
const PROLONGED: f64 = 5.0;

/// Table 4.2: sender 1 over proxies 1 and 2, sender 2 over proxies 2 and 3, in Mb/s.
const FAIRNESS: [f64; 4] = [5.0, 2.49, 2.49, 5.0];

/// Table 4.3: sender 1 over proxies 1 and 2, senders 2 and 3 by TCP over proxy 2, in Mb/s.
const FRIENDLINESS: [f64; 4] = [6.0, 1.99, 1.99, 1.99];

/// Table 4.7: what each of two TCP flows gets before UDP starts, beside it, and beside it with rate control, in Mb/s.
const COMPETITION: [f64; 3] = [2.0, 0.1, 2.0];
