//! A lab that lives: where it registers, and what it says about itself.

use std::env;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use nix::unistd::geteuid;
use psmc_service::clock::since_1970;
use psmc_testbed::netns::NamespaceId;
use serde::{Deserialize, Serialize};

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
        super::kill_in(&self.entry.namespaces);
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

/// What a lab says about itself. Its file has one such object in a line; the last whole one counts, so that a lab may
/// be killed while it writes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Entry {
    /// The number of its process, for people.
    pub(super) pid: u32,
    /// Which start of the machine it lived in: after the next one its namespaces' numbers belong to others.
    boot: String,
    /// Where its keys, logs and sockets are; only what it has made itself.
    pub(super) directory: PathBuf,
    #[serde(with = "ids")]
    pub(super) namespaces: Vec<NamespaceId>,
}

impl Entry {
    /// The entry of this process.
    pub(super) fn new(directory: PathBuf) -> io::Result<Self> {
        Ok(Self { pid: std::process::id(), boot: boot_id()?, directory, namespaces: Vec::new() })
    }

    /// The last entry in a file; `None` if there is no whole one.
    pub(super) fn read(mut file: &File) -> io::Result<Option<Self>> {
        let mut text = String::new();
        file.read_to_string(&mut text)?;
        Ok(text.lines().rev().find_map(|line| serde_json::from_str(line).ok()))
    }

    /// Adds the entry to a file.
    pub(super) fn write(&self, mut file: &File) -> io::Result<()> {
        let mut line = serde_json::to_vec(self).map_err(io::Error::other)?;
        line.push(b'\n');
        file.write_all(&line)
    }

    pub(super) fn is_of_this_boot(&self) -> bool {
        boot_id().is_ok_and(|id| id == self.boot)
    }
}

fn boot_id() -> io::Result<String> {
    Ok(fs::read_to_string("/proc/sys/kernel/random/boot_id")?.trim().to_owned())
}

/// Namespaces as pairs of numbers.
mod ids {
    use psmc_testbed::netns::NamespaceId;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(ids: &[NamespaceId], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(ids.iter().map(|id| [id.inode, id.cookie]))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<NamespaceId>, D::Error> {
        let pairs = Vec::<[u64; 2]>::deserialize(input)?;
        Ok(pairs.into_iter().map(|[inode, cookie]| NamespaceId { inode, cookie }).collect())
    }
}

/// A directory in which labs of this user register, and nobody else can.
#[derive(Clone, Debug)]
pub(super) struct StateDirectory(PathBuf);

impl StateDirectory {
    /// The one for a new lab.
    pub(super) fn for_new_lab() -> io::Result<Self> {
        let mut refusal = io::Error::from(io::ErrorKind::NotFound);
        for path in candidates() {
            match make_own(&path) {
                Ok(()) => return Ok(Self(path)),
                Err(error) => refusal = error,
            }
        }
        Err(refusal)
    }

    /// All in which labs may have registered.
    pub(super) fn existing() -> impl Iterator<Item = Self> {
        candidates().into_iter().filter(|path| is_own(path)).map(Self)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Waits until nobody else has it locked, and locks it until the file is dropped.
    pub(super) fn lock(&self) -> io::Result<File> {
        let directory = File::open(&self.0)?;
        directory.lock()?;
        Ok(directory)
    }

    /// The files of all labs, dead or alive.
    pub(super) fn entries(&self) -> io::Result<Vec<PathBuf>> {
        fs::read_dir(&self.0)?.map(|entry| Ok(entry?.path())).collect()
    }
}

/// The best one first. Root's is where the system keeps such things; others may have a place of their own.
fn candidates() -> Vec<PathBuf> {
    let runtime = env::var_os("XDG_RUNTIME_DIR").map(|path| PathBuf::from(path).join("psmc-lab"));
    let temporary = env::temp_dir().join(format!("psmc-lab-of-{}", outer_uid()));
    [Some(PathBuf::from("/run/psmc-lab")), runtime, Some(temporary)].into_iter().flatten().collect()
}

fn make_own(path: &Path) -> io::Result<()> {
    match DirBuilder::new().mode(0o700).create(path) {
        Err(error) if error.kind() != io::ErrorKind::AlreadyExists => Err(error),
        Ok(()) | Err(_) if is_own(path) => Ok(()),
        Ok(()) | Err(_) => Err(io::Error::from(io::ErrorKind::PermissionDenied)),
    }
}

/// Whether it is a directory in which only this user can write. What lies in another one is not to be believed.
fn is_own(path: &Path) -> bool {
    let metadata = fs::symlink_metadata(path);
    metadata.is_ok_and(|it| it.is_dir() && it.uid() == geteuid().as_raw() && it.mode() & 0o022 == 0)
}

/// The user as the system at large knows it, also from inside a user namespace.
fn outer_uid() -> u32 {
    let inner = geteuid().as_raw();
    let map = fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map.lines().find_map(|line| map_uid(line, inner)).unwrap_or(inner)
}

/// A line of `uid_map` (user_namespaces(7)): first number inside, first number outside, how many.
fn map_uid(line: &str, inner: u32) -> Option<u32> {
    let mut numbers = line.split_whitespace().map(|number| number.parse::<u32>().ok());
    let (inside, outside, count) = (numbers.next()??, numbers.next()??, numbers.next()??);
    let offset = inner.checked_sub(inside).filter(|offset| *offset < count)?;
    outside.checked_add(offset)
}

#[cfg(test)]
mod tests {
    use std::io::{Seek, SeekFrom};
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn the_last_whole_line_counts() {
        let mut file = tempfile::tempfile().unwrap();
        let read = |file: &mut File| {
            file.seek(SeekFrom::Start(0)).unwrap();
            Entry::read(file).unwrap()
        };
        assert_eq!(read(&mut file), None);
        let mut entry = Entry::new(PathBuf::from("/tmp/psmc-lab-1")).unwrap();
        assert!(entry.is_of_this_boot());
        entry.write(&file).unwrap();
        entry.namespaces.push(NamespaceId { inode: 4_026_531_840, cookie: 7 });
        entry.write(&file).unwrap();
        assert_eq!(read(&mut file), Some(entry.clone()));
        file.write_all(b"{\"pid\":1,\"bo").unwrap();
        assert_eq!(read(&mut file), Some(entry));
    }

    #[test]
    fn only_a_directory_of_ones_own_is_used() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("state");
        make_own(&path).unwrap();
        make_own(&path).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o777)).unwrap();
        make_own(&path).unwrap_err();
        let link = base.path().join("link");
        symlink(base.path(), &link).unwrap();
        make_own(&link).unwrap_err();
    }

    #[test]
    fn users_are_mapped() {
        assert_eq!(map_uid("         0          0 4294967295", 1000), Some(1000));
        assert_eq!(map_uid("0 1000 1", 0), Some(1000));
        assert_eq!(map_uid("0 1000 1", 1), None);
        assert_eq!(map_uid("5 1000 1", 1), None);
        assert_eq!(map_uid("", 1), None);
    }
}
