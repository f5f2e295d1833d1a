//! Experiments: each reproduces a table or a figure of a seed, one of the five documents that PSMC comes from, and says
//! whether PSMC meets what it must.
//!
//! A new one is a function in the module of its family, and an entry in the family's `EXPERIMENTS`.

mod bed;
mod conditioning;
mod differentiation;
mod overlay;
mod psmc;
mod qos;
mod report;
mod routers;
mod selection;
mod shedding;
#[cfg(test)]
mod tests;
mod watson;

use std::fmt::Display;

use psmc_lab::bench::Runner;
use psmc_lab::results::Results;

use report::Figure;
pub(crate) use report::{Report, Row, list};

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
    /// How often it is measured unless the user says so: what it finds is the median.
    runs: u32,
    measure: fn(&mut Setup<'_>) -> Vec<Row>,
}

/// What an experiment is run with.
pub(crate) struct Setup<'a> {
    /// What runs its scenarios.
    pub(crate) runner: &'a mut dyn Runner,
    /// Duration of each run [default: chosen by the experiment].
    pub(crate) seconds: Option<u32>,
    /// Only rows whose label contains one of these; all if there is none.
    pub(crate) only: Vec<String>,
    /// Which run of an experiment this is, from 1, and of how many.
    run: (u32, u32),
}

/// All of them, by seed and family.
pub(crate) fn experiments() -> impl Iterator<Item = &'static Experiment> {
    let families = psmc::FAMILIES.iter().chain(overlay::FAMILIES).chain(selection::FAMILIES);
    let families =
        families.chain(qos::FAMILIES).chain(conditioning::FAMILIES).chain(conditioning::REAL_FAMILIES);
    let families = families.chain(differentiation::FAMILIES).chain(differentiation::REAL_FAMILIES);
    let families = families.chain(shedding::FAMILIES);
    families.chain(routers::FAMILIES).chain(watson::FAMILIES).copied().flatten()
}

impl Experiment {
    /// The experiment of that name.
    pub(crate) fn find(name: &str) -> Option<&'static Self> {
        experiments().find(|experiment| experiment.name == name)
    }

    /// Whether it computes, and needs no network.
    fn is_computed(&self) -> bool {
        let computed = overlay::FAMILIES.iter().chain(selection::FAMILIES).chain(qos::FAMILIES);
        let computed = computed.chain(conditioning::FAMILIES).chain(shedding::FAMILIES);
        let computed = computed.chain(differentiation::FAMILIES).chain(routers::FAMILIES);
        computed.copied().flatten().any(|computed| computed.name == self.name)
    }

    /// Makes all its measurements.
    ///
    /// `runs` is how often, if not as often as the experiment thinks best.
    pub(crate) fn run(&'static self, setup: &mut Setup<'_>, runs: Option<u32>) -> Report {
        let runs = runs.unwrap_or(self.runs);
        let mut run = |number| {
            setup.run = (number, runs);
            let mut rows = (self.measure)(setup);
            rows.retain(|row| setup.wants(&row.label));
            rows
        };
        let rows = Row::of_runs(&(1..=runs).map(&mut run).collect::<Vec<_>>());
        Report { experiment: self, runs, rows }
    }
}

impl<'a> Setup<'a> {
    /// With what a run is made unless it is changed.
    pub(crate) fn new(runner: &'a mut dyn Runner) -> Self {
        Self { runner, seconds: None, only: Vec::new(), run: (1, 1) }
    }

    /// Whether a row is asked for.
    fn wants(&self, label: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| label.contains(part.as_str()))
    }

    /// Whether one of several rows is asked for, whose labels are that of their group and one of these.
    fn wants_any<T: Display>(&self, group: &str, rows: impl IntoIterator<Item = T>) -> bool {
        rows.into_iter().any(|row| self.wants(&format!("{group}, {row}")))
    }

    /// How long a run takes that should last this long.
    fn seconds(&self, best: u32) -> u32 {
        self.seconds.unwrap_or(best)
    }

    /// Runs a scenario, whose text begins within its `[scenario]`: its name and its seed are the run's. `None` if it could not
    /// be run, of which the user has been told.
    fn run(&mut self, name: &str, scenario: &str) -> Option<Results> {
        let (number, runs) = self.run;
        let name = if runs > 1 { format!("{name}-{number}") } else { name.to_owned() };
        self.runner.run(&name, &format!("[scenario]\nname = \"{name}\"\nseed = {number}\n{scenario}"))
    }
}

/// What counts as the same: two runs of one thing differ by as much.
const SAME: f64 = 0.99;
