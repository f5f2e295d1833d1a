//! Two records, seed by seed.

use super::quantile::Sorted;
use super::record::{Entry, Record, ratio};
use crate::report::grid::{Cell, Grid};

/// What became of the networks that both have.
pub(super) struct Comparison<'a> {
    /// In the order of what became of them, the worst first.
    changes: Vec<Change<'a>>,
}

struct Change<'a> {
    ratio: f64,
    before: &'a Entry,
    now: &'a Entry,
}

impl<'a> Comparison<'a> {
    /// `before` has only networks that the other one has, too.
    pub(super) fn of(before: &'a Record, now: &'a Record) -> Self {
        let change = |now: &'a Entry| {
            let before = before.networks.iter().find(|before| before.seed == now.seed)?;
            Some(Change { ratio: ratio(now.goodput_mbps, before.goodput_mbps), before, now })
        };
        let mut changes: Vec<_> = now.networks.iter().filter_map(change).collect();
        changes.sort_by(|a, b| a.ratio.total_cmp(&b.ratio));
        Self { changes }
    }

    /// How many networks both have.
    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }

    /// The distribution of the ratios.
    pub(super) fn distribution(&self) -> Grid {
        let ratios = Sorted::of(self.changes.iter().map(|change| change.ratio));
        let quantiles = QUANTILES.map(|percent| Cell::fixed(ratios.quantile(percent), 3));
        let mean = Cell::fixed(ratios.geometric_mean(), 4);
        let row = [Cell::text("of what it was"), mean].into_iter().chain(quantiles);
        Grid::new(&HEADER).with_rows([row.collect()])
    }

    /// Those that lost most, and those that gained most.
    pub(super) fn extremes(&self) -> Grid {
        let best = self.changes.len().saturating_sub(EXTREMES).max(EXTREMES.min(self.changes.len()));
        let shown = self.changes.iter().take(EXTREMES).chain(&self.changes[best..]);
        Grid::new(&["seed", "before", "now", "of it", "network"]).with_rows(shown.map(Change::cells))
    }
}

impl Change<'_> {
    fn cells(&self) -> Vec<Cell> {
        vec![
            Cell::count(self.now.seed),
            Cell::fixed(self.before.goodput_mbps, 2),
            Cell::fixed(self.now.goodput_mbps, 2),
            Cell::fixed(self.ratio, 2),
            Cell::text(&self.now.spec),
        ]
    }
}

const HEADER: [&str; 7] = ["goodput", "geometric mean", "5 %", "25 %", "50 %", "75 %", "95 %"];
const QUANTILES: [f64; 5] = [5.0, 25.0, 50.0, 75.0, 95.0];

/// How many of them are shown at either end.
const EXTREMES: usize = 5;
