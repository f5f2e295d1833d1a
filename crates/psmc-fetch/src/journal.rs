//! What has arrived of a file, kept beside it so that a later run can go on.
//!
//! It is written beside the download, by a thread of its own.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;

use serde::{Deserialize, Serialize};
use tokio::task::{JoinHandle, spawn_blocking};

use super::FetchError;
use super::http::{Version, is_same_time};
use super::part::Part;
use super::plan::Ranges;

/// A journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Journal {
    length: u64,
    modified: Option<String>,
    /// What the mirrors call this version, by their URLs.
    etags: BTreeMap<String, String>,
    /// What the SHA-256 of the file is to be, in hexadecimal digits, if that was known.
    #[serde(default)]
    sha256: Option<String>,
    /// Starts and ends of what has arrived.
    done: Vec<(u64, u64)>,
}

impl Journal {
    /// Of a version that these mirrors, by their URLs, have, and that is to have this SHA-256.
    pub(super) fn new<'a>(
        offers: impl IntoIterator<Item = (String, &'a Version)>,
        sha256: Option<String>,
        done: &Ranges,
    ) -> Self {
        let mut journal =
            Self { length: 0, modified: None, etags: BTreeMap::new(), sha256, done: Vec::new() };
        for (url, version) in offers {
            journal.length = version.length;
            journal.modified = journal.modified.or_else(|| version.modified.clone());
            journal.etags.extend(version.etag.clone().map(|etag| (url, etag)));
        }
        journal.done = done.iter().map(|range| (range.start, range.end)).collect();
        journal
    }

    /// `None` if there is none, or nothing can be made of it.
    pub(super) fn load(path: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(path).ok()?).ok()
    }

    /// Replaces the file, whole or not at all, by way of another one beside it.
    pub(super) fn save(&self, path: &Path, fresh: &Path) -> io::Result<()> {
        fs::write(fresh, serde_json::to_vec(self)?)?;
        fs::rename(fresh, path)
    }

    /// What has arrived, if it is of the version that these mirrors have: their times say so, or a name that one of them
    /// gave it before, or it is wanted for its SHA-256 as it was then.
    pub(super) fn done<'a>(
        &self,
        offers: impl IntoIterator<Item = (String, &'a Version)>,
        sha256: Option<&str>,
    ) -> Option<Ranges> {
        let is_same_hash = sha256.is_some() && self.sha256.as_deref() == sha256;
        let is_same = offers.into_iter().any(|(url, version)| {
            let is_same_version = match (&self.modified, &version.modified) {
                (Some(before), Some(now)) => is_same_time(before, now),
                _ => version.etag.is_some() && self.etags.get(&url) == version.etag.as_ref(),
            };
            self.length == version.length && (is_same_hash || is_same_version)
        });
        is_same.then(|| {
            let mut done = Ranges::default();
            let inside = self.done.iter().filter(|(start, end)| start < end && *end <= self.length);
            inside.for_each(|(start, end)| done.insert(*start..*end));
            done
        })
    }
}

/// Writes journals in a thread of its own, for what it waits for may take as long as a disk pleases.
#[derive(Debug)]
pub(super) struct Saver {
    part: Part,
    /// The last one, while it may be under way.
    saving: Option<JoinHandle<Result<(), FetchError>>>,
}

impl Saver {
    pub(super) fn new(part: &Part) -> Self {
        Self { part: part.clone(), saving: None }
    }

    /// Writes a journal, unless the one before is still under way. Fails if that one has.
    pub(super) async fn save(&mut self, journal: Journal) -> Result<(), FetchError> {
        if self.saving.as_ref().is_some_and(|saving| !saving.is_finished()) {
            return Ok(());
        }
        self.wait().await?;
        self.begin(journal);
        Ok(())
    }

    /// Writes the last journal, and waits until it is written.
    pub(super) async fn finish(&mut self, journal: Journal) -> Result<(), FetchError> {
        self.wait().await?;
        self.begin(journal);
        self.wait().await
    }

    fn begin(&mut self, journal: Journal) {
        let part = self.part.clone();
        self.saving = Some(spawn_blocking(move || part.save(&journal)));
    }

    async fn wait(&mut self) -> Result<(), FetchError> {
        let Some(saving) = self.saving.take() else { return Ok(()) };
        saving.await.unwrap_or_else(|panic| std::panic::resume_unwind(panic.into_panic()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(length: u64, modified: Option<&str>, etag: Option<&str>) -> Version {
        Version { length, modified: modified.map(str::to_owned), etag: etag.map(str::to_owned) }
    }

    fn known(before: &Version, now: &Version) -> bool {
        let done = Ranges::whole(5);
        let journal = Journal::new([("http://a/".to_owned(), before)], None, &done);
        journal.done([("http://a/".to_owned(), now)], Some("ab")) == Some(done)
    }

    #[test]
    fn only_the_same_version_goes_on() {
        let timed = version(9, Some("monday"), Some("x"));
        assert!(known(&timed, &version(9, Some("monday"), Some("y"))));
        assert!(!known(&timed, &version(9, Some("tuesday"), Some("x"))));
        assert!(!known(&timed, &version(8, Some("monday"), Some("x"))));
        let tagged = version(9, None, Some("x"));
        assert!(known(&tagged, &tagged));
        assert!(!known(&tagged, &version(9, None, Some("y"))));
        let bare = version(9, None, None);
        assert!(!known(&bare, &bare), "nothing shows that it is the same");
    }

    #[test]
    fn who_wants_the_same_hash_goes_on_whatever_the_times() {
        let done = Ranges::whole(5);
        let offer = |time, length| ("http://a/".to_owned(), version(length, Some(time), None));
        let (url, before) = offer("monday", 9);
        let journal = Journal::new([(url, &before)], Some("ab".to_owned()), &done);
        let goes_on = |length, hash| {
            let (url, now) = offer("tuesday", length);
            journal.done([(url, &now)], hash).is_some()
        };
        assert!(goes_on(9, Some("ab")));
        assert!(!goes_on(9, Some("cd")) && !goes_on(9, None) && !goes_on(8, Some("ab")));
    }

    #[test]
    fn a_journal_survives_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.iso.part.json");
        assert_eq!(Journal::load(&path), None);
        let journal = Journal::new([("u".to_owned(), &version(9, None, Some("x")))], None, &Ranges::whole(4));
        journal.save(&path, &directory.path().join("new")).unwrap();
        assert_eq!(Journal::load(&path), Some(journal));
        fs::write(&path, "{").unwrap();
        assert_eq!(Journal::load(&path), None);
    }

    #[test]
    fn bytes_beyond_the_end_have_not_arrived() {
        let whole = version(9, Some("monday"), None);
        let journal = Journal::new([("u".to_owned(), &whole)], None, &Ranges::whole(10));
        assert_eq!(journal.done([("u".to_owned(), &whole)], None), Some(Ranges::default()));
    }
}
