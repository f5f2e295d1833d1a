//! The real programs on two hosts of their own: network namespaces, joined by one to three links.
//!
//! Needs root, iproute2, nftables, iperf3, ping, curl, dig, setpriv, tmux, promtool, srt-live-transmit and chromium, and fails without them. Several tests run at a time, but for
//! those that measure a rate: each of them has the machine alone. A test that fails shows the daemons' logs; `PSMC_TEST_LOG=debug` sets their level.
//! What is measured is printed: `cargo test --test e2e -- --nocapture`.

#![expect(clippy::unwrap_used, reason = "a test that cannot prepare its hosts has failed")]

mod harness;

mod chain;
mod cli;
mod conditioning;
mod datagrams;
mod doctor;
mod enrol;
mod faults;
mod floods;
mod gateways;
mod guides;
mod holes;
mod hosts;
mod internet;
mod ipfix;
mod learned;
mod life;
mod metrics;
mod mtu;
mod names;
mod network;
mod paths;
mod portals;
mod ports;
mod presets;
mod probes;
mod queueing;
mod quotas;
mod reflectors;
mod rekey;
mod relays;
mod reload;
mod repair;
mod roaming;
mod secrets;
mod segments;
mod shared;
mod sla;
mod split;
mod stalls;
mod stamp;
mod standby;
mod strangers;
mod traffic;
mod transport;
mod tunnels;
mod unresponsive;
mod upheavals;
mod watch;
mod ways;
mod web;
mod why;
