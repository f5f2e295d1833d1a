//! The PSMC daemon `psmcd`.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`] | the TOML file of a site, and all its checks |
//! | [`machine`] | what is in the way of a configuration on this machine |
//! | [`enrolment`] | how a site becomes a peer by an invitation |
//! | [`quota`] | how many bytes a link may carry, and what becomes of it then |
//! | [`speedtest`] | how fast the tunnel is |
//! | [`daemon`] | the daemon |
//! | [`program`] | its command line |

pub mod config;
pub mod daemon;
pub mod enrolment;
pub mod machine;
pub mod program;
pub mod quota;
pub mod speedtest;

pub use psmc_service::error_chain;
