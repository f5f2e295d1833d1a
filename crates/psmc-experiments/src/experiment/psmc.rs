//! The thesis on proxy-server-based multipath connections: how an indirect route is set up and what it is worth
//! (chapter III), what a tunnel
//! over several paths carries (chapter IV), and files from several mirrors (chapter V).

mod buffers;
mod fairness;
mod figures;
mod latency;
mod life;
mod loss;
mod mirrors;
mod paths;
mod relayed;
mod scold;
mod udp;
mod uneven;

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[
    scold::EXPERIMENTS,
    relayed::EXPERIMENTS,
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
