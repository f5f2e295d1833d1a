//! Zone files (RFC 1035 §5).

use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};

use domain::base::iana::Class;
use domain::zonefile::inplace::{Entry, Zonefile};
use hickory_proto::rr::{Name, Record};
use hickory_proto::serialize::binary::BinDecodable;
use thiserror::Error;

use super::{Zone, ZoneError};

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
    #[error("the zone file {path} is wrong at line and column {place}")]
    Syntax {
        /// The file.
        path: PathBuf,
        /// Where, and what.
        place: String,
    },
    /// A record that cannot be served.
    #[error("the zone file {path} has a record of {name} that cannot be served")]
    Record {
        /// The file.
        path: PathBuf,
        /// The record's name.
        name: String,
    },
    /// Files include each other.
    #[error("the zone file {0} includes others, more than {MAX_DEPTH} deep: do they include each other?")]
    Depth(PathBuf),
    /// The records are no zone.
    #[error("the zone file {path} is no zone")]
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
    read_file(path, &origin.to_ascii(), 0, &mut records)?;
    Zone::new(origin, records).map_err(|source| ZoneFileError::Zone { path: path.to_owned(), source })
}

fn read_file(path: &Path, origin: &str, depth: usize, out: &mut Vec<Record>) -> Result<(), ZoneFileError> {
    if depth > MAX_DEPTH {
        return Err(ZoneFileError::Depth(path.to_owned()));
    }
    let unreadable = |source| ZoneFileError::Unreadable { path: path.to_owned(), source };
    let mut file = File::open(path).map_err(unreadable)?;
    let mut zonefile = Zonefile::load(&mut file).map_err(unreadable)?;
    let syntax = |place: String| ZoneFileError::Syntax { path: path.to_owned(), place };
    zonefile.set_origin(origin.parse().map_err(|_| syntax(format!("{origin} is no origin")))?);
    zonefile.set_default_class(Class::IN);
    while let Some(entry) = zonefile.next_entry().map_err(|error| syntax(error.to_string()))? {
        match entry {
            Entry::Record(record) => {
                let mut bytes = Vec::new();
                let written = record.compose(&mut bytes);
                let parsed = written.ok().and_then(|()| Record::from_bytes(&bytes).ok());
                out.push(parsed.ok_or_else(|| ZoneFileError::Record {
                    path: path.to_owned(),
                    name: record.owner().to_string(),
                })?);
            }
            Entry::Include { path: included, origin: below } => {
                let included = path.parent().unwrap_or(Path::new("")).join(&*included);
                let origin = below.map_or_else(|| origin.to_owned(), |below| format!("{below}."));
                read_file(&included, &origin, depth + 1, out)?;
            }
        }
    }
    Ok(())
}
