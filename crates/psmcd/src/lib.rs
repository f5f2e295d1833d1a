//! The PSMC daemon `psmcd`.
//!
//! | module | what it has |
//! |---|---|
//! | [`config`] | the TOML file of a site, and all its checks |
//! | [`api`] | the control socket: messages, framing, both sides |
//! | [`logging`] | what goes to standard error |
//! | [`daemon`] | the daemon |
//! | [`program`] | its command line |

pub mod api;
pub mod config;
pub mod daemon;
pub mod logging;
pub mod program;

/// An error with all its causes, in one line.
#[must_use]
pub fn error_chain(error: &dyn std::error::Error) -> String {
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
