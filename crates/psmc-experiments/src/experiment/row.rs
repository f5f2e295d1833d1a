//! A line of what an experiment prints.

use std::fmt;

use serde::Serialize;

use psmc_lab::bench::{Spread, median};

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
