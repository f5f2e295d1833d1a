//! Where labs register.

use std::env;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;

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
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

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
