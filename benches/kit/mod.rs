//! What the benchmarks share: programs in namespaces, figures of several runs, and CPU time.

pub(crate) mod programs;
pub(crate) mod spread;
pub(crate) mod usage;
