//! The thesis on proxy-server-based multipath connections, chapter V: the selection of proxy servers. Nothing is sent; what
//! is measured is the time that a selection takes, and how good it is.

mod bed;
mod figures;
mod quality;
mod real;
mod time;

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[time::EXPERIMENTS, quality::EXPERIMENTS, real::EXPERIMENTS];
