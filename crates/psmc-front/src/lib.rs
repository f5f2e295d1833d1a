//! A reverse proxy that keeps promises between classes of users.
//!
//! It stands in front of any HTTP server. When that is full, requests wait here, by class: weighted queues before an adaptive
//! limit of what a server has at a time (`psmc-shares`), so that response times of classes keep given ratios, and what would
//! wait in vain is refused at once.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`], [`cli`] | the TOML file with all its checks, and the command line |
//! | [`class`] | which class a request is of |
//! | [`peers`] | whose addresses are those of which peer of psmcd's |
//! | [`preface`] | the PROXY protocol |
//! | [`headers`] | what a proxy takes out of messages and puts in |
//! | `gate` | who waits, and who may go on to which server |
//! | `body` | bodies on their way, and what ends with them |
//! | `upstream` | servers: connections to them, and their health |
//! | `proxy` | a request from its head to the answer |
//! | `listener`, `stream` | connections of clients |
//! | `plan` | what classes would see, from what comes |
//! | [`daemon`], [`status`] | the program, and what it tells about itself |
//!
//! `docs/FRONT.md` says how one is run.

mod body;
pub mod class;
pub mod cli;
pub mod config;
mod counters;
pub mod daemon;
mod gate;
pub mod headers;
mod listener;
pub mod peers;
mod plan;
pub mod preface;
mod proxy;
pub mod status;
mod stream;
mod upstream;

pub(crate) use psmc_service::error_chain;
