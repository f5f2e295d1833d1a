//! Finding attacks in what arrives: state machines without clock and I/O.
//!
//! A [`ServiceDetector`] is given a [`Sample`] ten times a second. For each [`Signal`] it learns what is usual ([`Usual`]),
//! and a [`Trigger`] tells whether there is more than that for long enough.

mod attack;
mod sample;
#[cfg(test)]
mod series;
mod trigger;
mod usual;

pub use attack::{Attack, Change, ServiceDetector};
pub use sample::{Sample, Signal};
pub use trigger::{Limit, Trigger};
pub use usual::Usual;

/// How attacks are told from what is usual.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How many times the highest that is usual is an attack. More than two, so that twice the visitors are none.
    pub factor: f64,
    /// How long a service is watched before anything that is learned counts.
    pub learning: std::time::Duration,
    /// How long it must be calm before an attack is over.
    pub calm: std::time::Duration,
    /// Limits that the configuration fixes: these are not learned.
    pub fixed: Sample,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            factor: 3.0,
            learning: std::time::Duration::from_secs(60),
            calm: std::time::Duration::from_secs(30),
            fixed: Sample::default(),
        }
    }
}
