//! Experiments: each reproduces a table or a figure of a seed, one of the five documents that PSMC comes from, and says
//! whether PSMC meets what it must.
//!
//! A new one is a function in a module of its own and a line in [`EXPERIMENTS`].

mod report;
#[cfg(test)]
mod tests;
mod watson;

use serde::Serialize;

use crate::bench::Runner;
use crate::results::Results;

pub(crate) use report::{Report, list};

/// A table or a figure of a seed, and how it is reproduced.
#[derive(Debug)]
pub(crate) struct Experiment {
    /// After the seed and its table.
    pub(crate) name: &'static str,
    /// What it shows.
    pub(crate) what: &'static str,
    /// The document, and where in it the figures are printed.
    pub(crate) seed: &'static str,
    /// How ours is measured: links, queues, traffic.
    pub(crate) how: &'static str,
    /// What must hold for ours.
    pub(crate) criterion: &'static str,
    measure: fn(&mut Setup<'_>) -> Vec<Row>,
}

/// A figure of the seed and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Which one.
    pub(crate) label: String,
    /// The seed's, if it is printed.
    pub(crate) seed: Option<f64>,
    /// Ours, unless the run failed.
    pub(crate) ours: Option<f64>,
    /// The unit of both.
    pub(crate) unit: &'static str,
    /// What ours must be, in words.
    #[serde(skip)]
    pub(crate) bound: String,
    /// Whether it is.
    pub(crate) ok: bool,
}

/// What an experiment is run with.
pub(crate) struct Setup<'a> {
    /// What runs its scenarios.
    pub(crate) runner: &'a mut dyn Runner,
    /// How long each run takes, if not as long as the experiment thinks best.
    pub(crate) seconds: Option<u32>,
    /// Only rows whose label contains one of these; all if there is none.
    pub(crate) only: Vec<String>,
}

/// All of them, by seed and table.
pub(crate) const EXPERIMENTS: &[Experiment] = watson::EXPERIMENTS;

impl Experiment {
    /// The experiment of that name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        EXPERIMENTS.iter().find(|experiment| experiment.name == name)
    }

    /// Makes all its measurements.
    pub(crate) fn run(&'static self, setup: &mut Setup<'_>) -> Report {
        Report { experiment: self, rows: (self.measure)(setup) }
    }
}

impl Setup<'_> {
    /// Whether a row is asked for.
    fn wants(&self, label: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| label.contains(part.as_str()))
    }

    /// How long a run takes that should last this long.
    fn seconds(&self, best: u32) -> u32 {
        self.seconds.unwrap_or(best)
    }

    /// Runs a scenario; `None` if it could not be run, of which the user has been told.
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results> {
        self.runner.run(name, scenario)
    }
}
