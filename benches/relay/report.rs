//! How the results are printed.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::forwarders::Forwarder;
use crate::kit::spread::Spread;
use crate::load::Load;
use crate::measure::{Cost, Pace};

/// What was measured of one forwarder, in the order in which it was.
pub(crate) struct Row {
    pub(crate) name: String,
    origin: String,
    /// Whether it is one of several chains.
    is_chain: bool,
    /// By load, everything on one core.
    pub(crate) together: [Vec<Cost>; Load::COUNT],
    /// By load, the forwarder on a core of its own.
    pub(crate) apart: [Vec<Cost>; Load::COUNT],
    /// At the same rate for all.
    pub(crate) steady: Vec<Pace>,
    /// At half of what the first one could do.
    pub(crate) half: Vec<Pace>,
}

/// A figure that is compared.
type Figure = fn(&Cost) -> Option<f64>;

type PaceFigure = fn(&Pace) -> Option<f64>;

/// What is compared: the figure, what it is called, and how many decimals it is worth.
const FIGURES: [(&str, Figure, usize); 5] = [
    ("process µs/packet", |cost| cost.process_us, 2),
    ("machine µs/packet", |cost| Some(cost.machine_us), 2),
    ("thousand packets/s", |cost| Some(cost.rate / 1e3), 0),
    ("Gb/s", Cost::gigabits, 2),
    ("lost %", |cost| Some(cost.lost * 100.0), 2),
];

/// What is compared at a given rate.
const PACE_FIGURES: [(&str, PaceFigure, usize); 5] = [
    ("process µs/packet", |pace| pace.process_us, 2),
    ("median, µs", |pace| Some(pace.median_us), 1),
    ("99th percentile, µs", |pace| Some(pace.p99_us), 1),
    ("thousand packets/s", |pace| Some(pace.rate / 1e3), 1),
    ("left out, %", |pace| Some(pace.left_out * 100.0), 2),
];

/// Where the programs run when costs are measured, and how many of the figures are compared by their ratios.
const PLACES: [(&str, Costs, usize); 2] =
    [("all on one core", |row| &row.together, 3), ("on a core of its own", |row| &row.apart, 1)];

type Costs = fn(&Row) -> &[Vec<Cost>; Load::COUNT];

/// At what rates datagrams come evenly.
const RATES: [(&str, Paces); 2] = [("at 50,000/s", |row| &row.steady), ("at half load", |row| &row.half)];

type Paces = fn(&Row) -> &Vec<Pace>;

impl Row {
    pub(crate) fn new(forwarder: &dyn Forwarder, is_chain: bool) -> Self {
        Self {
            name: forwarder.name(),
            origin: forwarder.origin(),
            is_chain,
            together: Default::default(),
            apart: Default::default(),
            steady: Vec::new(),
            half: Vec::new(),
        }
    }

    /// Whether it has no processes.
    fn is_kernel(&self) -> bool {
        self.steady.iter().all(|pace| pace.process_us.is_none())
    }
}

impl Cost {
    #[expect(clippy::cast_precision_loss, reason = "the length of a datagram")]
    fn gigabits(&self) -> Option<f64> {
        Some(self.rate * self.load.size as f64 * 8.0 / 1e9)
    }
}

/// One figure in all runs; empty if there is none.
fn of<T>(runs: &[T], figure: fn(&T) -> Option<f64>) -> Vec<f64> {
    runs.iter().filter_map(figure).collect()
}

/// Tables for people.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = String::new();
    for row in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}: {}", row.name, row.origin);
    }
    for (place, costs, _) in PLACES {
        for (name, figure, decimals) in FIGURES {
            heading(&mut text, &format!("{name}, {place}"), rows);
            for (index, load) in Load::all().enumerate() {
                line(&mut text, &load.label(), rows, |row| of(&costs(row)[index], figure), decimals);
            }
        }
    }
    for (rate, paces) in RATES {
        heading(&mut text, &format!("{} {rate}", Load::PACED.label()), rows);
        for (name, figure, decimals) in PACE_FIGURES {
            line(&mut text, name, rows, |row| of(paces(row), figure), decimals);
        }
    }
    text + &ratios_text(rows)
}

fn heading(text: &mut String, title: &str, rows: &[Row]) {
    let names: String = rows.iter().map(|row| format!("{:>28}", row.name)).collect();
    let _ = writeln!(text, "\n{title:<40}{names}");
}

fn line(text: &mut String, title: &str, rows: &[Row], values: impl Fn(&Row) -> Vec<f64>, decimals: usize) {
    let cell = |values: Vec<f64>| {
        let cell = if values.is_empty() { "-".to_owned() } else { Spread::of(&values).text(decimals) };
        format!("{cell:>28}")
    };
    let cells: String = rows.iter().map(|row| cell(values(row))).collect();
    let _ = writeln!(text, "{title:<40}{cells}");
}

/// The first forwarder's figures by each other's, with what is compared and with whom.
fn ratios(rows: &[Row]) -> Vec<(String, &str, Spread)> {
    let Some((ours, others)) = rows.split_first() else { return Vec::new() };
    let mut ratios = Vec::new();
    for other in others {
        let mut compare = |what: String, ours: Vec<f64>, theirs: Vec<f64>| {
            if !ours.is_empty() && !theirs.is_empty() {
                ratios.push((what, other.name.as_str(), Spread::of_ratios(&ours, &theirs)));
            }
        };
        for (place, costs, compared) in PLACES {
            for (name, figure, _) in &FIGURES[..compared] {
                for (index, load) in Load::all().enumerate() {
                    let what = format!("{name}, {place}, {}", load.label());
                    compare(what, of(&costs(ours)[index], *figure), of(&costs(other)[index], *figure));
                }
            }
        }
        for (rate, paces) in RATES {
            let (name, figure, _) = PACE_FIGURES[0];
            let what = format!("{name}, {} {rate}", Load::PACED.label());
            compare(what, of(paces(ours), figure), of(paces(other), figure));
        }
    }
    ratios
}

/// How much later than the kernel's, which comes last, the first one's datagrams arrive: median and 99th percentile.
fn added(rows: &[Row], paces: Paces) -> Option<[Spread; 2]> {
    let [ours, .., kernel] = rows else { return None };
    if !kernel.is_kernel() {
        return None;
    }
    let added = |figure: fn(&Pace) -> f64| {
        let pairs = paces(ours).iter().zip(paces(kernel));
        Spread::of(&pairs.map(|(ours, kernel)| figure(ours) - figure(kernel)).collect::<Vec<_>>())
    };
    Some([added(|pace| pace.median_us), added(|pace| pace.p99_us)])
}

/// What each further relay of a chain costs, in microseconds of CPU time per datagram, under each load.
fn per_hop(rows: &[Row]) -> Vec<(Load, Spread)> {
    let [first, .., last] = rows else { return Vec::new() };
    if rows.iter().any(|row| !row.is_chain) {
        return Vec::new();
    }
    let each = |(index, load): (usize, Load)| {
        let [one, all]: [Vec<f64>; 2] =
            [first, last].map(|row| of(&row.together[index], |cost| cost.process_us));
        let further = u32::try_from(rows.len() - 1).map_or(f64::INFINITY, f64::from);
        let costs: Vec<_> = one.iter().zip(&all).map(|(one, all)| (all - one) / further).collect();
        (load, Spread::of(&costs))
    };
    Load::all().enumerate().map(each).collect()
}

fn ratios_text(rows: &[Row]) -> String {
    let mut text = String::from("\n");
    for (what, other, ratio) in ratios(rows) {
        let _ = writeln!(text, "{} / {other}, {what}: {}", rows[0].name, ratio.text(2));
    }
    for (load, cost) in per_hop(rows) {
        let _ = writeln!(text, "each further relay, process µs/packet, {}: {}", load.label(), cost.text(2));
    }
    for (rate, paces) in RATES {
        if let (Some([median, p99]), Some(kernel)) = (added(rows, paces), rows.last()) {
            let (median, p99) = (median.text(1), p99.text(1));
            let name = &kernel.name;
            let _ = writeln!(
                text,
                "delay {rate} added to that of {name}, in µs: median {median}, 99th percentile {p99}"
            );
        }
    }
    text
}

/// The same for programs.
pub(crate) fn json(rows: &[Row]) -> String {
    let ratios = ratios(rows)
        .into_iter()
        .map(|(figure, other, spread)| json!({ "figure": figure, "to": other, "ratio": spread.json() }));
    let added = RATES.into_iter().filter_map(|(rate, paces)| {
        let [median, p99] = added(rows, paces)?;
        Some(json!({ "rate": rate, "median_us": median.json(), "p99_us": p99.json() }))
    });
    let per_hop = per_hop(rows)
        .into_iter()
        .map(|(load, spread)| json!({ "size": load.size, "burst": load.burst, "process_us": spread.json() }));
    let report = json!({
        "each_further_relay": per_hop.collect::<Vec<_>>(),
        "forwarders": rows.iter().map(row_json).collect::<Vec<_>>(),
        "ratios": ratios.collect::<Vec<_>>(),
        "added_delays": added.collect::<Vec<_>>(),
    });
    format!("{report:#}\n")
}

fn row_json(row: &Row) -> Value {
    let costs = PLACES.into_iter().flat_map(|(place, costs, _)| {
        Load::all().zip(costs(row)).map(move |(load, runs)| {
            let figures = figures_json(FIGURES.map(|(name, figure, _)| (name, of(runs, figure))));
            json!({ "place": place, "size": load.size, "burst": load.burst, "figures": figures })
        })
    });
    let paces = RATES.into_iter().map(|(rate, paces)| {
        let figures = figures_json(PACE_FIGURES.map(|(name, figure, _)| (name, of(paces(row), figure))));
        json!({ "rate": rate, "figures": figures })
    });
    json!({
        "name": row.name,
        "origin": row.origin,
        "costs": costs.collect::<Vec<_>>(),
        "paces": paces.collect::<Vec<_>>(),
    })
}

fn figures_json<const N: usize>(figures: [(&str, Vec<f64>); N]) -> serde_json::Map<String, Value> {
    let measured = figures.into_iter().filter(|(_, runs)| !runs.is_empty());
    measured
        .map(|(name, runs)| (name.to_owned(), json!({ "runs": runs, "of_runs": Spread::of(&runs).json() })))
        .collect()
}
