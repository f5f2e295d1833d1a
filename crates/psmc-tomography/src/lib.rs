//! Network tomography: where a path loses or delays packets, told from what its ends and the relays between them observe.
//!
//! | module | from | tells |
//! |---|---|---|
//! | [`counted`] | packets that each witness counted by colour (RFC 9341) | the loss of every segment and node of a chain, exactly |
//! | [`delay`] | when each witness saw a packet, by clocks that need not agree | the delay of every segment above its minimum |
//! | [`stripes`] | which probes of a stripe arrived at which receiver | the loss of every segment of a tree, inferred |
//! | [`shared`] | loss or delay of paths that share segments | every segment that the paths tell apart, and the smallest sums of the others |
//! | [`blame`] | counts and estimates, and what was promised | which segments break the promise, and how sure that is |
//! | [`sla`] | delays, losses and bytes of a target as they come | whether what was promised is kept, and since when |
//! | [`aggregates`] | destinations, ingresses and bytes of flows | the longest prefixes that carry more than a share |
//! | [`survey`] | samples of what crosses a segment, and of what comes back | which aggregates fill it, and whether one looks like an attack |
//! | [`seed`] | as the QoS document has it | its averages, equations 2 and 9–13, and when it polls for more |
//!
//! Every value is an [`Estimate`] with its 95 % confidence interval, and "cannot be told" is an [`Answer`] too, which says why.
//!
//! ```
//! use psmc_tomography::blame::{Promise, at_fault};
//! use psmc_tomography::counted::{Tally, losses};
//!
//! // A site, two relays and a site have counted the packets of a second: which segment does not keep the promise of 0.5 %?
//! let tallies = [100, 100, 94, 94].map(|packets| Some(Tally { received: packets, handed_on: packets }));
//! let promise = Promise { share: 0.005, error: 1e-4 };
//! let verdicts: Vec<_> = losses(&tallies).segments.into_iter().map(|count| promise.judge(count)).collect();
//! // The one between the relays.
//! assert_eq!(at_fault(&verdicts), [1]);
//! ```
//!
//! Nothing here reads a clock, a file or chance: times are arguments, and so are observations.

#![forbid(unsafe_code)]

pub mod aggregates;
pub mod blame;
pub mod counted;
pub mod delay;
mod estimate;
pub mod interval;
pub mod seed;
pub mod shared;
pub mod sla;
pub mod stripes;
pub mod survey;

pub use estimate::{Answer, Estimate, Unknown};
