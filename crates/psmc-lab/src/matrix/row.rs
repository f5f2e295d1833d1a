//! What comes of all trials of a profile and a kind of flow.

use serde::Serialize;

use super::Profile;
use super::trial::{Outcome, Pings, Trial};
use super::way::{Inner, Way};

/// The median of all runs, and between what they lay.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Spread {
    pub(crate) low: f64,
    pub(crate) median: f64,
    pub(crate) high: f64,
}

/// A profile and a kind of flow. What was not asked for, failed or cannot be is `None`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) profile: &'static str,
    pub(crate) inner: Inner,
    pub(crate) paths: [Option<Spread>; 2],
    pub(crate) mptcp: Option<Spread>,
    pub(crate) psmc: Option<Spread>,
    pub(crate) pings: Option<Pings>,
}

/// The same for programs. Units are in the names: `_mbps` 10^6 bit/s, `_ms` milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JsonRow {
    profile: &'static str,
    inner: &'static str,
    path_a_mbps: Option<f64>,
    path_b_mbps: Option<f64>,
    sum_mbps: Option<f64>,
    mptcp_mbps: Option<f64>,
    psmc_mbps: Option<f64>,
    ping_idle_ms: Option<f64>,
    ping_p50_ms: Option<f64>,
    ping_p99_ms: Option<f64>,
}

impl Row {
    /// From those outcomes that belong to it.
    pub(super) fn new(profile: Profile, inner: Inner, outcomes: &[(Trial, Outcome)]) -> Self {
        let belongs = |trial: &Trial| trial.profile.name == profile.name && trial.inner == inner;
        let of = |way: Way| outcomes.iter().filter(move |(trial, _)| belongs(trial) && trial.way == way);
        let goodput = |way: Way| Spread::of(of(way).map(|(_, outcome)| outcome.goodput_mbps).collect());
        Self {
            profile: profile.name,
            inner,
            paths: [goodput(Way::PathA), goodput(Way::PathB)],
            mptcp: goodput(Way::Mptcp),
            psmc: goodput(Way::Psmc),
            pings: Pings::medians(
                &of(Way::Psmc).filter_map(|(_, outcome)| outcome.pings).collect::<Vec<_>>(),
            ),
        }
    }

    /// What both paths by themselves carry together.
    pub(crate) fn sum(&self) -> Option<f64> {
        Some(self.paths[0]?.median + self.paths[1]?.median)
    }

    /// For programs.
    pub(crate) fn json(&self) -> JsonRow {
        let median = |spread: Option<Spread>| spread.map(|spread| round(spread.median));
        let ping = |value: fn(Pings) -> f64| self.pings.map(value).map(round);
        JsonRow {
            profile: self.profile,
            inner: self.inner.name(),
            path_a_mbps: median(self.paths[0]),
            path_b_mbps: median(self.paths[1]),
            sum_mbps: self.sum().map(round),
            mptcp_mbps: median(self.mptcp),
            psmc_mbps: median(self.psmc),
            ping_idle_ms: ping(|pings| pings.idle_ms),
            ping_p50_ms: ping(|pings| pings.p50_ms),
            ping_p99_ms: ping(|pings| pings.p99_ms),
        }
    }
}

impl Spread {
    /// `None` if there are no values.
    pub(crate) fn of(mut values: Vec<f64>) -> Option<Self> {
        values.sort_by(f64::total_cmp);
        let middle = values.len() / 2;
        let upper = *values.get(middle)?;
        let median =
            if values.len().is_multiple_of(2) { f64::midpoint(values[middle - 1], upper) } else { upper };
        Some(Self { low: *values.first()?, median, high: *values.last()? })
    }
}

impl Pings {
    fn medians(runs: &[Self]) -> Option<Self> {
        let median = |value: fn(&Self) -> f64| Some(Spread::of(runs.iter().map(value).collect())?.median);
        Some(Self {
            idle_ms: median(|pings| pings.idle_ms)?,
            p50_ms: median(|pings| pings.p50_ms)?,
            p99_ms: median(|pings| pings.p99_ms)?,
        })
    }
}

/// To two decimals: no more of a measurement means anything.
fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_lies_between_the_extremes() {
        let spread = |values: &[f64]| Spread::of(values.to_vec());
        assert_eq!(spread(&[]), None);
        assert_eq!(spread(&[3.0]), Some(Spread { low: 3.0, median: 3.0, high: 3.0 }));
        assert_eq!(spread(&[3.0, 1.0, 9.0]), Some(Spread { low: 1.0, median: 3.0, high: 9.0 }));
        assert_eq!(spread(&[4.0, 1.0, 9.0, 2.0]), Some(Spread { low: 1.0, median: 3.0, high: 9.0 }));
    }
}
