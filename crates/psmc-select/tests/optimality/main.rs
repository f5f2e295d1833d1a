//! What is claimed to be optimal, beside brute force.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its network has failed")]

mod disjoint;
mod networks;
mod packing;
mod reselection;
mod selection;
