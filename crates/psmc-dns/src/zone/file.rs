//! Zone files (RFC 1035 §5), with what name servers have added: `$TTL` (RFC 2308 §4), times with units, `$GENERATE`.

mod data;
mod entry;
mod generate;
mod lexer;
mod location;
mod parameters;

use std::io;
use std::path::{Path, PathBuf};

use hickory_proto::rr::{Name, Record};
use thiserror::Error;

use super::{Zone, ZoneError};
pub(super) use entry::is_meta;
use entry::{Context, Entry};
use lexer::Lines;

/// Why a file is no zone.
#[derive(Debug, Error)]
pub enum ZoneFileError {
    /// It cannot be read.
    #[error("cannot read the zone file {path}: check the path, and that this user may read it")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A line is wrong.
    #[error("the zone file {path} is wrong at line {line}: {reason}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Which line, from 1.
        line: usize,
        /// What is wrong with it.
        reason: String,
    },
    /// Files include each other.
    #[error("the zone file {0} includes others, more than {MAX_DEPTH} deep: do they include each other?")]
    Depth(PathBuf),
    /// The records are no zone.
    #[error("the zone file {path} does not contain a valid zone")]
    Zone {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        source: ZoneError,
    },
}

/// Files that include others, one below the other, at most.
const MAX_DEPTH: usize = 8;

/// Reads a zone from its file. Included files are looked for beside the one that includes them.
///
/// # Errors
/// [`ZoneFileError`].
pub fn read_zone_file(path: &Path, origin: &Name) -> Result<Zone, ZoneFileError> {
    let mut records = Vec::new();
    read_file(path, &mut Context::new(origin), 0, &mut records)?;
    Zone::new(origin, records).map_err(|source| ZoneFileError::Zone { path: path.to_owned(), source })
}

/// The records of a zone file that includes no other; what is wrong with it otherwise, and in which line.
///
/// # Errors
/// The number of the line, from 1, and what is wrong with it.
pub fn read_zone_text(text: &[u8], origin: &Name) -> Result<Vec<Record>, (usize, String)> {
    let (mut lines, mut context, mut records) = (Lines::new(text), Context::new(origin), Vec::new());
    while let Some(line) = lines.next().map_err(|(line, reason)| (line, reason.to_owned()))? {
        match context.read(&line).map_err(|reason| (line.number, reason))? {
            Entry::Records(found) => records.extend(found),
            Entry::Nothing => {}
            Entry::Include { .. } => return Err((line.number, "it includes another file".to_owned())),
        }
    }
    Ok(records)
}

fn read_file(
    path: &Path,
    context: &mut Context,
    depth: usize,
    out: &mut Vec<Record>,
) -> Result<(), ZoneFileError> {
    if depth > MAX_DEPTH {
        return Err(ZoneFileError::Depth(path.to_owned()));
    }
    let text =
        std::fs::read(path).map_err(|source| ZoneFileError::Unreadable { path: path.to_owned(), source })?;
    let mut lines = Lines::new(&text);
    let wrong = |line, reason| ZoneFileError::Syntax { path: path.to_owned(), line, reason };
    while let Some(line) = lines.next().map_err(|(line, reason)| wrong(line, reason.to_owned()))? {
        match context.read(&line).map_err(|reason| wrong(line.number, reason))? {
            Entry::Records(records) => out.extend(records),
            Entry::Nothing => {}
            Entry::Include { path: included, origin } => {
                let included = path.parent().unwrap_or(Path::new("")).join(included);
                // What the included file says of origin and names ends with it (RFC 1035 §5.1).
                read_file(&included, &mut context.below(origin), depth + 1, out)?;
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
