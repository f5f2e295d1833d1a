//! The file while it is fetched.

use std::ffi::OsString;
use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Seek};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use aws_lc_rs::digest::{Context, SHA256};

use super::error::FetchError;
use super::journal::Journal;

/// `FILE.part`, and `FILE.part.json` beside it, until `FILE` is whole. Clones are of the same file.
#[derive(Clone, Debug)]
pub(super) struct Part {
    file: Arc<File>,
    output: PathBuf,
    path: PathBuf,
    journal: PathBuf,
}

impl Part {
    /// Opens what a run before this one has left, or something new.
    pub(super) fn open(output: &Path) -> Result<Self, FetchError> {
        if output.exists() {
            return Err(FetchError::Exists(output.to_owned()));
        }
        let path = with_suffix(output, ".part");
        let opened = OpenOptions::new().read(true).write(true).create(true).truncate(false).open(&path);
        let file = opened.map_err(|source| FetchError::Write { path: path.clone(), source })?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(FetchError::InUse(path)),
            Err(TryLockError::Error(source)) => return Err(FetchError::Write { path, source }),
        }
        let journal = with_suffix(&path, ".json");
        Ok(Self { file: Arc::new(file), output: output.to_owned(), path, journal })
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

    pub(super) fn write(&self, at: u64, bytes: &[u8]) -> Result<(), FetchError> {
        self.file.write_all_at(bytes, at).map_err(|source| self.failed(source))
    }

    /// Writes down what has arrived, after it is on the disk. Blocks.
    pub(super) fn save(&self, journal: &Journal) -> Result<(), FetchError> {
        let saved = self.file.sync_data().and_then(|()| journal.save(&self.journal));
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
        Ok(context.finish().as_ref().iter().map(|byte| format!("{byte:02x}")).collect())
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

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = OsString::from(path);
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

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
