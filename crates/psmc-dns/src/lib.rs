//! Names that keep working: alternate routes to a service, in DNS.
//!
//! | module | what it has |
//! |---|---|
//! | [`routes`] | the set of relays through which a service is reached: signed, and as records |
//! | [`update`] | how routes get onto name servers: dynamic updates with TSIG, to many servers at once |
//!
//! `docs/DNS.md` says what the records are, to the bit, and how name servers are set up for them.

pub mod routes;
pub mod update;

/// An error with all its causes, in one line.
pub(crate) fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}
