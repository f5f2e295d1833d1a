//! The tool `psmc`: what people do with PSMC, and the demonstrations of it.
//!
//! | module | what it has |
//! |---|---|
//! | [`cli`] | the command line |
//! | [`demo`] | `psmc demo` |
//! | `fetch` | `psmc fetch`: one file from several mirrors |
//! | [`topology`] | networks in files, for `psmc select` |

pub mod cli;
pub mod demo;
mod fetch;
pub mod topology;

pub(crate) use psmcd::error_chain;
