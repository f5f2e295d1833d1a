//! Finding attacks in what arrives: state machines without clock and I/O.
//!
//! A [`ServiceDetector`] is given a [`Sample`] ten times a second. For each [`Signal`] it learns what is usual ([`Usual`]),
//! and a [`Trigger`] tells whether there is more than that for long enough.

mod attack;
#[cfg(test)]
mod tests;
mod trigger;

use psmc_signal::{AlertKind, Measured};

pub use attack::{Attack, Change, ServiceDetector};
pub use trigger::{Limit, Trigger, Usual};

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

/// What tells that a service is attacked.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Signal {
    /// Packets per second.
    Packets,
    /// Bits per second.
    Bits,
    /// TCP connections opened per second.
    Syns,
    /// Sources per second that were not seen lately.
    NewSources,
    /// Share of packets lost, 0 to 1.
    Loss,
}

impl Signal {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Packets, Self::Bits, Self::Syns, Self::NewSources, Self::Loss];

    /// What the configuration, the status and the file of what is learned call it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bits => "bits",
            Self::Syns => "syns",
            Self::NewSources => "new_sources",
            Self::Loss => "loss",
        }
    }

    /// What an alert about it is.
    #[must_use]
    pub fn kind(self) -> AlertKind {
        match self {
            Self::Packets | Self::Bits => AlertKind::Rate,
            Self::Syns => AlertKind::Syn,
            Self::NewSources => AlertKind::NewSources,
            Self::Loss => AlertKind::Loss,
        }
    }

    /// Below this nothing is an attack, however little is usual: any server on any line takes it.
    #[must_use]
    pub fn floor(self) -> f64 {
        match self {
            Self::Packets => 1000.0,
            Self::Bits => 2e6,
            Self::Syns => 100.0,
            Self::NewSources => 50.0,
            Self::Loss => 0.1,
        }
    }

    fn index(self) -> usize {
        self as usize
    }
}

/// A value for each signal that has one: measurements, usual levels, limits.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Sample([Option<f64>; Signal::ALL.len()]);

impl Sample {
    /// The value of a signal.
    #[must_use]
    pub fn get(&self, signal: Signal) -> Option<f64> {
        self.0[signal.index()]
    }

    /// Gives a signal a value, which must be finite.
    pub fn set(&mut self, signal: Signal, value: f64) {
        self.0[signal.index()] = Some(value);
    }

    /// As messages have it.
    #[must_use]
    pub fn measured(&self) -> Measured {
        Measured {
            packets: self.get(Signal::Packets),
            bits: self.get(Signal::Bits),
            syns: self.get(Signal::Syns),
            new_sources: self.get(Signal::NewSources),
            loss: self.get(Signal::Loss),
        }
    }
}

impl FromIterator<(Signal, f64)> for Sample {
    fn from_iter<T: IntoIterator<Item = (Signal, f64)>>(values: T) -> Self {
        let mut sample = Self::default();
        for (signal, value) in values {
            sample.set(signal, value);
        }
        sample
    }
}
