//! How the results are printed.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::forwarders::Forwarder;
use crate::kit::spread::Spread;
use crate::load::Load;
use crate::measure::{Cost, Delay};

/// What was measured of one forwarder, in the order in which it was.
pub(crate) struct Row {
    pub(crate) name: String,
    origin: String,
    /// Whether it is one of several chains.
    is_chain: bool,
    /// By load.
    pub(crate) costs: [Vec<Cost>; Load::COUNT],
    pub(crate) delays: Vec<Delay>,
}

/// A figure that is compared.
type Figure = fn(&Cost) -> Option<f64>;

type DelayFigure = fn(&Delay) -> f64;

/// What is compared: the figure, what it is called, and how many decimals it is worth.
const FIGURES: [(&str, Figure, usize); 5] = [
    ("process µs/packet", |cost| cost.process_us, 2),
    ("machine µs/packet", |cost| Some(cost.machine_us), 2),
    ("thousand packets/s", |cost| Some(cost.rate / 1e3), 0),
    ("Gb/s", Cost::gigabits, 2),
    ("lost %", |cost| Some(cost.lost * 100.0), 2),
];

/// What is compared of delays.
const DELAY_FIGURES: [(&str, DelayFigure); 4] = [
    ("median, µs", |delay| delay.median_us),
    ("99th percentile, µs", |delay| delay.p99_us),
    ("thousand packets/s", |delay| delay.rate / 1e3),
    ("process busy, %", |delay| delay.busy.unwrap_or(0.0) * 100.0),
];

impl Row {
    pub(crate) fn new(forwarder: &dyn Forwarder, is_chain: bool) -> Self {
        Self {
            name: forwarder.name(),
            origin: forwarder.origin(),
            is_chain,
            costs: Default::default(),
            delays: Vec::new(),
        }
    }

    /// The rate at which its processes should be busy for half of the time, by what it has cost most recently.
    pub(crate) fn half_load(&self) -> Option<f64> {
        let costs = self.costs.iter().filter_map(|costs| costs.last());
        let us = costs.filter(|cost| cost.load == Load::DELAYED).find_map(|cost| cost.process_us)?;
        Some(0.5e6 / us)
    }

    /// One figure under one load, in all runs; empty if it has none.
    fn figures(&self, load: usize, figure: Figure) -> Vec<f64> {
        self.costs[load].iter().filter_map(figure).collect()
    }

    /// Whether it has no processes.
    fn is_kernel(&self) -> bool {
        self.figures(0, |cost| cost.process_us).is_empty()
    }

    fn delays(&self, figure: impl Fn(&Delay) -> f64) -> Vec<f64> {
        self.delays.iter().map(figure).collect()
    }
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "the length of a datagram")]
    fn gigabits(&self) -> Option<f64> {
        Some(self.rate * self.load.size as f64 * 8.0 / 1e9)
    }
}

/// Tables for people.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {}", row.name, row.origin);
    }
    for (name, figure, decimals) in FIGURES {
        let _ = writeln!(text, "\n{name:<24}{}", headings(rows));
        for (index, load) in Load::all().enumerate() {
            let cells: String = rows.iter().map(|row| cell(&row.figures(index, figure), decimals)).collect();
            let _ = writeln!(text, "{:<24}{cells}", load.label());
        }
    }
    let _ = writeln!(text, "\n{:<24}{}", "delay at half load", headings(rows));
    for (name, figure) in DELAY_FIGURES {
        let cells: String = rows.iter().map(|row| cell(&row.delays(figure), 1)).collect();
        let _ = writeln!(text, "{name:<24}{cells}");
    }
    text + &ratios_text(rows)
}

fn headings(rows: &[Row]) -> String {
    rows.iter().map(|row| format!("{:>26}", row.name)).collect()
}

/// Median, and in parentheses the smallest and the largest.
fn cell(values: &[f64], decimals: usize) -> String {
    if values.is_empty() {
        return format!("{:>26}", "-");
    }
    let Spread { median, min, max } = Spread::of(values);
    format!("{:>26}", format!("{median:.decimals$} ({min:.decimals$}–{max:.decimals$})"))
}

/// The first forwarder's figures by each other's, under each load, with the name of the figure.
fn ratios(rows: &[Row]) -> Vec<(&'static str, Load, &str, Spread)> {
    let Some((ours, others)) = rows.split_first() else { return Vec::new() };
    let mut ratios = Vec::new();
    for (name, figure, _) in &FIGURES[..3] {
        for (index, load) in Load::all().enumerate() {
            for other in others {
                let (ours, theirs) = (ours.figures(index, *figure), other.figures(index, *figure));
                if !ours.is_empty() && !theirs.is_empty() {
                    ratios.push((*name, load, other.name.as_str(), Spread::of_ratios(&ours, &theirs)));
                }
            }
        }
    }
    ratios
}

/// How much later than the kernel's, which comes last, the first one's datagrams arrive: median and 99th percentile.
fn added(rows: &[Row]) -> Option<[Spread; 2]> {
    let [ours, .., kernel] = rows else { return None };
    if !kernel.is_kernel() {
        return None;
    }
    let added = |figure: fn(&Delay) -> f64| {
        let pairs = ours.delays.iter().zip(&kernel.delays);
        Spread::of(&pairs.map(|(ours, kernel)| figure(ours) - figure(kernel)).collect::<Vec<_>>())
    };
    Some([added(|delay| delay.median_us), added(|delay| delay.p99_us)])
}

/// What each further relay of a chain costs, in microseconds of CPU time per datagram, under each load.
fn per_hop(rows: &[Row]) -> Vec<(Load, Spread)> {
    let [first, .., last] = rows else { return Vec::new() };
    if rows.iter().any(|row| !row.is_chain) {
        return Vec::new();
    }
    let each = |(index, load)| {
        let [one, all] = [first, last].map(|row| row.figures(index, |cost| cost.process_us));
        let further = u32::try_from(rows.len() - 1).map_or(f64::INFINITY, f64::from);
        let costs: Vec<_> = one.iter().zip(&all).map(|(one, all)| (all - one) / further).collect();
        (load, Spread::of(&costs))
    };
    Load::all().enumerate().map(each).collect()
}

fn ratios_text(rows: &[Row]) -> String {
    let mut text = String::from("\n");
    for (name, load, other, Spread { median, min, max }) in ratios(rows) {
        let ours = &rows[0].name;
        let _ = writeln!(text, "{ours} / {other}, {name}, {}: {median:.2} ({min:.2}–{max:.2})", load.label());
    }
    for (load, Spread { median, min, max }) in per_hop(rows) {
        let label = load.label();
        let _ =
            writeln!(text, "each further relay, process µs/packet, {label}: {median:.2} ({min:.2}–{max:.2})");
    }
    if let (Some([median, p99]), Some(kernel)) = (added(rows), rows.last()) {
        let _ = writeln!(
            text,
            "delay added to that of {}: median {:.1} µs ({:.1}–{:.1}), 99th percentile {:.1} µs ({:.1}–{:.1})",
            kernel.name, median.median, median.min, median.max, p99.median, p99.min, p99.max
        );
    }
    text
}

/// The same for programs.
pub(crate) fn json(rows: &[Row]) -> String {
    let ratios = ratios(rows).into_iter().map(|(figure, load, other, spread)| {
        json!({ "figure": figure, "size": load.size, "burst": load.burst, "to": other, "ratio": spread.json() })
    });
    let added = added(rows).map(|[median, p99]| json!({ "median_us": median.json(), "p99_us": p99.json() }));
    let per_hop = per_hop(rows)
        .into_iter()
        .map(|(load, spread)| json!({ "size": load.size, "burst": load.burst, "process_us": spread.json() }));
    let report = json!({
        "each_further_relay": per_hop.collect::<Vec<_>>(),
        "forwarders": rows.iter().map(row_json).collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
        "added_delay": added,
    });
    format!("{report:#}\n")
}

fn row_json(row: &Row) -> Value {
    let loads = Load::all().enumerate().map(|(index, load)| {
        let figures: serde_json::Map<_, _> = FIGURES
            .iter()
            .map(|(name, figure, _)| (*name, row.figures(index, *figure)))
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| {
                (name.to_owned(), json!({ "runs": values, "of_runs": Spread::of(&values).json() }))
            })
            .collect();
        json!({ "size": load.size, "burst": load.burst, "figures": figures })
    });
    let delays: serde_json::Map<_, _> = DELAY_FIGURES
        .into_iter()
        .map(|(name, figure)| (name.to_owned(), json!(row.delays(figure))))
        .collect();
    json!({ "name": row.name, "origin": row.origin, "loads": loads.collect::<Vec<_>>(), "delays": delays })
}
