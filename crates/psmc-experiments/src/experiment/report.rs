//! What an experiment prints, and a line of it.

use std::fmt;

use psmc_lab::bench::{Spread, median};
use psmc_lab::report::grid::{Cell, Grid};
use serde::Serialize;

use super::{Experiment, experiments};

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

/// A figure of the seed and ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct Row {
    /// Which one.
    pub(crate) label: String,
    /// The seed's, if it is printed.
    pub(crate) seed: Option<f64>,
    /// Ours, unless the run failed: the median, if there were several.
    pub(crate) ours: Option<f64>,
    /// The least and the most of several runs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) range: Option<(f64, f64)>,
    /// The unit of all of them.
    pub(crate) unit: &'static str,
    /// What ours must be.
    #[serde(skip)]
    pub(crate) bound: Bound,
    /// Whether it is.
    pub(crate) ok: bool,
}

/// Between what a figure must lie, both ends included; `None` if that depends on something that could not be measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Bound(Option<(f64, f64)>);

/// What is measured: a row without its bound.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    label: String,
    seed: Option<f64>,
    ours: Option<f64>,
    unit: &'static str,
}

impl Row {
    fn new(Figure { label, seed, ours, unit }: Figure, bound: Bound) -> Self {
        let ok = ours.is_some_and(|ours| bound.holds(ours));
        Self { label, seed, ours, range: None, unit, bound, ok }
    }

    /// One row for each that the first run has, in its order. A row that another run has not measured is not measured.
    pub(super) fn of_runs(runs: &[Vec<Self>]) -> Vec<Self> {
        let Some(first) = runs.first() else { return Vec::new() };
        let same = |row: &Self, rows: &[Self]| {
            rows.iter().find(|other| other.label == row.label && other.unit == row.unit).cloned()
        };
        first.iter().map(|row| Self::median(row, runs.iter().map(|rows| same(row, rows)))).collect()
    }

    /// The median of what is measured, and of its bounds.
    fn median(first: &Self, runs: impl Iterator<Item = Option<Self>>) -> Self {
        let runs: Vec<_> = runs.collect();
        let bound = Bound::median(runs.iter().map(|row| row.as_ref().map_or(Bound(None), |row| row.bound)));
        let spread = Spread::of_all(runs.iter().map(|row| row.as_ref()?.ours));
        let (label, ours) = (first.label.clone(), spread.map(|spread| spread.median));
        let figure = Figure { label, seed: first.seed, ours, unit: first.unit };
        let range = spread.filter(|_| runs.len() > 1).map(Spread::range);
        Self { range, ..Self::new(figure, bound) }
    }
}

impl Bound {
    /// Of what is there to be compared with: nothing is asked of it but to exist.
    const NONE: Self = Self(Some((f64::NEG_INFINITY, f64::INFINITY)));

    fn holds(self, value: f64) -> bool {
        self.0.is_some_and(|(least, most)| (least..=most).contains(&value))
    }

    fn median(bounds: impl Iterator<Item = Self> + Clone) -> Self {
        let end = |of: fn((f64, f64)) -> f64| median(bounds.clone().map(|bound| bound.0.map(of)));
        Self(end(|(least, _)| least).zip(end(|(_, most)| most)))
    }
}

/// For people: what must be.
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((least, most)) = self.0 else { return f.write_str("?") };
        match (least.is_finite(), most.is_finite()) {
            (false, false) => f.write_str("–"),
            (true, false) => write!(f, "≥ {least:.2}"),
            (false, true) => write!(f, "≤ {most:.2}"),
            (true, true) => write!(f, "{:.2} ± {:.2}", f64::midpoint(least, most), (most - least) / 2.0),
        }
    }
}

impl Figure {
    pub(super) fn new(label: impl Into<String>, unit: &'static str, ours: Option<f64>) -> Self {
        Self { label: label.into(), seed: None, ours, unit }
    }

    /// With what the seed prints for it.
    pub(super) fn seed(self, seed: impl Into<Option<f64>>) -> Self {
        Self { seed: seed.into(), ..self }
    }

    /// It must be this or more. A bound that could not be measured is not met.
    pub(super) fn at_least(self, least: impl Into<Option<f64>>) -> Row {
        self.within(least.into().map(|least| (least, f64::INFINITY)))
    }

    /// It must be this or less.
    pub(super) fn at_most(self, most: impl Into<Option<f64>>) -> Row {
        self.within(most.into().map(|most| (f64::NEG_INFINITY, most)))
    }

    /// It must differ from this by no more than such a share of it.
    pub(super) fn near(self, middle: impl Into<Option<f64>>, share: f64) -> Row {
        let middle = middle.into();
        self.beside(middle, middle.unwrap_or_default() * share)
    }

    /// It must differ from this by no more than so much.
    pub(super) fn beside(self, middle: impl Into<Option<f64>>, difference: f64) -> Row {
        self.within(middle.into().map(|middle| (middle - difference, middle + difference)))
    }

    /// It is there to be compared with.
    pub(super) fn shown(self) -> Row {
        Row::new(self, Bound::NONE)
    }

    fn within(self, ends: Option<(f64, f64)>) -> Row {
        Row::new(self, Bound(ends))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(ours: impl Into<Option<f64>>) -> Figure {
        Figure::new("it", "Mb/s", ours.into())
    }

    #[test]
    fn bounds_include_their_ends() {
        let rows =
            [of(2.0).at_least(2.0), of(2.0).at_most(2.0), of(2.5).near(2.0, 0.25), of(1.5).beside(2.0, 0.5)];
        assert!(rows.iter().all(|row| row.ok), "{rows:?}");
        let bounds = rows.map(|row| row.bound.to_string());
        assert_eq!(bounds, ["≥ 2.00", "≤ 2.00", "2.00 ± 0.50", "2.00 ± 0.50"]);
        let rows =
            [of(1.9).at_least(2.0), of(2.1).at_most(2.0), of(2.6).near(2.0, 0.25), of(1.4).beside(2.0, 0.5)];
        assert!(rows.iter().all(|row| !row.ok), "{rows:?}");
    }

    #[test]
    fn what_was_not_measured_meets_nothing() {
        let rows =
            [of(None).at_least(0.0), of(None).shown(), of(1.0).at_least(None), of(1.0).near(None, 0.1)];
        assert!(rows.iter().all(|row| !row.ok), "{rows:?}");
        assert!(of(1.0).shown().ok);
        assert_eq!([of(1.0).shown(), of(1.0).at_most(None)].map(|row| row.bound.to_string()), ["–", "?"]);
    }

    #[test]
    fn the_median_of_runs_is_held_against_that_of_their_bounds() {
        let runs = [(1.0, 3.0), (4.0, 2.0), (2.0, 1.0)].map(|(ours, least)| vec![of(ours).at_least(least)]);
        let rows = Row::of_runs(&runs);
        let [row] = rows.as_slice() else { panic!("one row: {rows:?}") };
        assert_eq!((row.ours, row.range, row.ok), (Some(2.0), Some((1.0, 4.0)), true));
        assert_eq!(row.bound.to_string(), "≥ 2.00");
        let alone = Row::of_runs(&runs[..1]);
        assert_eq!(alone, runs[0], "one run is its own median");
    }

    #[test]
    fn what_one_run_has_not_measured_is_not_measured() {
        let run = |ours| vec![of(ours).shown()];
        let rows = [vec![run(Some(1.0)), run(None)], vec![run(Some(1.0)), Vec::new()]];
        for runs in rows {
            let rows = Row::of_runs(&runs);
            assert!(rows.len() == 1 && rows[0].ours.is_none() && !rows[0].ok, "{rows:?}");
        }
    }
}
