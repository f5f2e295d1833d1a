//! HTTP: alerts in, metrics out.

mod hook;
mod metrics;

pub(crate) use hook::{HOOK, Hook};
pub(crate) use metrics::metrics;
