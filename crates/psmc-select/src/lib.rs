//! Which relays and paths to use: a network in, a selection out.
#![forbid(unsafe_code)]

mod dice;
pub mod generate;
mod network;
mod path;
mod pool;
mod problem;
mod route;
mod search;
mod units;

pub use network::{
    Arc, ArcId, Draft, DraftLink, DraftNode, DraftRoute, Hop, LinkId, Network, NetworkError, Node, NodeId,
    Place, Trace, TraceError,
};
pub use path::{Disjointness, JointnessBy, Path};
pub use pool::{Candidate, Pool};
pub use problem::{Constraints, Objective, Problem, ProblemError, Score, Selection};
pub use search::{Answer, Budget, Chromosomes, Genetic, Steps, best, exact, exact_of_size, genetic, local};
pub use units::{Bandwidth, Latency, Price, QuantityError};
