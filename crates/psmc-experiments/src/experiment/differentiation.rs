//! The document on PSMC, figures 6.2 to 6.8, and what it does not show: ratios of response times between classes of requests that one
//! server, or several, cannot all answer at once. In virtual time, but for `real`.
//!
//! | module | what it has |
//! |---|---|
//! | `load` | what comes, how it is played, and what is seen of it |
//! | `literature` | the seed's front, which divides processes among classes |
//! | `ours` | our front |
//! | `figures`, `front`, `heavy` | the experiments: the seed's, and others |
//! | `real`, `cost` | the program, before real servers, in real time |

mod cost;
mod figures;
mod front;
mod heavy;
mod literature;
mod load;
mod ours;
mod real;

use super::Experiment;

pub(super) const FAMILIES: &[&[Experiment]] = &[figures::EXPERIMENTS, front::EXPERIMENTS, heavy::EXPERIMENTS];

pub(super) const REAL_FAMILIES: &[&[Experiment]] = &[real::EXPERIMENTS, cost::EXPERIMENTS];
