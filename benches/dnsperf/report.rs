//! How the results are printed.

use std::fmt::Write;

use serde_json::{Value, json};

use crate::measure::Figures;
use crate::servers::Kind;
use crate::spread::Spread;
use crate::zone::Load;

/// What was measured of one server.
pub(crate) struct Row {
    pub(crate) kind: Kind,
    /// By load, in the order in which it was measured.
    pub(crate) figures: [Vec<Figures>; Load::COUNT],
}

/// What is compared.
type Figure = fn(&Figures) -> f64;

const FIGURES: [(&str, Figure, usize); 2] = [
    ("thousand questions/s", |figures| figures.per_second / 1e3, 1),
    ("median, µs", |figures| figures.median_us, 0),
];

impl Row {
    pub(crate) fn new(kind: Kind) -> Self {
        Self { kind, figures: Default::default() }
    }

    pub(crate) fn name(&self) -> &'static str {
        self.kind.name()
    }

    fn of(&self, load: Load, figure: Figure) -> Vec<f64> {
        let place = Load::ALL.iter().position(|other| *other == load).unwrap_or_default();
        self.figures[place].iter().map(figure).collect()
    }
}

/// Tables as docs/performance.md has them: medians, and in parentheses the smallest and the largest of all runs.
pub(crate) fn markdown(rows: &[Row]) -> String {
    let mut text = String::new();
    // Writing to a text cannot fail, here and below.
    for row in rows {
        let _ = writeln!(text, "- {}: {}", row.name(), row.kind.origin());
    }
    let Some(ours) = rows.first() else { return text };
    for load in Load::ALL {
        let _ = write!(text, "\n| {} |", load.label());
        for (title, _, _) in FIGURES {
            let _ = write!(text, " {title} | {} / it |", ours.name());
        }
        let _ = writeln!(text, "\n|---|---|---|---|---|");
        for (place, row) in rows.iter().enumerate() {
            let _ = write!(text, "| {} |", row.name());
            for (_, figure, decimals) in FIGURES {
                let (own, others) = (ours.of(load, figure), row.of(load, figure));
                let ratio =
                    if place == 0 { "–".to_owned() } else { Spread::of_ratios(&own, &others).text(2) };
                let _ = write!(text, " {} | {ratio} |", Spread::of(&others).text(decimals));
            }
            text.push('\n');
        }
    }
    let _ =
        writeln!(text, "\n| with routes / without, for addresses | questions/s | median |\n|---|---|---|");
    for row in rows {
        let [rate, time] = FIGURES.map(|(_, figure, _)| cost_of_routes(row, figure).text(2));
        let _ = writeln!(text, "| {} | {rate} | {time} |", row.name());
    }
    text
}

/// Of a question for an address: in the zone with routes, by that in the zone without.
fn cost_of_routes(row: &Row, figure: Figure) -> Spread {
    Spread::of_ratios(&row.of(Load::AddressesBeside, figure), &row.of(Load::Addresses, figure))
}

/// The same for programs.
pub(crate) fn json(rows: &[Row]) -> String {
    let servers: Vec<Value> = rows.iter().map(|row| json_of(row, &rows[0])).collect();
    format!("{:#}\n", json!({ "servers": servers }))
}

fn json_of(row: &Row, ours: &Row) -> Value {
    let loads = Load::ALL.map(|load| {
        let figures: serde_json::Map<_, _> = FIGURES
            .iter()
            .map(|(title, figure, _)| {
                let (own, runs) = (ours.of(load, *figure), row.of(load, *figure));
                let ratio = Spread::of_ratios(&own, &runs).json();
                ((*title).to_owned(), json!({ "runs": runs, "ours_by_it": ratio }))
            })
            .collect();
        json!({ "load": load.label(), "figures": figures })
    });
    json!({ "name": row.name(), "origin": row.kind.origin(), "loads": loads })
}
