//! Results for people and for programs: tables, JSON, plots.

mod figures;
pub mod grid;
pub mod plot;

use std::path::{Path, PathBuf};
use std::{fs, io};

use psmc_service::output;
use serde::Serialize;

use self::grid::{Cell, Grid};
use crate::results::{
    CheckResult, Distribution, EventResult, LinkResult, Mode, PathResult, ProgramResult, Results, Sample,
    TrafficResult,
};

pub(crate) use figures::cumulated;

/// Why a report could not be written.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file or its directory could not be made.
    #[error("cannot write {}", path.display())]
    Write {
        /// The file or directory.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A value has no form in JSON.
    #[error("cannot write the results as JSON")]
    Json(#[from] serde_json::Error),
    /// A plot could not be drawn.
    #[error("cannot draw {name}")]
    Draw {
        /// The plot.
        name: String,
        /// Why.
        source: plot::DrawError,
    },
}

/// Writes results as JSON for people's eyes too; to standard output if the path is `-`.
///
/// # Errors
///
/// If the file cannot be written.
pub fn write_json(results: &impl Serialize, path: &Path) -> Result<(), ReportError> {
    let mut text = serde_json::to_string_pretty(results)?;
    text.push('\n');
    let written =
        if path == Path::new(STANDARD_OUTPUT) { output::print(&text) } else { fs::write(path, text) };
    written.map_err(|source| ReportError::Write { path: path.to_owned(), source })
}

/// Draws everything that the results have a series of, one SVG file each, into a directory, which is made if need be.
/// Returns the files.
///
/// # Errors
///
/// If a file cannot be written.
pub fn write_plots(results: &Results, directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
    fs::create_dir_all(directory)
        .map_err(|source| ReportError::Write { path: directory.to_owned(), source })?;
    let figures = figures::of(results);
    figures.iter().map(|(name, figure)| write_svg(&directory.join(name), figure.svg())).collect()
}

/// Writes a plot that was drawn.
///
/// # Errors
/// If it was not drawn, or cannot be written.
pub fn write_svg(path: &Path, svg: Result<String, plot::DrawError>) -> Result<PathBuf, ReportError> {
    let svg = svg.map_err(|source| ReportError::Draw { name: path.display().to_string(), source })?;
    fs::write(path, svg).map_err(|source| ReportError::Write { path: path.to_owned(), source })?;
    Ok(path.to_owned())
}

/// The name of a file that means standard output.
const STANDARD_OUTPUT: &str = "-";

/// Everything but the series: a table each of the traffic, the links, the paths of tunnels, the programs, the events,
/// the checks and the warnings.
#[must_use]
pub fn table(results: &Results) -> String {
    let tables = [
        heading(results),
        traffic(&results.traffic),
        grid(&LINKS, &results.links, link),
        grid(&PATHS, &results.paths, path),
        grid(&PROGRAMS, &results.programs, program),
        grid(&EVENTS, &results.events, event),
        grid(&CHECKS, &results.checks, check),
        results.warnings.iter().map(|warning| format!("warning: {warning}\n")).collect(),
    ];
    tables.into_iter().filter(|table| !table.is_empty()).collect::<Vec<_>>().join("\n")
}

fn heading(results: &Results) -> String {
    let of_what = match results.mode {
        Mode::Real => "real packets",
        Mode::Simulated => "virtual time",
    };
    format!("{}: {:.1} s of {of_what}, seed {}\n", results.scenario, results.duration_s, results.seed)
}

fn traffic(streams: &[TrafficResult]) -> String {
    let errors = streams.iter().filter_map(|stream| {
        stream.error.as_ref().map(|error| format!("{} ended early: {error}\n", stream.name))
    });
    grid(&TRAFFIC, streams, stream) + &errors.collect::<String>()
}

fn grid<T>(header: &[&'static str], items: &[T], row: fn(&T) -> Vec<Cell>) -> String {
    Grid::new(header).with_rows(items.iter().map(row)).text()
}

const TRAFFIC: [&str; 12] = [
    "traffic",
    "kind",
    "goodput (Mbit/s)",
    "received (MB)",
    "sent",
    "lost (%)",
    "reordered (%)",
    "gap (ms)",
    "min (ms)",
    "p50 (ms)",
    "p99 (ms)",
    "max (ms)",
];

fn stream(stream: &TrafficResult) -> Vec<Cell> {
    let latency = |value: fn(&Distribution) -> f64| Cell::fixed(stream.latency.as_ref().map(value), 2);
    let bulk = stream.kind != PING;
    vec![
        Cell::text(&stream.name),
        Cell::text(&stream.kind),
        Cell::fixed(bulk.then_some(stream.goodput_mbps), 2),
        Cell::fixed(bulk.then_some(stream.bytes as f64 / 1e6), 2),
        stream.sent.map_or(Cell::Absent, Cell::count),
        Cell::fixed(stream.loss_percent, 2),
        Cell::fixed(stream.reordered_percent, 2),
        Cell::fixed(stream.longest_gap_ms, 1),
        latency(|latency| latency.min_ms),
        latency(|latency| latency.p50_ms),
        latency(|latency| latency.p99_ms),
        latency(|latency| latency.max_ms),
    ]
}

const LINKS: [&str; 7] = ["link", "from", "to", "rate (Mbit/s)", "packets", "lost (%)", "dropped (%)"];

fn link(link: &LinkResult) -> Vec<Cell> {
    vec![
        Cell::text(&link.name),
        Cell::text(&link.from),
        Cell::text(&link.to),
        Cell::fixed(link.rate_mbps, 2),
        Cell::count(link.packets),
        Cell::fixed(link.lost_percent, 2),
        Cell::fixed(link.dropped_percent, 2),
    ]
}

const PATHS: [&str; 6] = ["tunnel", "path", "sent (Mbit/s)", "received (Mbit/s)", "rtt (ms)", "max rtt (ms)"];

fn path(path: &PathResult) -> Vec<Cell> {
    let rtt = path.rtt_series_ms.iter().map(|sample| sample.value);
    vec![
        Cell::text(&path.tunnel),
        Cell::text(&path.path),
        Cell::fixed(mean(&path.sent_series_mbps), 2),
        Cell::fixed(mean(&path.received_series_mbps), 2),
        Cell::fixed(mean(&path.rtt_series_ms), 2),
        Cell::fixed(rtt.reduce(f64::max), 2),
    ]
}

const PROGRAMS: [&str; 3] = ["program", "exit status", "log"];

fn program(program: &ProgramResult) -> Vec<Cell> {
    let exit =
        program.exit_status.map_or_else(|| Cell::text("running"), |status| Cell::text(status.to_string()));
    vec![Cell::text(&program.name), exit, Cell::text(&program.log)]
}

const EVENTS: [&str; 3] = ["at (s)", "late (ms)", "event"];

fn event(event: &EventResult) -> Vec<Cell> {
    let late_ms = (event.happened_s - event.at_s) * 1e3;
    vec![Cell::fixed(event.at_s, 3), Cell::fixed(late_ms, 1), Cell::text(&event.what)]
}

const CHECKS: [&str; 3] = ["check", "measured", "what must hold"];

fn check(check: &CheckResult) -> Vec<Cell> {
    let holds = if check.ok { "ok" } else { "FAILED" };
    vec![Cell::text(holds), Cell::fixed(check.value, 2), Cell::text(&check.what)]
}

fn mean(series: &[Sample]) -> Option<f64> {
    let sum: f64 = series.iter().map(|sample| sample.value).sum();
    (!series.is_empty()).then(|| sum / series.len() as f64)
}

/// The kind of traffic that carries nothing.
const PING: &str = "ping";

#[cfg(test)]
mod tests;
