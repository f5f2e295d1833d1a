//! Where configurations, logs and sockets are.

use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::DemoError;

/// A directory of ours, which is removed on drop unless the user wants to keep it.
pub(crate) enum Directory {
    Temporary(TempDir),
    Kept(PathBuf),
}

impl Directory {
    /// `keep`, which is made if it does not exist, or a new one where temporary files go.
    pub(crate) fn new(keep: Option<&Path>) -> Result<Self, DemoError> {
        let Some(path) = keep else {
            return temporary();
        };
        let made = fs::create_dir_all(path).and_then(|()| fs::canonicalize(path));
        made.map(Self::Kept).map_err(failed(path))
    }

    pub(crate) fn path(&self) -> &Path {
        match self {
            Self::Temporary(directory) => directory.path(),
            Self::Kept(path) => path,
        }
    }
}

/// Writes a file that only its owner can read, for it holds a private key.
pub(crate) fn write_private(path: &Path, text: &str) -> Result<(), DemoError> {
    let written = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()));
    written.map_err(failed(path))
}

fn temporary() -> Result<Directory, DemoError> {
    let made =
        tempfile::Builder::new().prefix("psmc-demo-").permissions(Permissions::from_mode(0o700)).tempdir();
    made.map(Directory::Temporary).map_err(failed(&std::env::temp_dir()))
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> DemoError {
    let path = path.to_owned();
    |source| DemoError::Directory { path, source }
}
