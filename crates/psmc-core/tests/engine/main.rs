//! Engines and the links between them, in virtual time.
//!
//! One program: each of several would be checked and linked by itself, with a world of its own.

mod batches;
mod conditioning;
mod counts;
mod ecn;
mod evil_relays;
mod flows;
mod gateways;
mod hostile;
mod keys;
mod measurements;
mod mtu;
mod paths;
mod pins;
mod queueing;
mod random_operations;
mod reconfigure;
mod rekey;
mod relays;
mod repair;
mod schedulers;
mod seen;
mod shedding;
mod split;
mod streams;
mod tap;
mod throughput;
mod tiers;
mod tunnel;
mod undelivered;
mod unresponsive;
mod ways;
mod world;
