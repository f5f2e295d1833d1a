//! What people get to see of many networks.

use std::path::Path;

use super::comparison::Comparison;
use super::quantile::{Sorted, percent};
use super::record::{Entry, Record};
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
        let of_goodput = if self.record.is_flood() { &OF_SUM } else { &OF_ALONE };
        let row = |(words, holds): &Bar| {
            let share = |record: &Record| Cell::fixed(percent(&record.networks, holds), 1);
            let before = self.other.map_or(Cell::Absent, |(_, other)| share(other));
            vec![Cell::text(*words), share(self.record), before]
        };
        Grid::new(&["what", "networks (%)", "before (%)"])
            .with_rows(of_goodput.iter().chain(&OF_PINGS).map(row))
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
    let how = if record.real { "real packets" } else { "simulated" };
    format!("{}, {} of them: {what} for {} s, {how}", record.source, record.networks.len(), record.seconds)
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

const GOODPUT: [(&str, Value); 4] = [
    ("of the best link alone", Entry::of_alone),
    ("of the sum of the links", |network| Some(network.of_sum())),
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
