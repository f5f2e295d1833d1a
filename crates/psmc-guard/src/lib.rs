//! The guard of a gateway.
//!
//! It watches what arrives for services, finds floods within a second, tells a coordinator, and has the psmcd beside it
//! do what the coordinator says: register at relays, and let clients in.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`], [`cli`] | the TOML file with all its checks, and the command line |
//! | [`observe`], [`watch`] | counting what arrives, in a thread of its own |
//! | [`detect`] | telling attacks from what is usual: pure state machines |
//! | [`duty`] | what a coordinator has asked for: a pure state machine |
//! | [`engine`] | both together: what is said to the coordinator, and what is wanted of psmcd |
//! | [`gateway`], [`defence`] | moving psmcd, and the filter of the hidden lines |
//! | [`store`], [`status`] | what survives a restart, and what the guard tells about itself |
//! | [`guard`] | the program |
//!
//! `docs/GUARD.md` says how one is run.

pub mod cli;
pub mod config;
pub mod defence;
pub mod detect;
pub mod duty;
pub mod engine;
pub mod gateway;
pub mod guard;
pub mod observe;
pub mod status;
pub mod store;
pub mod watch;

pub(crate) use psmc_service::error_chain;
