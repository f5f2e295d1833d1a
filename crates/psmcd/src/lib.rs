//! The PSMC daemon `psmcd`.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`] | the TOML file of a site, and all its checks |
//! | [`machine`] | what is in the way of a configuration on this machine |
//! | [`daemon`] | the daemon |
//! | [`program`] | its command line |

pub mod config;
pub mod daemon;
pub mod machine;
pub mod program;

pub use psmc_service::error_chain;
