//! What is kept over a restart: what was learned, alerts that stand, and what a coordinator has asked for.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread::{self, JoinHandle};

use serde::{Deserialize, Serialize};
use tempfile::NamedTempFile;
use thiserror::Error;

use crate::detect::Usual;
use crate::duty::Kept;

/// The version of the file.
const VERSION: u32 = 1;

/// The largest file that is read: ten thousand clients with four networks each have a fifth of it.
const MAX_BYTES: u64 = 16 << 20;

/// All that is kept.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The version of the file.
    pub version: u32,
    /// By service.
    pub services: BTreeMap<String, ServiceState>,
    /// What a coordinator has asked for.
    pub duty: Kept,
}

/// What is kept of a service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceState {
    /// What is usual, by the names of signals.
    pub usual: BTreeMap<String, Usual>,
    /// The name of the attack that goes on.
    pub alert: Option<String>,
}

/// Why nothing is known from before.
#[derive(Debug, Error)]
pub enum LoadError {
    /// The file cannot be read.
    #[error("cannot read {}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Something else is in it.
    #[error("{} does not contain a guard's state; moved to {}", path.display(), kept_as.display())]
    Corrupt {
        /// The file.
        path: PathBuf,
        /// Where it is, for whoever wants to see what was in it.
        kept_as: PathBuf,
    },
}

/// The file.
#[derive(Debug)]
pub struct Store {
    path: PathBuf,
    failed: bool,
}

impl Store {
    /// A file at `path`, which need not be there yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_owned(), failed: false }
    }

    /// What was kept; nothing if there is no file yet.
    ///
    /// # Errors
    /// [`LoadError`]. The guard can do without it.
    pub fn load(&self) -> Result<State, LoadError> {
        let text = match read_bounded(&self.path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(State::default()),
            Err(source) => return Err(LoadError::Unreadable { path: self.path.clone(), source }),
        };
        let state = serde_json::from_slice(&text).ok().filter(State::is_sound);
        state.ok_or_else(|| {
            let kept_as = self.path.with_extension("corrupt");
            // If that fails, the file is written over: it is of no use.
            let _ = fs::rename(&self.path, &kept_as);
            LoadError::Corrupt { path: self.path.clone(), kept_as }
        })
    }

    /// Keeps a state: whole, or not at all. What fails is told once, until it works again.
    pub fn save(&mut self, state: &State) {
        let outcome = write(&self.path, state);
        let path = self.path.display();
        match &outcome {
            Ok(()) if self.failed => tracing::info!(%path, "state file writable again"),
            Err(error) if !self.failed => {
                tracing::error!(%error, %path, "cannot write the state file; learned limits will be lost at the next start");
            }
            Ok(()) | Err(_) => {}
        }
        self.failed = outcome.is_err();
    }
}

/// Keeps states in the background: a disk that is slow holds up nobody. The last one is kept before this is gone.
#[derive(Debug)]
pub struct Keeper {
    states: Option<mpsc::Sender<State>>,
    thread: Option<JoinHandle<()>>,
}

impl Keeper {
    /// Starts with a file.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub fn start(mut store: Store) -> io::Result<Self> {
        let (states, to_keep) = mpsc::channel::<State>();
        let thread = thread::Builder::new().name("keeper".to_owned()).spawn(move || {
            while let Ok(first) = to_keep.recv() {
                store.save(&to_keep.try_iter().last().unwrap_or(first));
            }
        })?;
        Ok(Self { states: Some(states), thread: Some(thread) })
    }

    /// Keeps a state, soon.
    pub fn keep(&self, state: State) {
        if let Some(states) = &self.states {
            // The thread ends only with this.
            let _ = states.send(state);
        }
    }
}

impl Drop for Keeper {
    fn drop(&mut self) {
        self.states = None;
        if let Some(thread) = self.thread.take() {
            // It has told what went wrong.
            let _ = thread.join();
        }
    }
}

impl State {
    /// A state of this version.
    #[must_use]
    pub fn new(services: BTreeMap<String, ServiceState>, duty: Kept) -> Self {
        Self { version: VERSION, services, duty }
    }

    fn is_sound(&self) -> bool {
        let usual = self.services.values().flat_map(|service| service.usual.values());
        self.version == VERSION && usual.into_iter().all(Usual::is_sound)
    }
}

fn read_bounded(path: &Path) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    File::open(path)?.take(MAX_BYTES).read_to_end(&mut text)?;
    Ok(text)
}

/// Beside the file, and then in its place.
fn write(path: &Path, state: &State) -> io::Result<()> {
    let directory = path.parent().filter(|directory| !directory.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    let mut file = NamedTempFile::new_in(directory)?;
    file.write_all(&serde_json::to_vec(state)?)?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> State {
        let usual = Usual { level: 1.5, high: 2.0, learned_s: 60.0 };
        let service = ServiceState {
            usual: BTreeMap::from([("packets".to_owned(), usual)]),
            alert: Some("hq-1".to_owned()),
        };
        State::new(BTreeMap::from([("www.example.com".to_owned(), service)]), Kept::default())
    }

    #[test]
    fn what_was_kept_is_found() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("new").join("hq.json");
        let mut store = Store::new(&path);
        assert_eq!(store.load().unwrap(), State::default());
        store.save(&state());
        assert_eq!(store.load().unwrap(), state());
        assert_eq!(fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn a_corrupt_file_is_set_aside() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("hq.json");
        let unsound = serde_json::to_string(&state()).unwrap().replace("1.5", "-1.5");
        for text in ["", "{", "{\"version\":1}", &unsound] {
            fs::write(&path, text).unwrap();
            let mut store = Store::new(&path);
            assert!(matches!(store.load(), Err(LoadError::Corrupt { .. })), "{text}");
            assert_eq!(fs::read_to_string(path.with_extension("corrupt")).unwrap(), text);
            store.save(&state());
            assert_eq!(store.load().unwrap(), state());
        }
    }

    #[test]
    fn a_full_disk_leaves_what_was_there() {
        let mut store = Store::new(Path::new("/proc/self/hq.json"));
        store.save(&state());
        assert!(store.failed);
    }
}
