//! The psmcd beside the guard: what it is told, and what it tells.

mod hand;
mod silent;
mod steps;
mod traffic;

pub use hand::Hand;

use std::collections::BTreeMap;

use crate::detect::Sample;
use crate::duty::Standing;

/// What psmcd says about itself.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Seen {
    /// How registrations fare, by the public keys of their relays.
    pub standing: BTreeMap<String, Standing>,
    /// The share of datagrams lost on direct paths; `None` if too few were sent to tell.
    pub direct_loss: Option<f64>,
    /// What arrives through relays.
    pub through_relays: Sample,
    /// Why psmcd cannot be asked, or does not do what it is told.
    pub trouble: Option<String>,
}
