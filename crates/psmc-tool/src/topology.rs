//! Networks in files, for the selection of relays and paths: TOML, JSON, GraphML, DOT, and lists of hops.
//!
//! `docs/SELECTION.md` describes the formats.

mod attributes;
mod dot;
mod graphml;
mod hops;
mod tables;
#[cfg(test)]
mod tests;

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use psmc_select::{Draft, TraceError};

/// Why a file is no network.
#[derive(Debug, thiserror::Error)]
pub enum TopologyError {
    /// The file cannot be read.
    #[error("cannot read {}: {}; check the path", .0.display(), .1)]
    Unreadable(PathBuf, io::Error),
    /// It is larger than any network that makes sense.
    #[error("{} is larger than {MAX_MIB} MiB; this is no network, check the path", .0.display())]
    TooLarge(PathBuf),
    /// Its name does not tell what it is.
    #[error("{} ends with none of .toml, .json, .graphml, .dot, .gv and .hops; rename it to say what it is", .0.display())]
    UnknownFormat(PathBuf),
    /// It is not what its name says.
    #[error("{} is no network: {}", .0.display(), .1)]
    Malformed(PathBuf, Malformed),
}

/// What is wrong with the text of a file.
#[derive(Debug, thiserror::Error)]
pub enum Malformed {
    /// Its TOML.
    #[error("{0}")]
    Toml(#[from] toml::de::Error),
    /// Its JSON.
    #[error("{0}")]
    Json(#[from] serde_json::Error),
    /// Its XML.
    #[error("{0}")]
    Xml(#[from] roxmltree::Error),
    /// Its traces.
    #[error("{0}")]
    Trace(#[from] TraceError),
    /// Something else, at a line.
    #[error("line {line}: {reason}")]
    Line {
        /// The line, from 1.
        line: usize,
        /// What is wrong, and what to do about it.
        reason: String,
    },
}

/// Makes a network of the text of a file.
type Parser = fn(&str) -> Result<Draft, Malformed>;

/// Reads a network. What it is, the end of its name says.
pub fn read(path: &Path) -> Result<Draft, TopologyError> {
    let parse = parser(path).ok_or_else(|| TopologyError::UnknownFormat(path.to_owned()))?;
    let unreadable = |error| TopologyError::Unreadable(path.to_owned(), error);
    if fs::metadata(path).map_err(unreadable)?.len() > MAX_MIB << 20 {
        return Err(TopologyError::TooLarge(path.to_owned()));
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    parse(&text).map_err(|cause| TopologyError::Malformed(path.to_owned(), cause))
}

/// Writes a network as TOML that [`read`] reads.
pub fn to_toml(draft: &Draft) -> Result<String, toml::ser::Error> {
    tables::to_toml(draft)
}

fn parser(path: &Path) -> Option<Parser> {
    match path.extension()?.to_str()? {
        "toml" => Some(tables::from_toml),
        "json" => Some(tables::from_json),
        "graphml" => Some(graphml::parse),
        "dot" | "gv" => Some(dot::parse),
        "hops" => Some(hops::parse),
        _ => None,
    }
}

/// Room for a million nodes with as many links, in the wordiest of the formats.
const MAX_MIB: u64 = 1024;
