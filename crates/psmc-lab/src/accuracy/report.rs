//! What was measured, for a terminal.

use super::{Accuracy, CapacityRow, ChanceRow, DelayRow, RateRow};
use crate::report::grid::{Cell, Grid};

/// A table of each kind of measurement, and what they mean.
#[must_use]
pub fn table(accuracy: &Accuracy) -> String {
    let tables = [
        "How much later packets arrive than they should:\n\n".to_owned(),
        Grid::new(&DELAY).with_rows(accuracy.delay.iter().map(delay)).text(),
        "\nWhat gets through, with less than one packet in a thousand lost:\n\n".to_owned(),
        Grid::new(&CAPACITY).with_rows(accuracy.capacity.iter().map(capacity)).text(),
        "\nThe rate of a link that is offered more:\n\n".to_owned(),
        Grid::new(&RATE).with_rows(accuracy.rate.iter().map(rate)).text(),
        "\nRandom effects, with 99 % confidence intervals:\n\n".to_owned(),
        Grid::new(&CHANCE).with_rows(accuracy.chance.iter().map(chance)).text(),
        accuracy.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect(),
    ];
    tables.concat()
}

const DELAY: [&str; 11] = [
    "emulator",
    "delay (ms)",
    "rate (Mbit/s)",
    "load (%)",
    "packets/s",
    "lost (%)",
    "p50 (µs)",
    "p99 (µs)",
    "max (µs)",
    "cpu (%)",
    "ok",
];

fn delay(row: &DelayRow) -> Vec<Cell> {
    vec![
        Cell::text(row.emulator),
        Cell::fixed(row.delay_ms, 0),
        row.rate_mbps.map_or(Cell::Absent, Cell::count),
        Cell::fixed(row.load_percent, 1),
        Cell::fixed(row.packets_per_second, 0),
        Cell::fixed(row.lost_percent, 2),
        Cell::fixed(row.p50_us, 1),
        Cell::fixed(row.p99_us, 1),
        Cell::fixed(row.max_us, 1),
        Cell::fixed(row.processor_percent, 0),
        verdict(row.ok),
    ]
}

const CAPACITY: [&str; 6] = ["emulator", "length (bytes)", "kpackets/s", "rate (Mbit/s)", "cpu (%)", "ok"];

fn capacity(row: &CapacityRow) -> Vec<Cell> {
    vec![
        Cell::text(row.emulator),
        Cell::count(row.length),
        Cell::fixed(row.packets_per_second / 1e3, 0),
        Cell::fixed(row.mbps, 0),
        Cell::fixed(row.processor_percent, 0),
        verdict(row.ok),
    ]
}

const RATE: [&str; 5] = ["emulator", "rate (Mbit/s)", "measured (Mbit/s)", "error (%)", "ok"];

fn rate(row: &RateRow) -> Vec<Cell> {
    vec![
        Cell::text(row.emulator),
        Cell::count(row.rate_mbps),
        Cell::fixed(row.measured_mbps, 4),
        Cell::fixed(row.error_percent, 3),
        verdict(row.ok),
    ]
}

const CHANCE: [&str; 8] = ["emulator", "what", "theory", "measured", "from", "to", "packets", "ok"];

fn chance(row: &ChanceRow) -> Vec<Cell> {
    vec![
        Cell::text(row.emulator),
        Cell::text(row.what),
        Cell::fixed(row.theory, 3),
        Cell::fixed(row.estimate.measured, 3),
        Cell::fixed(row.estimate.low, 3),
        Cell::fixed(row.estimate.high, 3),
        Cell::count(row.packets),
        verdict(row.ok),
    ]
}

/// Nothing about those of whom nothing was promised.
fn verdict(ok: Option<bool>) -> Cell {
    ok.map_or(Cell::Absent, |ok| Cell::text(if ok { "yes" } else { "no" }))
}
