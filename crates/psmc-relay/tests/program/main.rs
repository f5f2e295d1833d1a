//! The real program `psmc-relay`, on loopback: what sites may do there, and what strangers may not.
//!
//! Needs no rights but for `tunnels` and `plain`.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its relay has failed")]

mod control;
mod floods;
mod forwarding;
mod harness;
mod plain;
mod shedding;
mod tunnels;
