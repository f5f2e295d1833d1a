//! What a server does when it may have no more: of descriptors, of memory.

use std::io;
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

/// How long it rests after an error that would come again at once: a shortage lasts until something ends.
const REST: Duration = Duration::from_millis(200);

/// How often it is said that there is such a shortage.
const COMPLAINTS: Duration = Duration::from_secs(60);

/// An operation of a listening socket (`accept`, `recvfrom`) that is tried again and again.
#[derive(Debug)]
pub struct Retry {
    what: &'static str,
    complained: Option<Instant>,
}

impl Retry {
    /// For what follows "cannot" in the log.
    #[must_use]
    pub fn new(what: &'static str) -> Self {
        Self { what, complained: None }
    }

    /// To be waited for after an error, before the operation is tried again. A connection that was gone again before it was
    /// accepted costs no time (accept(2)); after other errors it rests, and now and then complains.
    pub async fn after(&mut self, error: &io::Error) {
        if !concerns_one_connection(error) {
            self.complain(error);
            sleep(REST).await;
        }
    }

    fn complain(&mut self, error: &io::Error) {
        if self.complained.is_none_or(|at| at.elapsed() >= COMPLAINTS) {
            self.complained = Some(Instant::now());
            warn!(%error, "cannot {}; it is tried again and again: are there file descriptors left (ulimit -n)?", self.what);
        }
    }
}

fn concerns_one_connection(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_rests_for_want_of_descriptors_and_not_for_connections_that_are_gone() {
        let mut retry = Retry::new("do this");
        let start = Instant::now();
        for (kind, rests) in [(io::ErrorKind::ConnectionAborted, 0), (io::ErrorKind::OutOfMemory, 1)] {
            retry.after(&kind.into()).await;
            assert_eq!(start.elapsed(), rests * REST);
        }
    }
}
