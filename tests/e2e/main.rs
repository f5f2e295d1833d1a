//! The real programs on two hosts of their own: network namespaces, joined by one to three links.
//!
//! Needs root, iproute2, nftables, iperf3, ping, curl, dig, setpriv and promtool, and fails without them. One test runs at a time, because each
//! measures, and the machine may be small. A test that fails shows the daemons' logs; `PSMC_TEST_LOG=debug` sets their level.
//! What is measured is printed: `cargo test --test e2e -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its hosts has failed")]

mod harness;

mod chain;
mod cli;
mod datagrams;
mod enrol;
mod faults;
mod gateways;
mod hosts;
mod learned;
mod life;
mod metrics;
mod mtu;
mod names;
mod network;
mod paths;
mod queueing;
mod relays;
mod reload;
mod repair;
mod roaming;
mod stalls;
mod strangers;
mod traffic;
mod tunnels;
mod upheavals;
mod why;
