//! Dynamic updates (RFC 2136) with TSIG (RFC 8945): how alternate routes get onto name servers.
//!
//! | module | what it has |
//! |---|---|
//! | [`TsigKey`] | the secret that a server knows its updaters by |
//! | [`Change`] | which records of a service are replaced by which |
//! | [`run()`], [`run_all`] | the change, or several, on many servers at once, with retries, and a [`Report`] of how it went |
//! | [`published`] | what a server has of a service |

mod change;
mod error;
mod exchange;
mod key;
mod run;
mod server;

pub use change::{Change, Scope};
pub use error::UpdateError;
pub use key::{TsigKey, TsigKeyError};
pub use run::{Mode, Patience, Report, ServerReport, Target, published, run, run_all};
pub use server::{Server, ServerError};
