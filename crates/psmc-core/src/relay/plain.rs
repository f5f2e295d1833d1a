//! Plain tunnels of IPv4 in IPv4 (RFC 2003): the relay as the router between two ends that know nothing of it but its
//! address, such as a kernel's tunnel device.
//!
//! ```text
//!   left end ══ outer: left → relay ══▶ relay ══ outer: relay → right ══▶ right end
//!               inner: a → b                     inner: a → b, one less to live
//! ```
//!
//! There is no key that ends could prove to have. So who they are, and which addresses are behind each, is
//! configured: a packet passes only from an end of a pair to the other, and only if its inner source is behind the one
//! and its inner destination behind the other. Nobody is reached otherwise, and nobody is feigned who is not behind
//! the end that sends. Where an end is can be left to a site that has a key: then it is wherever that site registers
//! from, and nowhere while it does not.

mod engine;
mod errors;
mod pair;
#[cfg(test)]
mod tests;

pub use engine::{Packets, PlainTunnels, PlainTunnelsConfig};
pub use pair::{PlainCounters, PlainEnd, PlainOuter, PlainPair, PlainStatus, PlainWay};
