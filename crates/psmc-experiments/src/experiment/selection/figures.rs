//! The figures as the thesis prints them.

/// Figure 5.7 says sizes so: 20(10) are 20 nodes and 10 proxy servers besides. The last is ours.
pub(super) const SIZES: [(usize, usize); 6] =
    [(20, 10), (50, 10), (100, 10), (200, 20), (500, 50), (10_000, 500)];

/// Figure 5.8: the least of what 25 runs of the genetic algorithms reach, in percent of the best of all runs.
pub(super) const GENETIC_LEAST: f64 = 80.0;

/// Figure 5.8: and of the greedy algorithm.
pub(super) const GREEDY_LEAST: f64 = 60.0;

/// Table 5.1: genetic with fixed and with variable length, greedy; in ms.
pub(super) const REAL_TIMES_MS: [f64; 3] = [7100.0, 7200.0, 3100.0];

/// Table 5.1: what each of them reaches, in percent of the optimum.
pub(super) const REAL_RESULT: f64 = 100.0;
