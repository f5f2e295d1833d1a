//! A figure of several runs.

use serde_json::{Value, json};

/// Median, minimum and maximum.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    pub(crate) median: f64,
    pub(crate) min: f64,
    pub(crate) max: f64,
}

impl Spread {
    /// Of at least one value.
    pub(crate) fn of(values: &[f64]) -> Self {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (lower, upper) = (sorted[(sorted.len() - 1) / 2], sorted[sorted.len() / 2]);
        Self { median: (lower + upper) / 2.0, min: sorted[0], max: sorted[sorted.len() - 1] }
    }

    /// Of one figure by another, run by run, so that a change of the machine's mood cancels out.
    pub(crate) fn of_ratios(ours: &[f64], others: &[f64]) -> Self {
        Self::of(&ours.iter().zip(others).map(|(ours, other)| ours / other).collect::<Vec<_>>())
    }

    /// For people: the median, and in parentheses the smallest and the largest.
    pub(crate) fn text(&self, decimals: usize) -> String {
        let Self { median, min, max } = self;
        format!("{median:.decimals$} ({min:.decimals$} to {max:.decimals$})")
    }

    /// For programs.
    pub(crate) fn json(&self) -> Value {
        json!({ "median": self.median, "min": self.min, "max": self.max })
    }
}
