//! What comes of all trials of a profile and a kind of flow; and the matrix of them for people, as a table and a plot.

use psmc_lab::bench::Spread;
use psmc_lab::report::grid::{Cell, Grid};
use psmc_lab::report::plot::{Bar, Bars, Group, Panel};
use serde::Serialize;

use super::Profile;
use super::trial::{Inner, Outcome, Pings, Trial, Way};

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
    /// Through the tunnel when its sites end TCP.
    pub(crate) split: Option<Spread>,
    pub(crate) split_pings: Option<Pings>,
    /// UDP through the tunnel, on the same profile.
    pub(crate) flood: Option<Spread>,
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
    split_mbps: Option<f64>,
    split_of_udp_pct: Option<f64>,
    split_ping_p50_ms: Option<f64>,
    split_ping_p99_ms: Option<f64>,
}

impl Row {
    /// From those outcomes that belong to it.
    pub(super) fn new(profile: Profile, inner: Inner, outcomes: &[(Trial, Outcome)]) -> Self {
        let belongs = |trial: &Trial| trial.profile.name == profile.name && trial.inner == inner;
        let of = |way: Way| outcomes.iter().filter(move |(trial, _)| belongs(trial) && trial.way == way);
        let goodput = |way: Way| Spread::of(of(way).map(|(_, outcome)| outcome.goodput_mbps));
        let pings =
            |way: Way| Pings::medians(&of(way).filter_map(|(_, outcome)| outcome.pings).collect::<Vec<_>>());
        let is_flood = |trial: &Trial| {
            (trial.profile.name, trial.inner, trial.way) == (profile.name, Inner::Udp, Way::Psmc)
        };
        let floods = outcomes.iter().filter(|(trial, _)| is_flood(trial));
        Self {
            profile: profile.name,
            inner,
            links: profile.paths.map(|path| path.capacity_mbps(inner)),
            paths: [goodput(Way::PathA), goodput(Way::PathB)],
            mptcp: goodput(Way::Mptcp),
            psmc: goodput(Way::Psmc),
            pings: pings(Way::Psmc),
            split: goodput(Way::Split),
            split_pings: pings(Way::Split),
            flood: Spread::of(floods.map(|(_, outcome)| outcome.goodput_mbps)),
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

    /// What a connection has that the sites end, in percent of what UDP has through the tunnel.
    pub(crate) fn split_of_udp(&self) -> Option<f64> {
        Some(100.0 * self.split?.median / self.flood?.median)
    }

    /// For programs.
    pub(crate) fn json(&self) -> JsonRow {
        let median = |spread: Option<Spread>| spread.map(|spread| round(spread.median));
        let ping = |value: fn(Pings) -> f64| self.pings.map(value).map(round);
        let split_ping = |value: fn(Pings) -> f64| self.split_pings.map(value).map(round);
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
            split_mbps: median(self.split),
            split_of_udp_pct: self.split_of_udp().map(round),
            split_ping_p50_ms: split_ping(|pings| pings.p50_ms),
            split_ping_p99_ms: split_ping(|pings| pings.p99_ms),
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

/// All rows in one table.
pub(super) fn grid(rows: &[Row]) -> Grid {
    Grid::new(&HEADER).with_rows(rows.iter().map(cells))
}

/// What becomes of connections that the sites end; `None` if nobody asked for it.
pub(super) fn ended(rows: &[Row]) -> Option<Grid> {
    let rows: Vec<_> = rows.iter().filter(|row| row.split.is_some()).collect();
    (!rows.is_empty()).then(|| Grid::new(&ENDED_HEADER).with_rows(rows.into_iter().map(ended_cells)))
}

/// A panel for each kind of flow, a group of bars for each profile.
pub(super) fn bars(rows: &[Row]) -> Bars {
    let mut inners: Vec<_> = rows.iter().map(|row| row.inner).collect();
    inners.sort_unstable();
    inners.dedup();
    let panel = |inner| {
        let groups = rows.iter().filter(|row| row.inner == inner).map(group);
        Panel { heading: format!("inner flow: {}", inner.words()), groups: groups.collect() }
    };
    Bars {
        title: "one flow over two paths".to_owned(),
        axis: "goodput (Mbit/s)",
        keys: KEYS.to_vec(),
        panels: inners.into_iter().map(panel).collect(),
    }
}

/// What stands above the table, for the units and the marks.
pub(super) fn caption() -> String {
    format!(
        "goodput in Mbit/s, round trips through the tunnel in ms; ! is less than {LEAST_OF_LINKS} % of what the links \
         can carry after all headers, or than {LEAST_OF_BETTER_LINK} % of what the better one can"
    )
}

/// What stands above the table of connections that are ended.
pub(super) fn ended_caption() -> &'static str {
    "the same when the sites end TCP, and UDP as fast as both links"
}

const ENDED_HEADER: [&str; 11] = [
    "profile",
    "inner",
    "MPTCP",
    "PSMC",
    "ended",
    "from–to",
    "of UDP (%)",
    "of MPTCP (%)",
    "of PSMC (%)",
    "loaded p50",
    "loaded p99",
];

fn ended_cells(row: &Row) -> Vec<Cell> {
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    let share = |of: Option<Spread>| Some(100.0 * median(row.split)? / median(of)?);
    vec![
        Cell::text(row.profile),
        Cell::text(row.inner.name()),
        Cell::fixed(median(row.mptcp), 1),
        Cell::fixed(median(row.psmc), 1),
        Cell::fixed(median(row.split), 1),
        Cell::range(row.split.map(Spread::range), 1),
        Cell::fixed(row.split_of_udp(), 1),
        Cell::fixed(share(row.mptcp), 0),
        Cell::fixed(share(row.psmc), 0),
        Cell::fixed(row.split_pings.map(|pings| pings.p50_ms), 1),
        Cell::fixed(row.split_pings.map(|pings| pings.p99_ms), 1),
    ]
}

const HEADER: [&str; 16] = [
    "profile",
    "inner",
    "path A",
    "path B",
    "sum",
    "MPTCP",
    "from–to",
    "PSMC",
    "from–to",
    "of sum (%)",
    "of links (%)",
    "of better link (%)",
    "of MPTCP (%)",
    "idle",
    "loaded p50",
    "loaded p99",
];

fn cells(row: &Row) -> Vec<Cell> {
    let median = |spread: Option<Spread>| spread.map(|spread| spread.median);
    let psmc = median(row.psmc);
    let share = |of: Option<f64>| Some(psmc? / of.filter(|of| *of > 0.0)? * 100.0);
    vec![
        Cell::text(row.profile),
        Cell::text(row.inner.name()),
        Cell::fixed(median(row.paths[0]), 1),
        Cell::fixed(median(row.paths[1]), 1),
        Cell::fixed(row.sum(), 1),
        Cell::fixed(median(row.mptcp), 1),
        Cell::range(row.mptcp.map(Spread::range), 1),
        Cell::fixed(psmc, 1),
        Cell::range(row.psmc.map(Spread::range), 1),
        Cell::fixed(share(row.sum()), 1),
        marked(row.of_links()),
        marked(row.of_better_link()),
        Cell::fixed(share(median(row.mptcp)), 0),
        Cell::fixed(row.pings.map(|pings| pings.idle_ms), 1),
        Cell::fixed(row.pings.map(|pings| pings.p50_ms), 1),
        Cell::fixed(row.pings.map(|pings| pings.p99_ms), 1),
    ]
}

/// A share, with a mark if it is too small.
fn marked(share: Option<Share>) -> Cell {
    let mark = |share: Share| if share.suffices() { "" } else { "! " };
    share.map_or(Cell::Absent, |share| Cell::Number(format!("{}{:.1}", mark(share), share.percent)))
}

const KEYS: [&str; 6] = ["path A", "path B", "sum", "MPTCP", "PSMC", "PSMC, TCP ended"];

fn group(row: &Row) -> Group {
    let bar = |spread: Spread| Bar { value: spread.median, low: spread.low, high: spread.high };
    let sum = row.sum().map(|value| Bar { value, low: value, high: value });
    let [a, b] = row.paths.map(|path| path.map(bar));
    let tunnels = [row.mptcp, row.psmc, row.split].map(|spread| spread.map(bar));
    Group { label: row.profile.to_owned(), bars: [a, b, sum].into_iter().chain(tunnels).collect() }
}
