//! `psmc-dns`: the authoritative name server, with alternate routes like any other records.
//!
//! | module | what it has |
//! |---|---|
//! | [`zone`] | the records of a zone: what it answers, how it changes, how it is signed |
//! | [`store`] | zones that change, in a database |
//! | [`server`] | the authoritative server around them |
//! | [`config`] | the TOML file of a server, and all its checks |
//! | [`daemon`] | the program, [`cli`] its command line, [`status`] what it tells about itself |
//!
//! `docs/DNS.md` says what the records are, to the bit, and how name servers are set up for them.

pub mod cli;
pub mod config;
pub mod daemon;
pub mod server;
pub mod status;
pub mod store;
pub mod zone;

pub(crate) use psmc_service::error_chain;
