//! The document on routers, chapter 2: what pulses do to a flow of TCP, by two analyses and in simulated devices. All in virtual
//! time; there is no generator of pulses anywhere else.
//!
//! | module | what it has |
//! |---|---|
//! | `network` | the seed's dumb-bell, its routers, and a run of it |
//! | `figures` | the experiments |

mod figures;
mod network;

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[figures::EXPERIMENTS];
