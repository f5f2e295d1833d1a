//! The PSMC coordinator: decides which relays serve whom while a service is under attack.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`] | the TOML file of a coordinator, and all its checks |
//! | [`mitigation`] | the life of a mitigation, as state machines without clock and sockets |
//! | [`store`] | where state is kept: SQLite, or etcd |
//! | [`seat`] | who decides, where several coordinators share a state |
//! | [`engine`] | everything that happens, in one order: in, kept, answered, done |
//! | [`relay`], [`publish`], [`signal`] | connections to relays, name servers, and gateways and clients |
//! | [`http`], `suricata` | alerts of others |
//! | [`daemon`] | the program, [`cli`] its command line, [`status`] what it tells about itself |
//!
//! `docs/COORDINATOR.md` says how one is run.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod engine;
pub mod http;
pub mod local;
pub mod mitigation;
pub mod publish;
pub mod relay;
pub mod seat;
pub mod signal;
pub mod status;
pub mod store;
pub mod suricata;

use mitigation::Moment;

/// The time of the world.
#[must_use]
pub fn now() -> Moment {
    Moment(u64::try_from(psmc_service::clock::since_1970().as_millis()).unwrap_or(u64::MAX))
}

pub(crate) use psmc_service::error_chain;
