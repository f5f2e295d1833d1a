//! The file while it is fetched.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256, digest};

use super::FetchError;
use super::journal::Journal;

/// `FILE.part`, and `FILE.part.json` beside it, until `FILE` is whole. Clones are of the same file.
#[derive(Clone, Debug)]
pub(super) struct Part {
    file: Arc<File>,
    output: PathBuf,
    path: PathBuf,
    journal: PathBuf,
    /// What the journal is called while it is written.
    fresh: PathBuf,
}

impl Part {
    /// Opens what a run before this one has left, or something new.
    pub(super) fn open(output: &Path) -> Result<Self, FetchError> {
        if output.exists() {
            return Err(FetchError::Exists(output.to_owned()));
        }
        if is_too_long(output) {
            return Err(FetchError::TooLong(output.to_owned()));
        }
        let stem = if is_too_long(&with_suffix(output, JOURNAL)) { short(output) } else { output.to_owned() };
        let path = with_suffix(&stem, ".part");
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|source| FetchError::Write { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FetchError::InUse(path)),
            Err(TryLockError::Error(source)) => return Err(FetchError::Write { path, source }),
        }
        let (journal, fresh) = (with_suffix(&stem, JOURNAL), with_suffix(&stem, ".part.new"));
        Ok(Self { file: Arc::new(file), output: output.to_owned(), path, journal, fresh })
    }

    /// What has arrived before.
    pub(super) fn journal(&self) -> Option<Journal> {
        Journal::load(&self.journal)
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Makes it as long as the whole file.
    pub(super) fn set_length(&self, length: u64) -> Result<(), FetchError> {
        self.file.set_len(length).map_err(|source| self.failed(source))
    }

    /// Throws away what has arrived, and the journal of it.
    pub(super) fn begin_anew(&self) -> Result<(), FetchError> {
        match fs::remove_file(&self.journal) {
            Err(source) if source.kind() != io::ErrorKind::NotFound => Err(self.failed(source)),
            Ok(()) | Err(_) => self.set_length(0),
        }
    }

    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), FetchError> {
        self.file.write_all_at(bytes, at).map_err(|source| self.failed(source))
    }

    /// Writes down what has arrived, after it is on the disk. Blocks.
    pub(super) fn save(&self, journal: &Journal) -> Result<(), FetchError> {
        let saved = self.file.sync_data().and_then(|()| journal.save(&self.journal, &self.fresh));
        saved.map_err(|source| FetchError::Write { path: self.journal.clone(), source })
    }

    /// Its SHA-256 in hexadecimal digits. Blocks.
    pub(super) fn hash(&self) -> Result<String, FetchError> {
        let mut context = Context::new(&SHA256);
        let mut file = self.file.as_ref();
        let mut buffer = vec![0; 1 << 20];
        file.rewind().map_err(|source| self.failed(source))?;
        loop {
            match file.read(&mut buffer) {
                Ok(0) => break,
                Ok(count) => context.update(&buffer[..count]),
                Err(source) => return Err(self.failed(source)),
            }
        }
        Ok(hex(context.finish().as_ref()))
    }

    /// Gives the whole file its name.
    pub(super) fn finish(&self) -> Result<(), FetchError> {
        self.file.sync_data().map_err(|source| self.failed(source))?;
        let failed = |source| FetchError::Write { path: self.output.clone(), source };
        // A link, unlike a new name, never replaces a file that somebody has made meanwhile. Some file systems have none.
        match fs::hard_link(&self.path, &self.output) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                return Err(FetchError::Exists(self.output.clone()));
            }
            Err(_) => fs::rename(&self.path, &self.output).map_err(failed)?,
        }
        self.discard();
        Ok(())
    }

    /// Removes it if nothing has ever arrived.
    pub(super) fn discard_if_new(&self) {
        if !self.journal.exists() {
            self.discard();
        }
    }

    /// Removes it and its journal, as far as they are there.
    pub(super) fn discard(&self) {
        // The file is whole, or not wanted: nobody is harmed by what stays.
        drop(fs::remove_file(&self.path));
        drop(fs::remove_file(&self.journal));
    }

    fn failed(&self, source: io::Error) -> FetchError {
        FetchError::Write { path: self.path.clone(), source }
    }
}

/// In lower case.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// What the name of the journal ends with: no other file beside the output has a longer name.
const JOURNAL: &str = ".part.json";

/// How much of a long name stays in those of the files beside it, in bytes: no file system has room for less.
const SHORT: usize = 64;

/// Whether a file system has no room for such a name.
fn is_too_long(path: &Path) -> bool {
    fs::symlink_metadata(path).is_err_and(|error| error.kind() == io::ErrorKind::InvalidFilename)
}

/// A name beside `output` that is short, and another one for each output.
fn short(output: &Path) -> PathBuf {
    let name = output.file_name().unwrap_or_default();
    let hash = hex(digest(&SHA256, name.as_encoded_bytes()).as_ref());
    let name = name.to_string_lossy();
    let begin = &name[..name.floor_char_boundary(SHORT)];
    output.with_file_name(format!("{begin}~{}", &hash[..16]))
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Ranges;

    #[test]
    fn a_name_as_long_as_can_be_leaves_room_for_the_files_beside_it() {
        let directory = tempfile::tempdir().unwrap();
        for length in [240, 246, 250, 255] {
            let output = directory.path().join("é".repeat(length / 2) + &"n".repeat(length % 2));
            let part = Part::open(&output).unwrap();
            part.write(0, b"a").unwrap();
            part.save(&Journal::new([], None, &Ranges::whole(1))).unwrap();
            assert!(Part::open(&output.with_file_name("n".repeat(length))).is_ok(), "another file's part");
            drop(part);
            let part = Part::open(&output).unwrap();
            assert!(part.journal().is_some(), "{length}: a later run finds it");
            part.finish().unwrap();
            assert_eq!(fs::read(&output).unwrap(), b"a");
        }
        let name = directory.path().join("n".repeat(256));
        assert!(matches!(Part::open(&name), Err(FetchError::TooLong(_))));
    }

    #[test]
    fn a_file_gets_its_name_when_it_is_whole() {
        let directory = tempfile::tempdir().unwrap();
        let output = directory.path().join("a");
        let part = Part::open(&output).unwrap();
        assert!(matches!(Part::open(&output), Err(FetchError::InUse(_))));
        part.set_length(3).unwrap();
        part.write(1, b"bc").unwrap();
        part.write(0, b"a").unwrap();
        // FIPS 180-2, appendix B.1.
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(part.hash().unwrap(), abc);
        assert!(!output.exists());
        part.finish().unwrap();
        assert_eq!(fs::read(&output).unwrap(), b"abc");
        assert_eq!(fs::read_dir(directory.path()).unwrap().count(), 1);
        assert!(matches!(Part::open(&output), Err(FetchError::Exists(_))));
    }
}
