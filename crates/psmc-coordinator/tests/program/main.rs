//! The coordinator with everything around it that is real: relays, a name server, and the signal channel. What speaks on that
//! channel is the test itself, in the place of a guard and of clients.
//!
//! Needs root, for each test has a network namespace of its own, and fails without. What took how long is printed:
//! `cargo test -p psmc-coordinator --test program -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its hosts has failed")]

mod harness;
mod parts;

mod attack;
mod cluster;
mod continuity;
mod leases;
mod strangers;
