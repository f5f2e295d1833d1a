//! The figures as the thesis prints them, in kB/s.

/// To what the connections, or each of the nodes, are limited.
pub(super) const RATES: [u32; 7] = [20, 50, 100, 150, 200, 250, 500];

/// Table 4.4: without a tunnel.
pub(super) const DIRECT: [f64; 7] = [19.16, 47.89, 95.68, 143.57, 191.1, 238.93, 475.91];

/// Table 4.6: through a tunnel.
pub(super) const TUNNEL: [f64; 7] = [19.18, 47.91, 95.84, 148.8, 191.5, 239.81, 477.58];

/// A row for each number of nodes, from 1 to 5.
pub(super) type Nodes = [[f64; RATES.len()]; 5];

/// Table 4.8: over nodes, without a buffer.
pub(super) const UNBUFFERED: Nodes = [
    [18.59, 18.94, 65.78, 100.45, 124.91, 98.13, 156.43],
    [34.52, 75.72, 160.09, 215.88, 284.61, 342.22, 823.66],
    [52.62, 132.81, 239.66, 339.72, 553.93, 507.35, 1145.6],
    [71.8, 169.92, 372.87, 557.24, 539.76, 932.85, 1861.99],
    [90.27, 235.85, 378.31, 700.82, 943.65, 1181.53, 2355.65],
];

/// Table 4.10: over nodes, with a buffer.
pub(super) const BUFFERED: Nodes = [
    [18.59, 19.29, 65.75, 105.93, 124.91, 110.03, 124.86],
    [34.25, 76.65, 114.26, 122.87, 150.46, 276.04, 344.46],
    [53.6, 129.88, 209.03, 365.87, 371.56, 548.52, 976.49],
    [70.97, 167.49, 305.79, 427.14, 733.86, 917.5, 1831.78],
    [89.35, 233.55, 466.35, 513.21, 929.92, 1162.14, 2325.29],
];

/// Table 4.2: with all that the network of 100 Mb/s carries, without a tunnel.
pub(super) const BASELINE: f64 = 11228.4;

/// Table 4.2: over 1 to 5 nodes, without a buffer and with it.
pub(super) const BASELINE_NODES: [[f64; 5]; 2] =
    [[8645.98, 11001.57, 10010.8, 10748.66, 10478.11], [9875.86, 10206.51, 9699.83, 9996.66, 11049.27]];
