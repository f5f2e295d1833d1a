//! How many calls to psmcd are under way at a time: it serves 16 clients at once, of whom 8 may let it wait.

use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::task::spawn_blocking;

/// Calls for which psmcd waits: half of what it has room for, so that others can have it wait as well.
const MAX_WAITS: usize = 4;

/// Calls that are answered at once.
const MAX_CALLS: usize = 2;

/// The turns of all services.
#[derive(Debug)]
pub(crate) struct Turns {
    waits: Semaphore,
    calls: Semaphore,
}

impl Default for Turns {
    fn default() -> Self {
        Self { waits: Semaphore::new(MAX_WAITS), calls: Semaphore::new(MAX_CALLS) }
    }
}

impl Turns {
    /// A place for a call for which psmcd waits, if there is one.
    pub(super) fn wait(&self) -> Option<SemaphorePermit<'_>> {
        self.waits.try_acquire().ok()
    }

    /// Calls psmcd as soon as it is this one's turn; `None` when the program ends.
    pub(super) async fn call<T: Send + 'static>(
        &self,
        call: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let _turn = self.calls.acquire().await.ok()?;
        spawn_blocking(call).await.ok()
    }
}
