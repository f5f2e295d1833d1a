//! The tool `psmc`: what people do with PSMC.
//!
//! | module | what it has |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`topology`] | networks in files, for `psmc select` |

pub mod cli;
pub mod topology;

pub(crate) use psmc_service::error_chain;
