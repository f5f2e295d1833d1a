//! The PSMC daemon `psmcd` and its control tool `psmc`.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`] | the TOML file of a site, and all its checks |
//! | [`api`] | the control socket: messages, framing, both sides |
//! | [`cli`] | the tool `psmc`, and the arguments of `psmcd` |
//! | [`logging`] | what goes to standard error |
//! | [`daemon`] | the daemon |
//! | [`demo`] | `psmc demo` |

pub mod api;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod demo;
pub mod logging;
