//! What an experiment prints.

use serde::Serialize;

use super::{Experiment, Row, experiments};
use psmc_lab::report::grid::{Cell, Grid};

/// What came of an experiment.
#[derive(Debug)]
pub(crate) struct Report {
    pub(super) experiment: &'static Experiment,
    /// How many; a row is their median.
    pub(super) runs: u32,
    pub(super) rows: Vec<Row>,
}

/// The same for programs.
#[derive(Debug, Serialize)]
pub(crate) struct JsonReport<'a> {
    name: &'static str,
    runs: u32,
    rows: &'a [Row],
}

impl Report {
    /// Whether there are figures, and all of ours meet the criterion.
    pub(crate) fn is_ok(&self) -> bool {
        !self.rows.is_empty() && self.rows.iter().all(|row| row.ok)
    }

    /// Whether it has figures although nothing was sent, as those experiments have that only compute.
    pub(crate) fn is_computed(&self) -> bool {
        self.experiment.is_computed() && !self.rows.is_empty()
    }

    /// For programs.
    pub(crate) fn json(&self) -> JsonReport<'_> {
        JsonReport { name: self.experiment.name, runs: self.runs, rows: &self.rows }
    }

    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let Experiment { name, what, seed, how, criterion, .. } = self.experiment;
        let about = [("the seed", *seed), ("ours", *how), ("must hold", *criterion)];
        let about: String = about.into_iter().map(|(title, text)| paragraph(title, text)).collect();
        format!("{name}: {what}\n\n{about}\n{}\n{}\n", self.grid().text(), self.verdict())
    }

    /// For a page.
    pub(crate) fn markdown(&self) -> String {
        let Experiment { what, seed, how, criterion, .. } = self.experiment;
        let head = format!("{what}\n\n- The seed: {seed}\n- Ours: {how}\n- Must hold: {criterion}\n");
        format!("{head}\n{}\n{}.\n", self.grid().markdown(), self.verdict())
    }

    fn verdict(&self) -> String {
        let met = self.rows.iter().filter(|row| row.ok).count();
        let of = if self.runs > 1 { format!(", medians of {} runs", self.runs) } else { String::new() };
        format!("{met} of {} rows meet it{of}", self.rows.len())
    }

    fn grid(&self) -> Grid {
        Grid::new(&["what", "unit", "seed", "ours", "from–to", "of the seed's (%)", "must be", "is it?"])
            .with_rows(self.rows.iter().map(cells))
    }
}

/// All experiments, for a terminal.
pub(crate) fn list() -> String {
    let row = |experiment: &Experiment| [experiment.name, experiment.what].map(Cell::text).to_vec();
    Grid::new(&["name", "what"]).with_rows(experiments().map(row)).text()
}

/// A title and, beside it, a text in lines that a terminal can show.
fn paragraph(title: &str, text: &str) -> String {
    let mut paragraph = format!("{title:TITLE_WIDTH$}");
    let mut column = TITLE_WIDTH;
    for word in text.split_whitespace() {
        let end = column + word.chars().count();
        if end > TERMINAL_WIDTH {
            paragraph = format!("{}\n{:TITLE_WIDTH$}{word} ", paragraph.trim_end(), "");
            column = end - column + TITLE_WIDTH + 1;
        } else {
            paragraph += &format!("{word} ");
            column = end + 1;
        }
    }
    format!("{}\n", paragraph.trim_end())
}

fn cells(row: &Row) -> Vec<Cell> {
    let share = row.ours.zip(row.seed).map(|(ours, seed)| ours / seed * 100.0);
    let meets = if row.ok { "yes" } else { "NO" };
    vec![
        Cell::text(&row.label),
        Cell::text(row.unit),
        Cell::fixed(row.seed, 2),
        Cell::fixed(row.ours, 2),
        Cell::range(row.range, 2),
        Cell::fixed(share, 0),
        Cell::Number(row.bound.to_string()),
        Cell::text(meets),
    ]
}

const TITLE_WIDTH: usize = 12;

/// The usual one is no narrower.
const TERMINAL_WIDTH: usize = 80;
