//! All mirrors are asked at once what they offer.

use std::future::pending;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio::time::timeout;

use super::http::{Connector, MirrorError};
use super::mirror::Mirror;
use super::probe::{Offer, probe};

/// When one mirror has answered, the others have so much time to say something else about the file. Later ones may join, if
/// they have the same.
const GRACE: Duration = Duration::from_secs(2);

/// Mirrors that have not answered yet.
#[derive(Debug)]
pub(super) struct Gathering {
    probes: JoinSet<(usize, Result<Offer, MirrorError>)>,
}

impl Gathering {
    pub(super) fn start(connector: &Arc<Connector>, mirrors: &[Mirror]) -> Self {
        let mut probes = JoinSet::new();
        for (index, mirror) in mirrors.iter().enumerate() {
            let (connector, url, via) = (Arc::clone(connector), mirror.url.clone(), mirror.via.clone());
            probes.spawn(async move { (index, probe(connector, url, via).await) });
        }
        Self { probes }
    }

    /// Until there is enough to decide which version of the file is meant: all have answered, or one has some time ago.
    pub(super) async fn settle(&mut self, mirrors: &mut [Mirror]) {
        while !mirrors.iter().any(|mirror| mirror.offer.is_some()) && !self.is_over() {
            self.note_next(mirrors).await;
        }
        let others = async {
            while !self.is_over() {
                self.note_next(mirrors).await;
            }
        };
        // Those that are late join later.
        drop(timeout(GRACE, others).await);
    }

    /// The next mirror that has answered: with an offer, or it is of no use. Never ready when all have.
    pub(super) async fn next(&mut self) -> (usize, Result<Offer, MirrorError>) {
        match self.probes.join_next().await {
            Some(Ok(answer)) => answer,
            // A probe that panics is a bug, of which the user has been told: its mirror has not answered.
            Some(Err(_)) | None => pending().await,
        }
    }

    pub(super) fn is_over(&self) -> bool {
        self.probes.is_empty()
    }

    async fn note_next(&mut self, mirrors: &mut [Mirror]) {
        let (index, answer) = self.next().await;
        match answer {
            Ok(offer) => mirrors[index].offer = Some(offer),
            Err(error) => mirrors[index].refuse(&error),
        }
    }
}
