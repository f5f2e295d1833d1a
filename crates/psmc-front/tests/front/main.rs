//! The real front, between real clients and servers: curl, nginx, and raw sockets where both would be too polite.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod classes;
mod conformance;
mod faults;
mod groups;
mod harness;
mod https;
mod messages;
mod nginx;
mod smuggling;
mod upgrades;
mod upheaval;
