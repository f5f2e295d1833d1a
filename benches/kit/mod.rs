//! What the benchmarks share: programs in namespaces, and figures of several runs.

pub(crate) mod programs;
pub(crate) mod spread;
