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
//! | `fetch` | `psmc fetch`: one file from several mirrors |
//! | [`topology`] | networks in files, for `psmc select` |

pub mod api;
pub mod cli;
pub mod config;
pub mod daemon;
pub mod demo;
mod fetch;
pub mod logging;
pub mod topology;

/// An error with all its causes, in one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        // Some errors repeat their cause in their own words.
        if !text.ends_with(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}
