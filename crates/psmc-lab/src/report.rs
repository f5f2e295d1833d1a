//! Results for people and for programs: tables, JSON, plots.

mod figures;
pub mod grid;
pub mod plot;
mod table;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::results::Results;
use psmc_service::output;

pub(crate) use figures::cumulated;
pub use table::table;

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
