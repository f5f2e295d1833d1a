//! What people get to see of many networks: their quantiles, and two records compared seed by seed.

use std::path::Path;

use super::record::{Entry, Record, ratio};
use crate::report::grid::{Cell, Grid};
use crate::report::plot::{Figure, Pen, Series, Shape};
use crate::report::{self, ReportError, cumulated};

/// The figures of all networks, and those of another build if there are some.
#[derive(Clone, Debug)]
pub(crate) struct Report<'a> {
    pub(crate) record: &'a Record,
    /// With its name.
    pub(crate) other: Option<(&'a str, &'a Record)>,
}

/// Text, and a table below it.
type Section = (String, Grid);

/// A figure of a network.
type Value = fn(&Entry) -> Option<f64>;

/// What is asked of a network.
type Bar = (&'static str, fn(&Entry) -> bool);

impl Report<'_> {
    /// For a terminal.
    pub(crate) fn text(&self) -> String {
        let sections = self.sections();
        let sections: Vec<_> =
            sections.iter().map(|(words, grid)| format!("{words}\n\n{}", grid.text())).collect();
        sections.join("\n")
    }

    /// For a page.
    pub(crate) fn markdown(&self) -> String {
        let sections = self.sections();
        let sections: Vec<_> =
            sections.iter().map(|(words, grid)| format!("{words}:\n\n{}", grid.markdown())).collect();
        sections.join("\n")
    }

    /// Draws how the ratios are distributed.
    pub(crate) fn write_plot(&self, path: &Path) -> Result<(), ReportError> {
        report::write_svg(path, self.figure().svg()).map(drop)
    }

    fn sections(&self) -> Vec<Section> {
        let Record { networks, .. } = self.record;
        let mut sections = vec![
            (title(self.record), quantiles(&GOODPUT_HEADER, networks, &GOODPUT, 3)),
            ("pings beside the flow".to_owned(), quantiles(&PING_HEADER, networks, &PINGS, 1)),
            ("networks that have what is asked".to_owned(), self.bars()),
            ("the worst".to_owned(), worst(networks)),
        ];
        if let Some((name, other)) = self.other {
            let comparison = Comparison::of(other, self.record);
            sections.push((
                format!("against {name}, which has {} of them", comparison.len()),
                comparison.distribution(),
            ));
            sections.push(("the least and the most of what they had".to_owned(), comparison.extremes()));
        }
        sections
    }

    fn bars(&self) -> Grid {
        let Record { split, .. } = self.record;
        let of_goodput = if self.record.is_flood() { &OF_SUM } else { &OF_ALONE };
        let of_flood = OF_FLOOD.iter().filter(|_| *split);
        let row = |(words, holds): &Bar| {
            let share = |record: &Record| Cell::fixed(percent(&record.networks, holds), 1);
            let before = self.other.map_or(Cell::Absent, |(_, other)| share(other));
            vec![Cell::text(*words), share(self.record), before]
        };
        Grid::new(&["what", "networks (%)", "before (%)"])
            .with_rows(of_goodput.iter().chain(of_flood).chain(&OF_PINGS).map(row))
    }

    fn figure(&self) -> Figure {
        let ours = curves(self.record).map(|(label, pen, points)| (label.to_owned(), pen, points));
        let theirs = self.other.into_iter().flat_map(|(name, other)| {
            curves(other).map(move |(label, pen, points)| (format!("{label}, {name}"), pen.other(), points))
        });
        let series = ours.chain(theirs).map(|(label, pen, points)| Series {
            label,
            points,
            shape: Shape::Line,
            pen: Some(pen),
        });
        Figure {
            title: title(self.record),
            axes: [
                "goodput through the tunnel, of what it is compared with",
                "networks that have at most so much (%)",
            ],
            x: 0.0..MOST_SHOWN,
            series: series.collect(),
            marks: Vec::new(),
        }
    }
}

fn title(record: &Record) -> String {
    let what =
        if record.is_flood() { "a flood of UDP" } else { &format!("one flow of TCP ({})", record.flow) };
    let ends = if record.split { ", ended at the sites," } else { "" };
    let how = if record.real { "real packets" } else { "simulated" };
    format!(
        "{}, {} of them: {what}{ends} for {} s, {how}",
        record.source,
        record.networks.len(),
        record.seconds
    )
}

/// The distributions of the ratios that there are, as far as the axis reaches.
fn curves(record: &Record) -> impl Iterator<Item = (&'static str, Pen, Vec<(f64, f64)>)> {
    GOODPUT.iter().enumerate().filter_map(|(number, (words, value))| {
        let values: Vec<_> = record.networks.iter().filter_map(value).collect();
        let points = cumulated(values).into_iter().take_while(|point| point.0 <= MOST_SHOWN);
        let points: Vec<_> = points.collect();
        (!points.is_empty()).then(|| (*words, Pen::nth(number), points))
    })
}

/// Those without a value are left out.
fn quantiles<const N: usize>(
    (header, percents): &([&'static str; N], [f64; 6]),
    networks: &[Entry],
    values: &[(&str, Value)],
    decimals: usize,
) -> Grid {
    let row = |(words, value): &(&str, Value)| {
        let sorted = Sorted::of(networks.iter().filter_map(value));
        let quantiles = percents.iter().map(|&percent| sorted.quantile(percent));
        let cells: Vec<_> = quantiles.map(|quantile| Cell::fixed(quantile, decimals)).collect();
        let is_absent = cells.iter().all(|cell| *cell == Cell::Absent);
        (!is_absent).then(|| [vec![Cell::text(*words)], cells].concat())
    };
    Grid::new(header).with_rows(values.iter().filter_map(row))
}

fn worst(networks: &[Entry]) -> Grid {
    let mut networks: Vec<_> = networks.iter().collect();
    networks.sort_by(|a, b| a.main_ratio().total_cmp(&b.main_ratio()));
    Grid::new(&WORST_HEADER).with_rows(networks.into_iter().take(WORST).map(cells))
}

fn cells(network: &Entry) -> Vec<Cell> {
    vec![
        Cell::count(network.seed),
        Cell::fixed(network.goodput_mbps, 2),
        Cell::fixed(network.alone_mbps, 2),
        Cell::fixed(network.one_mbps, 2),
        Cell::fixed(network.of_alone(), 2),
        Cell::fixed(network.of_one(), 2),
        Cell::fixed(network.of_sum(), 2),
        Cell::fixed(network.ping_p99_ms, 0),
        Cell::text(&network.spec),
    ]
}

const GOODPUT_HEADER: ([&str; 7], [f64; 6]) =
    (["goodput", "1 %", "5 %", "10 %", "25 %", "50 %", "75 %"], [1.0, 5.0, 10.0, 25.0, 50.0, 75.0]);

const GOODPUT: [(&str, Value); 5] = [
    ("of the best link alone", Entry::of_alone),
    ("of the sum of the links", |network| Some(network.of_sum())),
    ("of a flood", Entry::of_flood),
    ("of one link with all rates", Entry::of_one),
    ("gain over the best link alone", |network| network.one_mbps.and(network.gain())),
];

const PING_HEADER: ([&str; 7], [f64; 6]) = (
    ["round trip (ms)", "25 %", "50 %", "75 %", "90 %", "95 %", "99 %"],
    [25.0, 50.0, 75.0, 90.0, 95.0, 99.0],
);

const PINGS: [(&str, Value); 3] = [
    ("median", |network| network.ping_p50_ms),
    ("99th percentile", |network| network.ping_p99_ms),
    ("99th percentile, beyond the nearest link's", Entry::ping_beyond_ms),
];

const OF_ALONE: [Bar; 2] = [
    ("at least 0.98 of the best link alone", |network| network.of_alone().is_some_and(|ratio| ratio >= 0.98)),
    ("at least 0.90 of the best link alone", |network| network.of_alone().is_some_and(|ratio| ratio >= 0.90)),
];

const OF_SUM: [Bar; 2] = [
    ("at least 0.88 of the sum", |network| network.of_sum() >= 0.88),
    ("at least 0.70 of the sum", |network| network.of_sum() >= 0.70),
];

const OF_FLOOD: [Bar; 1] =
    [("at least 0.93 of a flood", |network| network.of_flood().is_some_and(|ratio| ratio >= 0.93))];

const OF_PINGS: [Bar; 1] =
    [("99 of 100 pings within 60 ms beyond the nearest link's round trip", |network| {
        network.ping_beyond_ms().is_some_and(|beyond| beyond <= 60.0)
    })];

const WORST_HEADER: [&str; 9] =
    ["seed", "goodput", "alone", "as one", "of alone", "of one", "of sum", "p99 (ms)", "network"];

/// How many of them are shown.
const WORST: usize = 10;

/// The most of anything that is compared that the plot shows.
const MOST_SHOWN: f64 = 2.5;

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

/// Values in order.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Sorted(Vec<f64>);

impl Sorted {
    pub(super) fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<_> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        Self(values)
    }

    /// What so many percent of them are at most, between two of them in proportion; `None` if there are no values.
    pub(super) fn quantile(&self, percent: f64) -> Option<f64> {
        let place = percent / 100.0 * self.0.len().checked_sub(1)? as f64;
        #[expect(clippy::cast_possible_truncation, reason = "it is the number of a value")]
        let below = place as usize;
        let lower = *self.0.get(below)?;
        let upper = self.0.get(below + 1).copied().unwrap_or(lower);
        Some(lower + (upper - lower) * place.fract())
    }

    /// The mean of their logarithms, as a value; `None` if there are none.
    pub(super) fn geometric_mean(&self) -> Option<f64> {
        let logarithms: f64 = self.0.iter().map(|value| value.max(LEAST).ln()).sum();
        (!self.0.is_empty()).then(|| (logarithms / self.0.len() as f64).exp())
    }
}

/// The part of all for which it holds, in percent; `None` if there are none.
pub(super) fn percent<T>(all: &[T], holds: impl Fn(&T) -> bool) -> Option<f64> {
    let those = all.iter().filter(|one| holds(one)).count();
    (!all.is_empty()).then(|| 100.0 * those as f64 / all.len() as f64)
}

/// One that has nothing left must not make a mean nothing.
const LEAST: f64 = 0.001;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quantile_lies_between_two_values() {
        let values = Sorted::of([4.0, 1.0, 2.0, 3.0, 5.0]);
        let quantiles = [0.0, 10.0, 25.0, 50.0, 90.0, 100.0].map(|percent| values.quantile(percent));
        assert_eq!(quantiles, [1.0, 1.4, 2.0, 3.0, 4.6, 5.0].map(Some));
        assert_eq!(Sorted::of([7.0]).quantile(75.0), Some(7.0));
        assert_eq!(Sorted::of([]).quantile(50.0), None);
    }

    #[test]
    fn the_geometric_mean_of_a_ratio_and_its_inverse_is_one() {
        let mean = Sorted::of([0.25, 4.0, 1.0]).geometric_mean();
        assert!(mean.is_some_and(|mean| (mean - 1.0).abs() < 1e-12), "{mean:?}");
        assert!(Sorted::of([0.0, 1.0]).geometric_mean().is_some_and(|mean| mean > 0.0));
        assert_eq!(Sorted::of([]).geometric_mean(), None);
    }

    #[test]
    fn a_share_is_of_all() {
        assert_eq!(percent(&[1, 2, 3, 4], |&number| number > 1), Some(75.0));
        assert_eq!(percent(&[], |_: &i32| true), None);
    }
}
