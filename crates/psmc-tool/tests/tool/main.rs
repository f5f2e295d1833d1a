//! `psmc` as a program: what it prints, what it asks daemons, and the programs that it starts.

#![expect(clippy::unwrap_used, reason = "what cannot be prepared, or fails here, is a failed test")]

mod check;
mod control;
mod other;
mod reroute;
mod resolve;
mod select;
