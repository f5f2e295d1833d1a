//! Other programs of PSMC, where they are installed: beside the one that runs, or on the PATH.

use std::env;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use thiserror::Error;

/// Programs are not installed.
#[derive(Debug, Error)]
#[error(
    "there is no {}: install it in {}, beside this program, or on the PATH (`cargo build{RELEASE} --bin {}` builds it)",
    names.join(", no "),
    beside.display(),
    names.join(" --bin ")
)]
pub struct NotInstalled {
    /// Their names.
    pub names: Vec<String>,
    /// The directory of the program that looked for them.
    pub beside: PathBuf,
}

/// How cargo is told to build it beside this one.
const RELEASE: &str = if cfg!(debug_assertions) { "" } else { " --release" };

/// The file of the program `name`: the one beside this program, or else the first one on the PATH.
///
/// # Errors
/// [`NotInstalled`].
pub fn find(name: &str) -> Result<PathBuf, NotInstalled> {
    let beside = own_directory();
    find_in(&beside, name).ok_or_else(|| NotInstalled { names: vec![name.to_owned()], beside })
}

/// Whether all of these programs are where [`find`] looks.
///
/// # Errors
/// [`NotInstalled`], with all that are missing.
pub fn require(names: &[&str]) -> Result<(), NotInstalled> {
    let beside = own_directory();
    let missing = names.iter().filter(|name| find_in(&beside, name).is_none());
    let names: Vec<_> = missing.map(|name| (*name).to_owned()).collect();
    if names.is_empty() { Ok(()) } else { Err(NotInstalled { names, beside }) }
}

/// The file of the program `name`: the one in `beside`, or else the first one on the PATH.
#[must_use]
pub fn find_in(beside: &Path, name: &str) -> Option<PathBuf> {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut places = std::iter::once(beside.to_owned()).chain(env::split_paths(&path));
    places.find_map(|place| Some(place.join(name)).filter(|file| is_executable(file)))
}

/// The directory of the program that runs.
#[must_use]
pub fn own_directory() -> PathBuf {
    // Linux does not know it where /proc is missing; then there is only the PATH.
    let directory = || Some(env::current_exe().ok()?.parent()?.to_owned());
    directory().unwrap_or_default()
}

/// Whether there is a program in a file.
#[must_use]
pub fn is_executable(file: &Path) -> bool {
    fs::metadata(file).is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_beside_comes_first() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("sh");
        let found = |beside: &Path| find_in(beside, "sh").unwrap();
        assert!(found(directory.path()).is_absolute() && found(directory.path()) != file);
        fs::write(&file, "").unwrap();
        assert_ne!(found(directory.path()), file, "nobody may run it");
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(found(directory.path()), file);
    }

    #[test]
    fn whoever_lacks_a_program_is_told_what_to_do() {
        let text = find("psmc-none").unwrap_err().to_string();
        assert!(text.starts_with("there is no psmc-none: install it in /"), "{text}");
        assert!(text.contains("--bin psmc-none`"), "{text}");
        let text = require(&["psmc-none", "sh", "psmc-nil"]).unwrap_err().to_string();
        assert!(text.starts_with("there is no psmc-none, no psmc-nil: install"), "{text}");
        assert!(text.contains("--bin psmc-none --bin psmc-nil`"), "{text}");
    }
}
