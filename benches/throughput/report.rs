//! How the results are printed.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde_json::{Value, json};

use crate::kit::spread::Spread;
use crate::measure::Measure;
use crate::tunnels::Tunnel;

/// The tunnel whose ratio to the others is printed.
const OURS: &str = "psmc";

/// The measurements of one tunnel, in the order in which they were made.
pub(crate) struct Row {
    name: &'static str,
    origin: String,
    figures: BTreeMap<Measure, Vec<f64>>,
}

impl Row {
    pub(crate) fn new(tunnel: &dyn Tunnel) -> Self {
        Self { name: tunnel.name(), origin: tunnel.origin(), figures: BTreeMap::new() }
    }

    pub(crate) fn push(&mut self, measure: Measure, figure: f64) {
        self.figures.entry(measure).or_default().push(figure);
    }

    fn of(&self, measure: Measure) -> Option<&[f64]> {
        self.figures.get(&measure).map(Vec::as_slice)
    }
}

/// A table for people: a section for each measure.
pub(crate) fn table(rows: &[Row], measures: &[Measure]) -> String {
    let mut text = String::new();
    for &measure in measures {
        // Writing to a string cannot fail.
        let _ = writeln!(
            text,
            "| {} | median | min | max | {OURS} / it |\n|---|---|---|---|---|",
            measure.title()
        );
        for row in rows {
            let Some(figures) = row.of(measure) else { continue };
            let Spread { median, min, max } = Spread::of(figures);
            let ratio = ratio(rows, row, measure).map_or_else(|| "–".to_owned(), |ratio| ratio.text(2));
            let _ = writeln!(text, "| {} | {median:.2} | {min:.2} | {max:.2} | {ratio} |", row.name);
        }
        text.push('\n');
    }
    for row in rows {
        let _ = writeln!(text, "- {}: {}", row.name, row.origin);
    }
    text
}

/// The same for programs, in the units of the table.
pub(crate) fn json(rows: &[Row], measures: &[Measure]) -> String {
    let tunnels = rows.iter().map(|row| json!({ "name": row.name, "origin": row.origin }));
    let tunnels = tunnels.collect::<Vec<_>>();
    let measures = measures
        .iter()
        .map(|&measure| json!({ "title": measure.title(), "rows": of_measure(rows, measure) }));
    let measures = measures.collect::<Vec<_>>();
    format!("{:#}\n", json!({ "tunnels": tunnels, "ratios_of": OURS, "measures": measures }))
}

fn of_measure(rows: &[Row], measure: Measure) -> Vec<Value> {
    let of_row = |row: &Row| {
        let figures = row.of(measure)?;
        let ratio = ratio(rows, row, measure).map(|ratio| ratio.json());
        Some(
            json!({ "name": row.name, "runs": figures, "spread": Spread::of(figures).json(), "ratio": ratio }),
        )
    };
    rows.iter().filter_map(of_row).collect()
}

/// Ours to another's: of the runs that were neighbours in time, so that a change of the machine's mood cancels out.
fn ratio(rows: &[Row], other: &Row, measure: Measure) -> Option<Spread> {
    let ours = rows.iter().find(|row| row.name == OURS && row.name != other.name)?;
    Some(Spread::of_ratios(ours.of(measure)?, other.of(measure)?))
}
