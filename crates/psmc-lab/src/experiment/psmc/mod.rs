//! The thesis on proxy-server-based multipath connections: what a tunnel over several paths carries (chapter IV), and files
//! from several mirrors (chapter V).

mod buffers;
mod fairness;
mod figures;
mod latency;
mod life;
mod loss;
mod mirrors;
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
    mirrors::EXPERIMENTS,
];
