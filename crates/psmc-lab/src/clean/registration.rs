//! A lab that lives.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use psmc_service::clock::since_1970;
use psmc_testbed::netns::NamespaceId;

use super::entry::Entry;
use super::inhabitants;
use super::state::StateDirectory;

/// Why a lab could not register.
#[derive(Debug, thiserror::Error)]
pub enum RegisterError {
    /// There is no place for it.
    #[error("cannot register this lab in /run, $XDG_RUNTIME_DIR or the directory for temporary files")]
    State(#[source] io::Error),
    /// There is no place for its files.
    #[error("cannot make {}; choose another place with TMPDIR", path.display())]
    Directory {
        /// The directory.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
}

/// A lab that lives, and its directory. To drop it removes both, and kills whatever still runs in its namespaces.
#[derive(Debug)]
pub struct Registration {
    path: PathBuf,
    /// Its lock says that the lab lives.
    file: File,
    entry: Entry,
}

impl Registration {
    /// Registers a lab of this process, and makes a directory for it that only this user can read.
    ///
    /// # Errors
    /// [`RegisterError`].
    pub fn new() -> Result<Self, RegisterError> {
        let id = unique();
        let directory = std::env::temp_dir().join(format!("psmc-lab-{id}"));
        let registration = Self::register(&id, directory).map_err(RegisterError::State)?;
        let directory = registration.directory();
        let made = DirBuilder::new().mode(0o700).create(directory);
        made.map_err(|source| RegisterError::Directory { path: directory.to_owned(), source })?;
        Ok(registration)
    }

    /// Where its files are.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.entry.directory
    }

    /// Adds namespaces of the lab. To be called before any program runs in them.
    ///
    /// # Errors
    /// [`RegisterError::State`].
    pub fn add_namespaces(
        &mut self,
        ids: impl IntoIterator<Item = NamespaceId>,
    ) -> Result<(), RegisterError> {
        self.entry.namespaces.extend(ids);
        self.entry.write(&self.file).map_err(RegisterError::State)
    }

    fn register(id: &str, directory: PathBuf) -> io::Result<Self> {
        let state = StateDirectory::for_new_lab()?;
        let _alone = state.lock()?;
        let path = state.path().join(id);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path)?;
        file.lock()?;
        let entry = Entry::new(directory)?;
        entry.write(&file)?;
        Ok(Self { path, file, entry })
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        inhabitants::kill_in(&self.entry.namespaces);
        // What cannot be removed is left to `psmc-lab clean`, which says why it cannot.
        if super::remove_directory(&self.entry.directory).is_ok() {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// A name that no lab of this machine has had.
fn unique() -> String {
    static COUNT: AtomicU32 = AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let now = since_1970();
    format!("{}-{}-{count}", std::process::id(), now.as_millis())
}
