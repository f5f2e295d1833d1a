//! The real program `psmc-relay`, on loopback: what sites may do there, and what strangers may not.
//!
//! Needs no rights but for `tunnels` and `plain`.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its relay has failed")]

mod chains;
mod control;
mod crowds;
mod floods;
mod forwarding;
mod gateways;
mod harness;
mod plain;
mod tunnels;
