//! A line of what an experiment prints.

use serde::Serialize;

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

/// What is measured: a row without its bound.
#[derive(Clone, Debug)]
pub(super) struct Figure {
    label: String,
    seed: Option<f64>,
    ours: Option<f64>,
    unit: &'static str,
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
        self.bounded(least.into(), "≥", |ours, least| ours >= least)
    }

    /// It must be this or less.
    pub(super) fn at_most(self, most: impl Into<Option<f64>>) -> Row {
        self.bounded(most.into(), "≤", |ours, most| ours <= most)
    }

    /// It must differ from this by no more than such a share of it.
    pub(super) fn near(self, middle: impl Into<Option<f64>>, share: f64) -> Row {
        self.within(middle, |middle| middle * share)
    }

    /// It must differ from this by no more than so much.
    pub(super) fn beside(self, middle: impl Into<Option<f64>>, difference: f64) -> Row {
        self.within(middle, |_| difference)
    }

    /// It is there to be compared with; nothing is asked of it but to exist.
    pub(super) fn shown(self) -> Row {
        let ok = self.ours.is_some();
        self.row("–".to_owned(), ok)
    }

    fn within(self, middle: impl Into<Option<f64>>, difference: impl Fn(f64) -> f64) -> Row {
        let Some(middle) = middle.into() else { return self.row("?".to_owned(), false) };
        let difference = difference(middle);
        let ok = self.ours.is_some_and(|ours| (ours - middle).abs() <= difference);
        self.row(format!("{middle:.2} ± {difference:.2}"), ok)
    }

    fn bounded(self, bound: Option<f64>, sign: &str, holds: fn(f64, f64) -> bool) -> Row {
        let ok = self.ours.zip(bound).is_some_and(|(ours, bound)| holds(ours, bound));
        self.row(bound.map_or_else(|| "?".to_owned(), |bound| format!("{sign} {bound:.2}")), ok)
    }

    fn row(self, bound: String, ok: bool) -> Row {
        let Self { label, seed, ours, unit } = self;
        Row { label, seed, ours, unit, bound, ok }
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
        let bounds = rows.map(|row| row.bound);
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
    }
}
