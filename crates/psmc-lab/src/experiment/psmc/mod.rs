//! The thesis on proxy-server-based multipath connections, chapter IV: what a tunnel over several paths carries.

mod buffers;
mod fairness;
mod figures;
mod latency;
mod life;
mod loss;
mod paths;
mod udp;
mod uneven;

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[
    paths::EXPERIMENTS,
    latency::EXPERIMENTS,
    uneven::EXPERIMENTS,
    buffers::EXPERIMENTS,
    loss::EXPERIMENTS,
    fairness::EXPERIMENTS,
    life::EXPERIMENTS,
    udp::EXPERIMENTS,
];
