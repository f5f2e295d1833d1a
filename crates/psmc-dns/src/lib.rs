//! Names that keep working: alternate routes to a service, in DNS.
//!
//! | module | what it has |
//! |---|---|
//! | [`routes`] | the set of relays through which a service is reached: signed, and as records |
//! | [`update`] | how routes get onto name servers: dynamic updates with TSIG, to many servers at once |
//! | [`zone`] | the records of a zone: what it answers, how it changes, how it is signed |
//! | [`wire`] | messages and records as they travel, with whatever is in them |
//! | [`store`] | zones that change, in a database |
//! | [`server`] | the authoritative server around them |
//! | [`resolver`] | the client's side: answers for services as soon as they are reached |
//! | [`config`] | the TOML file of a server, and all its checks |
//! | [`daemon`] | the program, [`cli`] its command line, [`status`] what it tells about itself |
//!
//! `docs/DNS.md` says what the records are, to the bit, and how name servers are set up for them.

pub mod cli;
pub mod config;
mod counters;
pub mod daemon;
pub mod resolver;
pub mod routes;
pub mod server;
pub mod status;
pub mod store;
pub mod update;
pub mod wire;
pub mod zone;

pub(crate) use psmc_service::error_chain;
