//! What is promised to whom, and by which servers.

use std::time::Duration;

use crate::queue::{self, Queues};
use crate::ratios::{GAIN, Ratios};
use crate::window::Measure;
use crate::{ClassId, ClassSet, MAX_CLASSES, MAX_SERVERS};

pub use queue::Discipline;

/// What an [`Admission`](super::Admission) is made with.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// From the best one on; at least one.
    pub classes: Vec<ClassConfig>,
    /// At least one.
    pub servers: Vec<ServerConfig>,
    /// What ratios are held of.
    pub measure: Measure,
    /// Who is next.
    pub discipline: Discipline,
    /// Whether requests are kept back although servers have room, where ratios cannot be held otherwise: at light load, at the
    /// price of making people wait for nothing but the difference.
    pub idling: bool,
    /// After which time ratios are measured and corrected: a thousand requests of a server in the seed.
    pub period: Duration,
}

/// A class.
#[derive(Clone, Debug, PartialEq)]
pub struct ClassConfig {
    /// Its response times are to those of another class as these numbers are (the seed's δ).
    pub ratio: f64,
    /// What 99 of 100 response times should not exceed. Once it is at risk the class comes first, whatever the ratios.
    pub objective: Option<Duration>,
    /// Whether requests are refused that would wait too long for this class's objective, or those of classes with a smaller ratio.
    pub shed: bool,
    /// How many may wait.
    pub max_waiting: usize,
}

/// A server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerConfig {
    /// How many requests it takes at once.
    pub limit: LimitConfig,
    /// Which classes it serves: all, unless some servers are for some of them.
    pub classes: ClassSet,
}

/// How many requests a server takes at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LimitConfig {
    /// This many; at least one.
    Fixed(u32),
    /// It is [measured](crate::limit::Adaptive).
    #[default]
    Adaptive,
}

/// Why a configuration is refused.
#[derive(Clone, Copy, Debug, PartialEq, thiserror::Error)]
pub enum ConfigError {
    /// None, or more than there may be.
    #[error("there must be 1 to {MAX_CLASSES} classes, not {0}")]
    Classes(usize),
    /// None, or more than there may be.
    #[error("there must be 1 to {MAX_SERVERS} servers, not {0}")]
    Servers(usize),
    /// A ratio of this class is no number above 0, or beyond all that people wait.
    #[error("the ratio of class {class} must be from {LEAST_RATIO} to {MOST_RATIO}, not {ratio}")]
    Ratio {
        /// Its place.
        class: usize,
        /// What it is.
        ratio: f64,
    },
    /// An objective of no time.
    #[error("the objective of class {0} is no time")]
    Objective(usize),
    /// A server that takes nothing.
    #[error("the limit of server {0} is 0")]
    Limit(usize),
    /// A class that no server serves.
    #[error("no server serves class {0}")]
    Unserved(usize),
    /// A sampling period of no time.
    #[error("the sampling period is no time")]
    Period,
}

/// The least ratio of a class.
pub const LEAST_RATIO: f64 = 1e-3;

/// The greatest ratio of a class.
pub const MOST_RATIO: f64 = 1e3;

impl Default for Config {
    /// One class, one server.
    fn default() -> Self {
        Self {
            classes: vec![ClassConfig::default()],
            servers: vec![ServerConfig::default()],
            measure: Measure::ResponseTime,
            discipline: Discipline::ByAge,
            idling: false,
            period: Duration::from_secs(1),
        }
    }
}

impl Default for ClassConfig {
    /// Of ratio 1, without an objective; a thousand may wait.
    fn default() -> Self {
        Self { ratio: 1.0, objective: None, shed: false, max_waiting: 1024 }
    }
}

impl Config {
    pub(super) fn check(&self) -> Result<(), ConfigError> {
        if !(1..=MAX_CLASSES).contains(&self.classes.len()) {
            return Err(ConfigError::Classes(self.classes.len()));
        }
        if !(1..=MAX_SERVERS).contains(&self.servers.len()) {
            return Err(ConfigError::Servers(self.servers.len()));
        }
        for (class, of) in self.classes.iter().enumerate() {
            if !(LEAST_RATIO..=MOST_RATIO).contains(&of.ratio) {
                return Err(ConfigError::Ratio { class, ratio: of.ratio });
            }
            if of.objective.is_some_and(|objective| objective.is_zero()) {
                return Err(ConfigError::Objective(class));
            }
        }
        if let Some(server) = self.servers.iter().position(|server| server.limit == LimitConfig::Fixed(0)) {
            return Err(ConfigError::Limit(server));
        }
        let served = self.servers.iter().fold(ClassSet::NONE, |all, server| all.with(server.classes));
        if let Some(class) = (0..self.classes.len()).find(|&class| !served.has(ClassId(class))) {
            return Err(ConfigError::Unserved(class));
        }
        if self.period.is_zero() { Err(ConfigError::Period) } else { Ok(()) }
    }

    /// Of each class, those that share a server with it, itself included.
    pub(super) fn neighbours(&self) -> Vec<ClassSet> {
        let of = |class| {
            let serving = self.servers.iter().filter(|server| server.classes.has(ClassId(class)));
            serving.fold(ClassSet::NONE, |all, server| all.with(server.classes))
        };
        (0..self.classes.len()).map(of).collect()
    }

    /// Of each class, the first of those that compete for servers with it, be it by way of others: ratios are held among these.
    #[must_use]
    pub fn firsts(&self) -> Vec<usize> {
        let mut firsts: Vec<usize> = (0..self.classes.len()).collect();
        // As many rounds as a chain of classes is long at most.
        for _ in 0..firsts.len() {
            for server in &self.servers {
                let served = || (0..self.classes.len()).filter(|&class| server.classes.has(ClassId(class)));
                let Some(first) = served().map(|class| firsts[class]).min() else { continue };
                for class in served() {
                    firsts[class] = first;
                }
            }
        }
        firsts
    }

    pub(super) fn queues(&self) -> Queues {
        Queues::new(&self.deltas(), self.discipline, self.measure, self.idling)
    }

    pub(super) fn ratios(&self) -> Ratios {
        Ratios::new(&self.deltas(), GAIN).among(&self.firsts())
    }

    fn deltas(&self) -> Vec<f64> {
        self.classes.iter().map(|class| class.ratio).collect()
    }
}
