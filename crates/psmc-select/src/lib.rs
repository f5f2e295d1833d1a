//! Which relays and paths to use: a network in, a selection out.
#![forbid(unsafe_code)]

mod dice;
mod disjoint;
mod flow;
pub mod generate;
mod network;
mod path;
mod pool;
mod problem;
mod route;
mod search;
pub mod seed;
mod units;

pub use disjoint::{DisjointPaths, fastest_disjoint_paths, widest_disjoint_paths};
pub use flow::{Flow, maximum_flow, most_disjoint_paths};
pub use network::{
    Arc, ArcId, Draft, DraftLink, DraftNode, DraftRoute, Hop, LinkId, Network, NetworkError, Node, NodeId,
    Place, Trace, TraceError,
};
pub use path::{Disjointness, JointnessBy, Path};
pub use pool::{Candidate, Pool};
pub use problem::{Constraints, Objective, Problem, ProblemError, Score, Selection};
pub use search::{Answer, Budget, Chromosomes, Genetic, Steps, best, exact, exact_of_size, genetic, local};
pub use units::{Bandwidth, Latency, Price, QuantityError};
