//! The tool `psmc`: what people do with PSMC, and the demonstrations of it.
//!
//! | module | what it has |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`demo`] | `psmc demo` |
//! | [`topology`] | networks in files, for `psmc select` |

pub mod cli;
pub mod demo;
pub mod topology;

pub(crate) use psmc_service::error_chain;
