//! What all programs of PSMC do alike.
//!
//! | module | what it has |
//! |---|---|
//! | [`cli`] | arguments and commands that all of them have, and how they fail |
//! | [`clock`] | the time of the world, and waits that grow |
//! | [`daemon`] | runtime, signals, the file that is read again |
//! | [`http`] | short answers by HTTP |
//! | [`counters!`] | numbers that only rise |
//! | [`logging`] | what goes to standard error |
//! | [`metrics`] | what Prometheus is told |
//! | [`name_servers`] | which name servers the machine asks |
//! | [`open_files`] | how many files it may have open |
//! | [`output`] | what goes to standard output |
//! | [`programs`] | where other programs are |
//! | [`units`] | quantities for people |
//! | [`socket`] | the local control socket: one protocol for all |
//! | [`supervisor`] | what systemd is told |

pub mod cli;
pub mod clock;
mod counters;
pub mod daemon;
pub mod http;
pub mod logging;
pub mod metrics;
pub mod name_servers;
pub mod open_files;
pub mod output;
pub mod programs;
pub mod socket;
pub mod supervisor;
pub mod units;

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

#[cfg(test)]
mod tests {
    use std::io;

    use super::*;

    #[derive(Debug, thiserror::Error)]
    enum Outer {
        #[error("cannot start")]
        Plain(#[source] io::Error),
        #[error("cannot start: {0}")]
        Repeating(#[source] io::Error),
    }

    #[test]
    fn causes_are_told_once() {
        let cause = || io::Error::other("no room");
        assert_eq!(error_chain(&Outer::Plain(cause())), "cannot start: no room");
        assert_eq!(error_chain(&Outer::Repeating(cause())), "cannot start: no room");
    }
}
