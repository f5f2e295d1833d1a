//! What can be wrong with a network.

use std::fmt;

use crate::QuantityError;

/// Why a draft is no network.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum NetworkError {
    /// Two nodes have one name.
    #[error("two nodes are called {0:?}; rename one, or remove it")]
    DuplicateNode(String),
    /// A node without a name.
    #[error("a node has no name; give it one")]
    NamelessNode,
    /// The source or the destination is neither a node nor at a link.
    #[error("the {what} {name:?} is neither a node nor the end of a link; add it, or correct the name")]
    UnknownEnd {
        /// `source` or `destination`.
        what: &'static str,
        /// What it should be called.
        name: String,
    },
    /// Paths would have no length.
    #[error("{0:?} is both source and destination; choose two nodes")]
    SameEnds(String),
    /// A relay has to lie between the ends.
    #[error("the relay {0:?} is also the {1}; remove one of the two roles")]
    RelayIsEnd(String, &'static str),
    /// A link joins a node with itself.
    #[error("a link joins {0:?} with itself; remove it")]
    Loop(String),
    /// A number that is none.
    #[error("the {what} of {place} {cause}")]
    Quantity {
        /// Which number.
        what: &'static str,
        /// Whose number.
        place: Place,
        /// What is wrong with it.
        cause: QuantityError,
    },
    /// A measured route uses a link that is not there.
    #[error(
        "a route goes from {from:?} to {to:?}, but no link that is up does; add the link or correct the route"
    )]
    BrokenRoute {
        /// The hop before.
        from: String,
        /// The hop after.
        to: String,
    },
    /// A measured route has a single node or none.
    #[error("a route has fewer than two nodes; it needs both of its ends")]
    ShortRoute,
    /// More than the numbers of nodes and links can count.
    #[error("a network has at most {MAX_SIZE} nodes and as many links; this one has {0} nodes and {1} links")]
    TooLarge(usize, usize),
}

/// What a number belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A node.
    Node(String),
    /// A link.
    Link(String, String),
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Node(name) => write!(f, "node {name:?}"),
            Self::Link(from, to) => write!(f, "the link from {from:?} to {to:?}"),
        }
    }
}

/// Nodes, and links, because sums of the bandwidths and latencies of so many fit into 64 bits.
pub(super) const MAX_SIZE: usize = 4_000_000;
