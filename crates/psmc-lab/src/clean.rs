//! What a lab leaves behind if it is killed, and how it is removed.
//!
//! Namespaces, links, sockets and the programs that the lab has started go with it: the kernel sees to that. What can
//! stay is a process that such a program has started in its turn, and the directory of the run. So each lab registers
//! itself: a file in the state directory, locked for as long as the lab lives, says which namespaces are its own and
//! where its directory is. The kernel takes the lock from a lab that dies, however it dies.

mod entry;
mod inhabitants;
mod registration;
mod state;

use std::fs::{self, File, TryLockError};
use std::io;
use std::path::{Path, PathBuf};

use entry::Entry;
use state::StateDirectory;

pub use registration::{RegisterError, Registration};

/// A dead lab that was cleaned up.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Removed {
    /// The number of its process.
    pub pid: u32,
    /// How many processes lived in its namespaces.
    pub killed: usize,
    /// Its directory, if that was still there.
    pub directory: Option<PathBuf>,
}

/// Why a dead lab could not be cleaned up.
#[derive(Debug, thiserror::Error)]
#[error("cannot remove what the lab in {} left behind", path.display())]
pub struct CleanError {
    /// What could not be read or removed.
    pub path: PathBuf,
    /// What the system said.
    pub source: io::Error,
}

/// Removes everything that dead labs of this user have left. Living labs are not touched.
///
/// # Errors
/// The first thing that could not be read or removed; what comes before it is done.
pub fn clean() -> Result<Vec<Removed>, CleanError> {
    let mut removed = Vec::new();
    for directory in StateDirectory::existing() {
        // No lab may register meanwhile: between making its file and locking it, it would look dead.
        let _alone = directory.lock().map_err(failed(directory.path()))?;
        for path in directory.entries().map_err(failed(directory.path()))? {
            removed.extend(clean_up(&path).map_err(failed(&path))?);
        }
    }
    Ok(removed)
}

fn failed(path: &Path) -> impl FnOnce(io::Error) -> CleanError {
    let path = path.to_owned();
    |source| CleanError { path, source }
}

/// Cleans up after the lab with this entry, unless it lives.
fn clean_up(path: &Path) -> io::Result<Option<Removed>> {
    let file = File::open(path)?;
    match file.try_lock() {
        Ok(()) => {}
        Err(TryLockError::WouldBlock) => return Ok(None),
        Err(TryLockError::Error(error)) => return Err(error),
    }
    let mut removed = None;
    // A lab that died before it had written anything had not made anything either.
    if let Some(entry) = Entry::read(&file)? {
        let killed = if entry.is_of_this_boot() { inhabitants::kill_in(&entry.namespaces) } else { 0 };
        let directory = remove_directory(&entry.directory)?.then_some(entry.directory);
        removed = Some(Removed { pid: entry.pid, killed, directory });
    }
    fs::remove_file(path)?;
    Ok(removed)
}

/// Removes a directory; says whether there was one.
fn remove_directory(path: &Path) -> io::Result<bool> {
    match fs::remove_dir_all(path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
