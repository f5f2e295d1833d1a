//! The real guard in network namespaces: real floods, a coordinator and a psmcd that only play their parts.
//!
//! Needs root, and `tc` and `nft`.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its world has failed")]

mod flood;
mod operation;
mod parts;
mod world;
