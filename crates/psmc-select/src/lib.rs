//! Which relays and paths to use: a network in, a selection out.
//!
//! | module or type | what it is |
//! |---|---|
//! | [`Draft`], [`Network`] | a graph of hosts, routers, relays and links: as written down, and checked |
//! | [`Pool`] | the paths that there are to choose from, one for each relay, and what they carry together |
//! | [`Problem`] | a pool, an [`Objective`] and [`Constraints`] |
//! | [`best`], [`exact`], [`local`], [`genetic`] | searches for the best [`Selection`] within a [`Budget`] |
//! | [`reselect()`] | what to change when measurements have changed |
//! | [`maximum_flow`], [`most_disjoint_paths`], [`widest_disjoint_paths`], [`fastest_disjoint_paths`] | paths through the whole network, relays or not |
//! | [`seed`] | the constructions of PSMC ch. V, to compare with |
//! | [`generate`] | networks by chance |
//!
//! Nothing here reads a file, a clock or chance: time is a [`Budget`], and chance a seed. All searches are functions of their
//! arguments on data that can be shared; whoever has threads gives each of them a size ([`exact_of_size`]) or a seed.
//!
//! `docs/SELECTION.md` says what each algorithm proves, and how it compares with the others.

#![forbid(unsafe_code)]

mod dice;
mod disjoint;
mod flow;
pub mod generate;
mod network;
mod path;
mod pool;
mod problem;
mod reselect;
mod search;
pub mod seed;
mod units;

pub use disjoint::{DisjointPaths, fastest_disjoint_paths, widest_disjoint_paths};
pub use flow::{Flow, maximum_flow, most_disjoint_paths};
pub use network::{
    Arc, ArcId, Draft, DraftLink, DraftNode, DraftRoute, Hop, LinkId, Network, NetworkError, Node, NodeId,
    Place, Trace, TraceError,
};
pub use path::{Disjointness, JointnessBy, Path, simple_paths};
pub use pool::{Candidate, Pool};
pub use problem::{Constraints, Objective, Problem, ProblemError, Score, Selection};
pub use reselect::{Hysteresis, Reselection, reselect};
pub use search::{Answer, Budget, Chromosomes, Genetic, Steps, best, exact, exact_of_size, genetic, local};
pub use units::{Bandwidth, Latency, Price, QuantityError};
