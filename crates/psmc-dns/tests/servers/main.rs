//! With the real name servers: BIND's named and Knot's knotd, each test in a network namespace of its own.
//!
//! Needs root, and the Debian packages bind9, bind9-dnsutils, knot and knot-dnsutils; what is missing is a failure.

#![expect(clippy::unwrap_used, reason = "what fails here is a failed test")]

mod harness;
mod reroute;
mod resolve;
mod resolving;
mod routes;
mod serving;
mod told;
mod trouble;
