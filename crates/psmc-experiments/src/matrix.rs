//! The matrix: one flow between two sites over two paths, on every [`Profile`], beside what else could carry it.
//!
//! Each number is a run of a scenario, which the lab writes itself and which `--print-scenario` shows.
//!
//! | column | what carries the flow |
//! |---|---|
//! | path A, path B | that link alone, without any tunnel |
//! | sum | the two added up: nothing is measured for it |
//! | MPTCP | both links, by MPTCP sockets |
//! | PSMC | both links, by the tunnel |
//! | ended | the same, the sites end TCP (`tcp = "split"`) |
//! | of links, of better link | what PSMC gets of what the links can carry: nothing is measured for it |

mod profile;
mod row;
#[cfg(test)]
mod tests;
mod trial;

use std::path::Path;

use psmc_lab::bench::Runner;
use psmc_lab::report::{self, ReportError};

pub(crate) use profile::{PROFILES, Profile};
pub(crate) use row::JsonRow;
pub(crate) use trial::{Inner, Peer, Trial, Way};

use row::Row;

/// What is measured.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) profiles: Vec<Profile>,
    pub(crate) inners: Vec<Inner>,
    pub(crate) peers: Vec<Peer>,
    /// How long each flow lasts.
    pub(crate) seconds: u32,
    /// How often everything is measured.
    pub(crate) runs: u32,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Matrix {
    rows: Vec<Row>,
}

impl Plan {
    /// All measurements, in the order in which they are made: the ways alternate, so that what changes on this machine
    /// while they run does not favour one of them.
    pub(crate) fn trials(&self) -> Vec<Trial> {
        let ways: Vec<_> =
            self.peers.iter().flat_map(|peer| peer.ways()).copied().chain([Way::Psmc]).collect();
        let mut trials = Vec::new();
        for &profile in &self.profiles {
            for run in 1..=self.runs {
                for &inner in &self.inners {
                    let ways = ways.iter().filter(|way| way.carries(inner));
                    trials.extend(ways.map(|&way| Trial { profile, inner, way, run }));
                }
            }
        }
        trials
    }

    /// Makes all measurements.
    pub(crate) fn measure(&self, runner: &mut dyn Runner) -> Matrix {
        let mut outcomes = Vec::new();
        for trial in self.trials() {
            let results = runner.run(&trial.name(), &trial.scenario(self.seconds));
            outcomes.extend(results.and_then(|results| Some((trial, trial.outcome(&results)?))));
        }
        let row = |profile| self.inners.iter().map(move |&inner| (profile, inner));
        let rows = self.profiles.iter().copied().flat_map(row);
        Matrix { rows: rows.map(|(profile, inner)| Row::new(profile, inner, &outcomes)).collect() }
    }
}

impl Matrix {
    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let ended =
            row::ended(&self.rows).map(|grid| format!("\n{}\n\n{}", row::ended_caption(), grid.text()));
        format!("{}\n\n{}{}", row::caption(), row::grid(&self.rows).text(), ended.unwrap_or_default())
    }

    /// For a page.
    pub(crate) fn markdown(&self) -> String {
        let ended =
            row::ended(&self.rows).map(|grid| format!("\n{}:\n\n{}", row::ended_caption(), grid.markdown()));
        format!("{}:\n\n{}{}", row::caption(), row::grid(&self.rows).markdown(), ended.unwrap_or_default())
    }

    /// For programs.
    pub(crate) fn json(&self) -> Vec<JsonRow> {
        self.rows.iter().map(Row::json).collect()
    }

    /// Draws it as bars.
    pub(crate) fn write_plot(&self, path: &Path) -> Result<(), ReportError> {
        report::write_svg(path, row::bars(&self.rows).svg()).map(drop)
    }
}
