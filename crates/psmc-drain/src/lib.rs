//! Load shedding upstream: what an overloaded server would drop anyway is dropped where it enters the network.
//!
//! A server accepts so much of each class of traffic. Nodes upstream (routers, relays, sites) say how much of it they are offered and
//! what they let pass, and are told what each may let pass, so that together it is what the server accepts. The idea is
//! NetDraino's (Lee and Shin 2007, "Saving network resources via selective packet drops", the seed of this crate).
//!
//! | module | what it has |
//! |---|---|
//! | [`split`] | a rate divided: max–min fair by what is offered, and the seed's way, by shares of what arrives |
//! | [`shedder`] | the server's side: reports of nodes in, rules with a lifetime out |
//! | [`held`] | a node's side: the rules that it has, which end by themselves, step by step |
//! | [`finder`] | the rate that a server bears, found from a sign that it is overloaded |
//! | [`choice`] | which rules are worth having where only so many are allowed, and prefixes merged |
//! | [`seed`] | the seed's samples: shares of traffic told from packets that carry the address of a congested router |
//!
//! Amounts are bytes, packets or requests, as the caller likes, but the same for all of a class; rates are amounts per second.
//! Times are durations since an epoch that the caller chooses; nothing here reads a clock, a file or chance.
//!
//! ```
//! use std::time::Duration;
//!
//! use psmc_drain::shedder::{Config, Report, Shedder};
//! use psmc_drain::{ClassId, NodeId};
//!
//! let class = ClassId(1);
//! let mut shedder = Shedder::new(Config::default());
//! // The server accepts 400 requests a second.
//! shedder.accept(class, 400.0).unwrap();
//! // In the last second one node was offered 1000 of them, another one 100, and both let all pass.
//! let (now, second) = (Duration::from_secs(1), Duration::from_secs(1));
//! for (node, offered) in [(NodeId(1), 1000.0), (NodeId(2), 100.0)] {
//!     let report = Report { until: now, interval: second, offered, passed: offered };
//!     shedder.report(node, class, report, now).unwrap();
//! }
//! let rates: Vec<_> = shedder.rules(now).iter().map(|rule| rule.rate.round()).collect();
//! // The second node may have more than it uses, which is not much if others want it.
//! assert_eq!(rates, [300.0, 120.0]);
//! ```

#![forbid(unsafe_code)]

pub mod choice;
pub mod finder;
pub mod held;
pub mod seed;
pub mod shedder;
pub mod split;

/// A class of traffic: a number for which the caller has a name, such as a destination with its port and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ClassId(pub u32);

/// A node upstream of a server that counts and drops traffic: a number for which the caller has a name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NodeId(pub u32);

/// The highest rate that is believed, per second: a thousand times the bytes of the fastest links there are (1.6 Tb/s).
pub const MAX_RATE: f64 = 2e14;

/// Whether a number is a rate: not negative, and no more than [`MAX_RATE`].
#[must_use]
pub fn is_rate(rate: f64) -> bool {
    // NaN is in no range.
    (0.0..=MAX_RATE).contains(&rate)
}
