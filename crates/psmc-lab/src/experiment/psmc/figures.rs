//! The figures as the thesis prints them.

/// Tables 4.6a, b and c: for each number of paths, what UDP gets in Mb/s, if all paths have 2 Mb/s, or one has 200 kb/s,
/// or 20 kb/s.
pub(super) const UDP: [(u32, [f64; 3]); 5] = [
    (1, [2.0, 0.2, 0.02]),
    (2, [4.0, 2.2, 2.02]),
    (3, [6.0, 4.2, 4.02]),
    (4, [8.0, 6.2, 6.01]),
    (10, [20.0, 18.1, 18.01]),
];

/// Table 4.4: numbers of paths, and how long it takes to set them up, in s.
pub(super) const SET_UP: [(u32, f64); 4] = [(2, 10.3), (5, 12.1), (10, 14.8), (50, 20.4)];

/// Table 4.5: how long it takes to detect a bad path, to delete it, and to add another, in s.
pub(super) const BAD_PATH: [f64; 3] = [2.1, 5.8, 5.7];

/// Table 4.5: by how much that prolongs a flow, in percent: 252 s instead of 240 s.
pub(super) const PROLONGED: f64 = 5.0;

/// Table 4.2: sender 1 over proxies 1 and 2, sender 2 over proxies 2 and 3, in Mb/s.
pub(super) const FAIRNESS: [f64; 4] = [5.0, 2.49, 2.49, 5.0];

/// Table 4.3: sender 1 over proxies 1 and 2, senders 2 and 3 by TCP over proxy 2, in Mb/s.
pub(super) const FRIENDLINESS: [f64; 4] = [6.0, 1.99, 1.99, 1.99];

/// Table 4.7: what each of two TCP flows gets before UDP starts, beside it, and beside it with rate control, in Mb/s.
pub(super) const COMPETITION: [f64; 3] = [2.0, 0.1, 2.0];
