//! The PSMC relay.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`] | the TOML file of a relay, and all its checks |
//! | [`cli`] | the command line |
//! | [`relay`] | the program: a control side, and workers that move datagrams |
//! | [`status`] | what it tells about itself: the local socket, and metrics |
//!
//! `docs/PROTOCOL.md` section 14 says what goes over the wire, `docs/RELAY.md` how one is run.

pub mod cli;
pub mod config;
mod control;
pub mod relay;
pub mod status;
mod worker;

pub(crate) use psmc_service::error_chain;
