//! What comes of all trials of a profile and a kind of flow.

use serde::Serialize;

use super::Profile;
use super::trial::{Outcome, Pings, Trial};
use super::way::{Inner, Way};
use psmc_lab::bench::Spread;

/// A profile and a kind of flow. What was not asked for, failed or cannot be is `None`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    pub(crate) profile: &'static str,
    pub(crate) inner: Inner,
    /// What a tunnel can get over either link at the most ([`Path::capacity_mbps`](super::profile::Path::capacity_mbps)).
    pub(crate) links: [f64; 2],
    pub(crate) paths: [Option<Spread>; 2],
    pub(crate) mptcp: Option<Spread>,
    pub(crate) psmc: Option<Spread>,
    pub(crate) pings: Option<Pings>,
}

/// A part of what could be, and of how much of it is asked.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Share {
    pub(crate) percent: f64,
    least: f64,
}

/// The same for programs. Units are in the names: `_mbps` 10^6 bit/s, `_ms` milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct JsonRow {
    profile: &'static str,
    inner: &'static str,
    path_a_mbps: Option<f64>,
    path_b_mbps: Option<f64>,
    sum_mbps: Option<f64>,
    links_mbps: f64,
    better_link_mbps: f64,
    mptcp_mbps: Option<f64>,
    psmc_mbps: Option<f64>,
    of_links_pct: Option<f64>,
    of_links_suffices: Option<bool>,
    of_better_link_pct: Option<f64>,
    of_better_link_suffices: Option<bool>,
    ping_idle_ms: Option<f64>,
    ping_p50_ms: Option<f64>,
    ping_p99_ms: Option<f64>,
}

impl Row {
    /// From those outcomes that belong to it.
    pub(super) fn new(profile: Profile, inner: Inner, outcomes: &[(Trial, Outcome)]) -> Self {
        let belongs = |trial: &Trial| trial.profile.name == profile.name && trial.inner == inner;
        let of = |way: Way| outcomes.iter().filter(move |(trial, _)| belongs(trial) && trial.way == way);
        let goodput = |way: Way| Spread::of(of(way).map(|(_, outcome)| outcome.goodput_mbps));
        Self {
            profile: profile.name,
            inner,
            links: profile.paths.map(|path| path.capacity_mbps(inner)),
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

    /// The tunnel's part of what the links carry together.
    pub(crate) fn of_links(&self) -> Option<Share> {
        self.share_of(self.all_links(), LEAST_OF_LINKS)
    }

    /// The tunnel's part of what the better link carries.
    pub(crate) fn of_better_link(&self) -> Option<Share> {
        self.share_of(self.better_link(), LEAST_OF_BETTER_LINK)
    }

    /// For programs.
    pub(crate) fn json(&self) -> JsonRow {
        let median = |spread: Option<Spread>| spread.map(|spread| round(spread.median));
        let ping = |value: fn(Pings) -> f64| self.pings.map(value).map(round);
        let percent = |share: Option<Share>| share.map(|share| round(share.percent));
        let (of_links, of_better_link) = (self.of_links(), self.of_better_link());
        JsonRow {
            profile: self.profile,
            inner: self.inner.name(),
            path_a_mbps: median(self.paths[0]),
            path_b_mbps: median(self.paths[1]),
            sum_mbps: self.sum().map(round),
            links_mbps: round(self.all_links()),
            better_link_mbps: round(self.better_link()),
            mptcp_mbps: median(self.mptcp),
            psmc_mbps: median(self.psmc),
            of_links_pct: percent(of_links),
            of_links_suffices: of_links.map(Share::suffices),
            of_better_link_pct: percent(of_better_link),
            of_better_link_suffices: of_better_link.map(Share::suffices),
            ping_idle_ms: ping(|pings| pings.idle_ms),
            ping_p50_ms: ping(|pings| pings.p50_ms),
            ping_p99_ms: ping(|pings| pings.p99_ms),
        }
    }

    fn all_links(&self) -> f64 {
        self.links.iter().sum()
    }

    fn better_link(&self) -> f64 {
        self.links[0].max(self.links[1])
    }

    fn share_of(&self, whole: f64, least: f64) -> Option<Share> {
        self.psmc.map(|psmc| Share { percent: 100.0 * psmc.median / whole, least })
    }
}

impl Share {
    /// Whether it is as much as is asked.
    pub(crate) fn suffices(self) -> bool {
        self.percent >= self.least
    }
}

impl Pings {
    fn medians(runs: &[Self]) -> Option<Self> {
        let median = |value: fn(&Self) -> f64| Some(Spread::of(runs.iter().map(value))?.median);
        Some(Self {
            idle_ms: median(|pings| pings.idle_ms)?,
            p50_ms: median(|pings| pings.p50_ms)?,
            p99_ms: median(|pings| pings.p99_ms)?,
        })
    }
}

/// Percent that the tunnel is asked to reach of what the links carry together.
pub(super) const LEAST_OF_LINKS: f64 = 90.0;

/// Percent that the tunnel is asked to reach of what the better link carries: a second path must not harm.
pub(super) const LEAST_OF_BETTER_LINK: f64 = 98.0;

/// To two decimals: no more of a measurement means anything.
fn round(number: f64) -> f64 {
    (number * 100.0).round() / 100.0
}
