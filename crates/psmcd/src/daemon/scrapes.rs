//! Answers for Prometheus. The state of a site with thousands of paths takes its time to collect, so that it is collected in turns
//! with all else that the control side has to do.

use std::net::SocketAddr;

use psmc_api::PeerStatus;
use psmc_core::PeerId;
use tokio::sync::{mpsc, oneshot};

use super::DaemonError;
use super::control::Control;
use super::metrics::{METRICS, Told};
use super::status::PEERS_AT_A_TIME;
use super::tasks::{TaskEnd, Tasks};

/// Scrapes that may wait for their turn. Prometheus has one at a time; people with a browser are few.
const MAX_WAITING: usize = 4;

/// Those who want to know how all is, and the one who is being answered.
#[derive(Debug, Default)]
pub(super) struct Scrapes {
    /// Absent if nobody may ask.
    questions: Option<mpsc::Receiver<oneshot::Sender<Told>>>,
    current: Option<Scrape>,
}

/// What is collected for somebody.
#[derive(Debug)]
struct Scrape {
    answer: oneshot::Sender<Told>,
    /// Peers that are known by now.
    peers: Vec<PeerStatus>,
    /// Those that are not.
    left: std::vec::IntoIter<PeerId>,
}

impl Scrapes {
    /// Begins to take questions at an address.
    pub(super) async fn serve(&mut self, address: SocketAddr, tasks: &mut Tasks) -> Result<(), DaemonError> {
        let (asker, questions) = mpsc::channel(MAX_WAITING);
        let ask = move || {
            let asker = asker.clone();
            async move {
                let (answer, status) = oneshot::channel();
                asker.send(answer).await.ok()?;
                status.await.ok()
            }
        };
        let served = psmc_service::metrics::serve(address, METRICS, ask).await?;
        tasks.spawn(async move {
            served.await;
            TaskEnd::Metrics
        });
        self.questions = Some(questions);
        Ok(())
    }

    /// Returns when there is something to do: a question, or nothing if it is the one before. May be dropped and called again.
    pub(super) async fn wanted(&mut self) -> Option<oneshot::Sender<Told>> {
        if self.current.is_some() {
            return None;
        }
        // Whoever asks lives as long as the daemon, if anybody does.
        match &mut self.questions {
            Some(questions) => questions.recv().await,
            None => std::future::pending().await,
        }
    }
}

impl Control {
    /// Collects some more of what somebody wants to know, who is now asking or has asked before.
    pub(super) async fn scrape(
        &mut self,
        question: Option<oneshot::Sender<Told>>,
    ) -> Result<(), DaemonError> {
        if let Some(answer) = question {
            let ids: Vec<_> = self.peers.iter().map(|peer| peer.id).collect();
            self.scrapes.current = Some(Scrape { answer, peers: Vec::new(), left: ids.into_iter() });
        }
        // Who has lost patience is not answered.
        let Some(mut scrape) = self.scrapes.current.take().filter(|scrape| !scrape.answer.is_closed()) else {
            return Ok(());
        };
        let ids = scrape.left.by_ref().take(PEERS_AT_A_TIME).collect();
        let mut some = self.peer_statuses(ids).await?;
        scrape.peers.append(&mut some);
        if scrape.left.len() > 0 {
            self.scrapes.current = Some(scrape);
            return Ok(());
        }
        let status = self.status_with(scrape.peers).await?;
        // Its receiver may have gone meanwhile.
        let _ = scrape.answer.send(Told::new(status));
        Ok(())
    }
}
