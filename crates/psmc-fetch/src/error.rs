//! Why a file could not be fetched.

use std::io;
use std::path::PathBuf;

/// Why there is no file. Mirrors that fail are no reason as long as one works.
#[derive(Debug, thiserror::Error)]
pub(crate) enum FetchError {
    #[error("{} exists; remove it, or name another file with --output", .0.display())]
    Exists(PathBuf),
    #[error("{} is in use; does another psmc fetch it?", .0.display())]
    InUse(PathBuf),
    #[error("{} is too long a name for this file system; name a shorter one with --output", .0.display())]
    TooLong(PathBuf),
    #[error("cannot write {}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("no mirror has the file:\n{0}")]
    NoMirror(String),
    #[error("all mirrors have failed; run the same command again to go on with what has arrived:\n{0}")]
    AllFailed(String),
    #[error(
        "the mirrors disagree about the file, and none of these versions is at more of them than another; give only \
         mirrors of the one that you want:\n{0}"
    )]
    Disagree(String),
    #[error(
        "the file is not the one you want: its SHA-256 is {found}. It is kept as {}; if the mirrors are wrong, add \
         --restart to fetch it anew from others", part.display()
    )]
    Hash { found: String, part: PathBuf },
    #[error("interrupted; run the same command again to go on")]
    Interrupted,
}
