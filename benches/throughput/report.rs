//! How the results are printed.

use std::fmt::Write;

use serde_json::json;

use crate::kit::spread::Spread;
use crate::tunnels::Tunnel;

/// The tunnel whose ratio to the others is printed.
const OURS: &str = "psmc";

/// The measurements of one tunnel, in the order in which they were made.
pub(crate) struct Row {
    name: &'static str,
    origin: String,
    pub(crate) bits_per_second: Vec<f64>,
}

impl Row {
    pub(crate) fn new(tunnel: &dyn Tunnel) -> Self {
        Self { name: tunnel.name(), origin: tunnel.origin(), bits_per_second: Vec::new() }
    }
}

/// A table for people.
pub(crate) fn table(rows: &[Row]) -> String {
    let mut text = format!("{:<14}{:>8}{:>8}{:>8}   what ran\n", "Gb/s", "median", "min", "max");
    for row in rows {
        let Spread { median, min, max } = Spread::of(&row.bits_per_second);
        let [median, min, max] = [median, min, max].map(|rate| rate / 1e9);
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{:<14}{median:>8.2}{min:>8.2}{max:>8.2}   {}", row.name, row.origin);
    }
    for (other, Spread { median, min, max }) in ratios(rows) {
        let _ = writeln!(text, "{OURS} / {other}: {median:.2} ({min:.2} to {max:.2})");
    }
    text
}

/// The same for programs, rates in bits per second.
pub(crate) fn json(rows: &[Row]) -> String {
    let tunnels = rows.iter().map(|row| {
        let rates = &row.bits_per_second;
        let spread = Spread::of(rates).json();
        json!({ "name": row.name, "origin": row.origin, "runs": rates, "bits_per_second": spread })
    });
    let ratios =
        ratios(rows).into_iter().map(|(other, spread)| json!({ "to": other, "ratio": spread.json() }));
    let report = json!({
        "tunnels": tunnels.collect::<Vec<_>>(),
        "ratios_of": OURS,
        "ratios": ratios.collect::<Vec<_>>(),
    });
    format!("{report:#}\n")
}

/// Ours to each other's: of the runs that were neighbours in time, so that a change of the machine's mood cancels out.
fn ratios(rows: &[Row]) -> Vec<(&'static str, Spread)> {
    let Some(ours) = rows.iter().find(|row| row.name == OURS) else {
        return Vec::new();
    };
    let others = rows.iter().filter(|row| row.name != OURS);
    let ratio = |other: &Row| (other.name, Spread::of_ratios(&ours.bits_per_second, &other.bits_per_second));
    others.map(ratio).collect()
}
