//! Real packets on emulated links, between namespaces. They need root.

mod bench;
mod captures;
mod changes;
mod effects;
mod hosts;

/// What a test without root says.
const NEEDS_ROOT: &str = "this test needs root, for it makes network namespaces";
