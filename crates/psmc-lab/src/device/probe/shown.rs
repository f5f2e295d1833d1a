//! What was seen, for people.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use psmc_sim::profiler::{Outcome, Passage, Phase, Trial};

use super::{Probed, Row, micros};
use crate::device::{Confidence, Figure};
use crate::report::grid::{Cell, Grid};
use crate::report::plot::{self, Series, Shape};
use crate::report::{ReportError, write_svg};

impl Row {
    pub(super) fn of(phase: Phase, trial: &Trial, outcome: &Outcome) -> Self {
        let all: Vec<&Passage> = outcome.streams.iter().flatten().collect();
        let mut delays: Vec<Duration> = all.iter().filter_map(|passage| passage.delay).collect();
        delays.sort_unstable();
        let of = |percent: usize| delays.get(delays.len().saturating_sub(1) * percent / 100).copied();
        let entered = all.iter().map(|passage| passage.entered);
        let left = all.iter().filter_map(|passage| Some(passage.entered + passage.delay?));
        Self {
            phase: name(phase).to_owned(),
            bytes: trial.streams.first().map_or(0, |stream| stream.len),
            offered: rate(all.len(), entered.clone().min(), entered.max()),
            delivered: rate(delays.len(), left.clone().min(), left.max()),
            loss: 1.0 - delays.len() as f64 / all.len().max(1) as f64,
            delay_us: [0, 50, 95].map(|percent| of(percent).map_or(0.0, micros)),
        }
    }
}

fn name(phase: Phase) -> &'static str {
    match phase {
        Phase::Delay => "delay",
        Phase::Rate => "rate",
        Phase::Servers => "servers",
        Phase::Queue => "queue",
    }
}

/// So many from the first to the last, per second.
fn rate(count: usize, first: Option<Duration>, last: Option<Duration>) -> f64 {
    let time = first.zip(last).map_or(0.0, |(first, last)| last.saturating_sub(first).as_secs_f64());
    if time > 0.0 { count.saturating_sub(1) as f64 / time } else { 0.0 }
}

/// The profile as a table, and what is to be known of it.
#[must_use]
pub fn table(probed: &Probed) -> String {
    let profile = &probed.profile;
    let sizes = profile.sizes.iter().map(|size| {
        vec![
            Cell::count(size.bytes),
            cell(&size.delay, 1e6),
            range(&size.delay, 1e6),
            cell(&size.served, 1.0),
            range(&size.served, 1.0),
            cell(&size.queued, 1.0),
            range(&size.queued, 1.0),
        ]
    });
    let header = ["bytes", "delay (µs)", "±", "served at once", "± ", "queued", "±  "];
    let ports = profile
        .ports
        .iter()
        .map(|port| format!("{} ports of {:.3} Mbit/s\n", port.count, port.rate as f64 / 1e6));
    let remarks = profile.provenance.remarks.iter().map(|remark| format!("note: {remark}\n"));
    let head = format!("{}: {}", profile.name, ports.collect::<String>());
    let body = Grid::new(&header).with_rows(sizes).text();
    format!("{head}{}\n\n{body}\n{}", probed.calibration.summary(), remarks.collect::<String>())
}

fn cell(figure: &Figure, scale: f64) -> Cell {
    let sign = match figure.confidence {
        Confidence::AtLeast => "≥ ",
        Confidence::Doubtful => "? ",
        Confidence::Measured | Confidence::Estimated => "",
    };
    let value = figure.estimate.value * scale;
    Cell::Number(format!("{sign}{value:.*}", if value < 100.0 { 2 } else { 1 }))
}

fn range(figure: &Figure, scale: f64) -> Cell {
    let ends = (figure.estimate.low * scale, figure.estimate.high * scale);
    Cell::range(Some(ends).filter(|(_, high)| high.is_finite()), 1)
}

/// Draws delays by length, and what was lost under load, as SVG files in a directory, which is made if need be.
///
/// # Errors
/// If a file cannot be written.
pub fn plots(probed: &Probed, directory: &Path) -> Result<Vec<PathBuf>, ReportError> {
    fs::create_dir_all(directory)
        .map_err(|source| ReportError::Write { path: directory.to_owned(), source })?;
    let figures = [("delay.svg", delays(probed)), ("load.svg", load(probed))];
    figures.into_iter().map(|(name, figure)| write_svg(&directory.join(name), figure.svg())).collect()
}

fn delays(probed: &Probed) -> plot::Figure {
    let mut by_size: BTreeMap<usize, Vec<[f64; 3]>> = BTreeMap::new();
    for row in probed.trials.iter().filter(|row| row.phase == "delay") {
        by_size.entry(row.bytes).or_default().push(row.delay_us);
    }
    let series = ["least", "median", "95th percentile"].iter().enumerate().map(|(which, label)| {
        let mean = |rows: &Vec<[f64; 3]>| rows.iter().map(|row| row[which]).sum::<f64>() / rows.len() as f64;
        line((*label).to_owned(), by_size.iter().map(|(bytes, rows)| (*bytes as f64, mean(rows))).collect())
    });
    let title = format!("{}: delay at 50 packets/s, transmission included", probed.profile.name);
    figure(title, ["bytes of a packet", "delay (µs)"], series.collect())
}

fn load(probed: &Probed) -> plot::Figure {
    let phases = [("servers", "all ports, each to another"), ("queue", "all ports to one")];
    let series = phases.iter().map(|(phase, label)| {
        let rows = probed.trials.iter().filter(|row| row.phase == *phase);
        // The last trial of each length is the one that counts.
        let last: BTreeMap<usize, f64> = rows.map(|row| (row.bytes, 100.0 * row.loss)).collect();
        line((*label).to_owned(), last.into_iter().map(|(bytes, loss)| (bytes as f64, loss)).collect())
    });
    let title = format!("{}: loss at the rate of the lines", probed.profile.name);
    figure(title, ["bytes of a packet", "lost (%)"], series.collect())
}

fn line(label: String, points: Vec<(f64, f64)>) -> Series {
    Series { label, points, shape: Shape::Line, pen: None }
}

fn figure(title: String, axes: [&'static str; 2], series: Vec<Series>) -> plot::Figure {
    let most = series.iter().flat_map(|series| &series.points).map(|point| point.0).fold(1.0, f64::max);
    plot::Figure { title, axes, x: 0.0..most, series, marks: Vec::new() }
}
