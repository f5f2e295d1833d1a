//! The document on NetDraino, figures 9 to 11: what it is worth to drop upstream what an overloaded server would drop anyway, and how
//! the server's rate is divided. All in virtual time.
//!
//! | module | what it has |
//! |---|---|
//! | `network` | the seed's clients, servers and loads, and the most that can be had there |
//! | `gate` | an ingress that enforces rules |
//! | `literature` | the seed's four steps |
//! | `ours` | reports of what is offered, and max–min fair throttles |
//! | `run` | such a network in motion, and what is seen of it |
//! | `figures`, `shift` | the experiments |

mod figures;
mod gate;
mod literature;
mod network;
mod ours;
mod run;
mod shift;

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[figures::EXPERIMENTS, shift::EXPERIMENTS];
