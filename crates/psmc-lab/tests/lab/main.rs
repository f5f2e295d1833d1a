//! What the lab needs no privileges for, and how exact it is: files, simulations, the command line.

#![expect(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod accuracy;
mod check;
mod documentation;
mod networks;
mod sim;
