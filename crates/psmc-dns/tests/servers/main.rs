//! With the real name servers: BIND's named and Knot's knotd, each test in a network namespace of its own.
//!
//! Needs root, and the Debian packages bind9, bind9-dnsutils, knot, knot-dnsutils and python3-dnspython; what is missing is a failure.

#![expect(clippy::unwrap_used, reason = "what fails here is a failed test")]

mod burst;
mod differential;
mod harness;
mod reload;
mod reroute;
mod resolve;
mod resolving;
mod routes;
mod serving;
mod storm;
mod third;
mod told;
mod transfers;
mod trouble;
