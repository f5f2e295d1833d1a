//! The journal, written beside the download.

use tokio::task::{JoinHandle, spawn_blocking};

use super::error::FetchError;
use super::journal::Journal;
use super::part::Part;

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
