//! Real packets on emulated links, between namespaces. They need root.
#![expect(
    clippy::unwrap_used,
    reason = "a failed unwrap fails the test, and most functions here only serve one"
)]

mod bench;
mod captures;
mod changes;
mod effects;
mod hosts;

/// What a test without root says.
const NEEDS_ROOT: &str = "this test needs root, for it makes network namespaces";
