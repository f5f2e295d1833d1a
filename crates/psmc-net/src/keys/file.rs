//! Private keys in files.

use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use nix::unistd::geteuid;
use thiserror::Error;
use zeroize::Zeroizing;

use super::{KeyError, PrivateKey};

/// Why a file yields no private key.
#[derive(Debug, Error)]
pub enum KeyFileError {
    /// There is no such file.
    #[error("key file {path} not found: create it with `umask 077; psmc genkey > {path}`")]
    Missing {
        /// The file.
        path: PathBuf,
    },
    /// The file is there but cannot be read.
    #[error("cannot read the key file {path}: is it a regular file owned by this user?")]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Others than its owner may read or write the file.
    #[error("the key file {path} is open to others (mode {mode:04o}): run `chmod 600 {path}`")]
    Exposed {
        /// The file.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
    },
    /// Somebody owns the file who could have put another key in it.
    #[error(
        "the key file {path} belongs to the user {owner}, who is another one: run `chown root {path}`, or make a key of your own"
    )]
    Foreign {
        /// The file.
        path: PathBuf,
        /// The number of its owner.
        owner: u32,
    },
    /// The file is empty, as `psmc genkey > FILE` leaves it when it fails.
    #[error("the key file {path} is empty: fill it with `psmc genkey > {path}`")]
    Empty {
        /// The file.
        path: PathBuf,
    },
    /// The file holds something else than one key.
    #[error("{path} is not a private key file: it must contain only the output of `psmc genkey`")]
    NotAKey {
        /// The file.
        path: PathBuf,
        /// What is wrong with its contents.
        source: KeyError,
    },
}

/// Reads a private key from a file that only its owner may touch: root, the user that runs this, or the owner of its directory, who
/// can put another file there anyway.
///
/// A public key in such a file goes unnoticed: nothing tells the two apart.
///
/// # Errors
/// [`KeyFileError`], whose text names the file and the remedy.
pub fn read_private_key(path: &Path) -> Result<PrivateKey, KeyFileError> {
    let mut file = File::open(path).map_err(|source| open_error(path, source))?;
    check_mode(path, &file)?;
    let text = read_bounded(&mut file).map_err(|source| unreadable(path, source))?;
    if text.trim_ascii().is_empty() {
        return Err(KeyFileError::Empty { path: path.into() });
    }
    parse(&text).map_err(|source| KeyFileError::NotAKey { path: path.into(), source })
}

fn open_error(path: &Path, source: io::Error) -> KeyFileError {
    if source.kind() == io::ErrorKind::NotFound {
        return KeyFileError::Missing { path: path.into() };
    }
    unreadable(path, source)
}

fn unreadable(path: &Path, source: io::Error) -> KeyFileError {
    KeyFileError::Unreadable { path: path.into(), source }
}

/// Looks at the open file rather than at its name, so that nobody swaps the file in between.
fn check_mode(path: &Path, file: &File) -> Result<(), KeyFileError> {
    let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
    if metadata.is_dir() {
        return Err(unreadable(path, io::ErrorKind::IsADirectory.into()));
    }
    let mode = metadata.permissions().mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(KeyFileError::Exposed { path: path.into(), mode });
    }
    let owner = metadata.uid();
    let owns_directory = || path.parent().is_some_and(|directory| is_owned_by(directory, owner));
    if owner != ROOT && owner != geteuid().as_raw() && !owns_directory() {
        return Err(KeyFileError::Foreign { path: path.into(), owner });
    }
    Ok(())
}

fn is_owned_by(directory: &Path, owner: u32) -> bool {
    // A name alone is beside the process.
    let directory = if directory.as_os_str().is_empty() { Path::new(".") } else { directory };
    fs::metadata(directory).is_ok_and(|metadata| metadata.uid() == owner)
}

fn read_bounded(file: &mut File) -> io::Result<Zeroizing<Vec<u8>>> {
    // With room from the start the buffer never moves, which would leave a copy of the key behind.
    let mut text = Zeroizing::new(Vec::with_capacity(MAX_FILE_LEN));
    let mut chunk = Zeroizing::new([0; MAX_FILE_LEN]);
    while text.len() < MAX_FILE_LEN {
        let room = MAX_FILE_LEN - text.len();
        match file.read(&mut chunk[..room])? {
            0 => break,
            len => text.extend_from_slice(&chunk[..len]),
        }
    }
    Ok(text)
}

fn parse(text: &[u8]) -> Result<PrivateKey, KeyError> {
    let text = std::str::from_utf8(text).map_err(|_| KeyError::NotBase64)?;
    PrivateKey::from_base64(text)
}

/// The user who may do everything anyway.
const ROOT: u32 = 0;

/// Permission bits that let somebody else than the owner in.
const OTHERS: u32 = 0o077;

/// How much of a file is read, in bytes: a key and generous white space; more is no key file.
const MAX_FILE_LEN: usize = 256;

#[cfg(test)]
mod tests {
    use std::fs::OpenOptions;
    use std::io::Write;
    use std::os::unix::fs::OpenOptionsExt;

    use super::*;

    /// A file of its own for each test; removed when dropped.
    struct TestFile(PathBuf);

    impl TestFile {
        fn new(name: &str, mode: u32, contents: &str) -> Self {
            let path = std::env::temp_dir().join(format!("psmc-{}-{name}.key", std::process::id()));
            let mut file = OpenOptions::new().create_new(true).write(true).mode(mode).open(&path).unwrap();
            file.write_all(contents.as_bytes()).unwrap();
            Self(path)
        }

        fn read(&self) -> Result<PrivateKey, KeyFileError> {
            read_private_key(&self.0)
        }
    }

    impl Drop for TestFile {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.0);
        }
    }

    #[test]
    fn reads_what_genkey_writes() {
        let key = PrivateKey::generate();
        let file = TestFile::new("good", 0o600, &format!("{}\n", *key.to_base64()));
        assert_eq!(file.read().unwrap().public(), key.public());
    }

    #[test]
    fn every_complaint_names_the_file_and_the_remedy() {
        let key = PrivateKey::generate().to_base64();
        let exposed = TestFile::new("exposed", 0o640, &key);
        let empty = TestFile::new("empty", 0o600, "\n");
        let wrong = TestFile::new("wrong", 0o600, "-----BEGIN PRIVATE KEY-----");
        let long = TestFile::new("long", 0o600, &" ".repeat(MAX_FILE_LEN));
        for (file, remedy) in [
            (&exposed, "chmod 600 "),
            (&empty, "psmc genkey > "),
            (&wrong, "psmc genkey"),
            (&long, "psmc genkey"),
        ] {
            let complaint = file.read().unwrap_err().to_string();
            assert!(complaint.contains(remedy), "{complaint}");
            assert!(complaint.contains(&*file.0.to_string_lossy()), "{complaint}");
        }
    }

    #[test]
    fn only_who_owns_the_directory_or_root_may_own_the_key() {
        let key = PrivateKey::generate().to_base64();
        let nobody = Some(65_534);
        let foreign = TestFile::new("foreign", 0o600, &key);
        std::os::unix::fs::chown(&foreign.0, nobody, None).expect("this test needs root");
        assert!(matches!(foreign.read(), Err(KeyFileError::Foreign { owner: 65_534, .. })));
        let directory = foreign.0.with_extension("dir");
        fs::create_dir(&directory).unwrap();
        let file = TestFile(directory.join("key"));
        fs::rename(&foreign.0, &file.0).unwrap();
        let before = file.read();
        std::os::unix::fs::chown(&directory, nobody, None).unwrap();
        let after = file.read();
        fs::remove_dir_all(&directory).unwrap();
        assert!(matches!(before, Err(KeyFileError::Foreign { .. })), "{before:?}");
        after.unwrap();
    }

    #[test]
    fn a_missing_file_is_told_from_an_unreadable_one() {
        let missing = read_private_key(Path::new("/nonexistent/psmc.key")).unwrap_err();
        assert!(missing.to_string().ends_with("`umask 077; psmc genkey > /nonexistent/psmc.key`"));
        let file = TestFile::new("directory", 0o600, "");
        let below = read_private_key(&file.0.join("key")).unwrap_err();
        assert!(matches!(below, KeyFileError::Unreadable { .. }), "{below}");
        let directory = read_private_key(Path::new("/")).unwrap_err();
        assert!(matches!(directory, KeyFileError::Unreadable { .. }), "{directory}");
    }
}
