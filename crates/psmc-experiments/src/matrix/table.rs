//! The matrix for people: a table and a plot.

use super::row::{LEAST_OF_BETTER_LINK, LEAST_OF_LINKS, Row, Share};
use psmc_lab::bench::Spread;
use psmc_lab::report::grid::{Cell, Grid};
use psmc_lab::report::plot::{Bar, Bars, Group, Panel};

/// All rows in one table.
pub(super) fn grid(rows: &[Row]) -> Grid {
    Grid::new(&HEADER).with_rows(rows.iter().map(cells))
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

const KEYS: [&str; 5] = ["path A", "path B", "sum", "MPTCP", "PSMC"];

fn group(row: &Row) -> Group {
    let bar = |spread: Spread| Bar { value: spread.median, low: spread.low, high: spread.high };
    let sum = row.sum().map(|value| Bar { value, low: value, high: value });
    let [a, b] = row.paths.map(|path| path.map(bar));
    Group { label: row.profile.to_owned(), bars: vec![a, b, sum, row.mptcp.map(bar), row.psmc.map(bar)] }
}
