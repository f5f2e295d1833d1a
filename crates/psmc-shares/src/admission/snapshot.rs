//! What is known of classes and servers, for people and metrics.

use std::time::Duration;

use crate::ratios::State;
use crate::window::Means;

/// What is known at a time.
#[derive(Clone, Debug, PartialEq)]
pub struct Snapshot {
    /// Of each class, by its place.
    pub classes: Vec<ClassSnapshot>,
    /// Of each server, by its place.
    pub servers: Vec<ServerSnapshot>,
    /// How each class but the first stands beside the first of those that it competes with.
    pub ratios: Vec<State>,
    /// Of each class, the first of those that it competes with.
    pub firsts: Vec<usize>,
}

/// What is known of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct ClassSnapshot {
    /// What has happened since the start, or since classes were last added or removed.
    pub counters: Counters,
    /// How many wait.
    pub waiting: usize,
    /// How many have a place at a server.
    pub in_service: u64,
    /// How long one that comes now would wait.
    pub expected_wait: Duration,
    /// Of the last sampling period in which enough requests were answered.
    pub last: Option<Means>,
}

/// Requests of a class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// All that have come.
    pub arrived: u64,
    /// Those that were given a place at a server; one that is tried again counts again.
    pub admitted: u64,
    /// Those that were answered.
    pub answered: u64,
    /// Those that a server has failed.
    pub failed: u64,
    /// Those whose client went away while they had a place.
    pub abandoned: u64,
    /// Those whose client went away while they waited.
    pub cancelled: u64,
    /// Those that were refused at once.
    pub refused: u64,
    /// Those that were refused after they had waited.
    pub expired: u64,
}

/// What is known of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServerSnapshot {
    /// How many requests it has.
    pub in_flight: u32,
    /// How many it may have.
    pub limit: u32,
    /// Whether it may have more at all.
    pub is_available: bool,
    /// The median of what it takes for a request without a queue, if its limit is measured and that is known.
    pub base_service: Option<Duration>,
}
