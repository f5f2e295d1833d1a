//! The document on monitoring and controlling QoS network domains, figures 8 to 11 and tables 1 and 2: what conditioners at the
//! edges of a network are worth, beside queues that know flows. All in virtual time but for `real`.
//!
//! | module | what it has |
//! |---|---|
//! | `network` | the seed's topologies, routers and their queues |
//! | `edge` | conditioners at edge routers |
//! | `run` | traffic over such a network, and what is seen of it |
//! | `bulk` | files: figures 9a and 9b, table 1 |
//! | `unresponsive`, `control` | flows that heed no drops, and who holds them down: figures 10 and 11 |
//! | `real` | the same figures with the daemons, and who must not be held down |
//! | `people` | who waits for each packet or page: Telnet, table 2 |

mod bulk;
mod control;
mod edge;
mod network;
mod people;
mod real;
mod run;
mod unresponsive;

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] =
    &[bulk::EXPERIMENTS, people::EXPERIMENTS, unresponsive::EXPERIMENTS];

/// Those that send real packets.
pub(super) const REAL_FAMILIES: &[&[Experiment]] = &[real::EXPERIMENTS];
