//! Answers for Prometheus and the web page. The state of a site with thousands of paths takes its time to collect, so that it is
//! collected in turns with all else that the control side has to do.

use psmc_api::{PeerStatus, Status};
use psmc_core::PeerId;
use tokio::sync::{mpsc, oneshot};

use super::DaemonError;
use super::control::Control;
use super::metrics::tell_paths_apart;
use super::status::PEERS_AT_A_TIME;

/// Scrapes that may wait for their turn. Prometheus has one at a time, and so have all web pages together; people with a browser are
/// few.
const MAX_WAITING: usize = 4;

/// Those who want to know how all is, and the one who is being answered.
#[derive(Debug)]
pub(super) struct Scrapes {
    asker: Asker,
    questions: mpsc::Receiver<oneshot::Sender<Status>>,
    current: Option<Scrape>,
}

/// What is collected for somebody.
#[derive(Debug)]
struct Scrape {
    answer: oneshot::Sender<Status>,
    /// Peers that are known by now.
    peers: Vec<PeerStatus>,
    /// Those that are not.
    left: std::vec::IntoIter<PeerId>,
}

/// Who may ask how all is.
#[derive(Clone, Debug)]
pub(super) struct Asker(mpsc::Sender<oneshot::Sender<Status>>);

impl Asker {
    /// The state of the site, whose paths can be told apart; `None` if the daemon is about to end.
    pub(super) async fn ask(&self) -> Option<Status> {
        let (answer, status) = oneshot::channel();
        self.0.send(answer).await.ok()?;
        status.await.ok()
    }
}

impl Default for Scrapes {
    fn default() -> Self {
        let (asker, questions) = mpsc::channel(MAX_WAITING);
        Self { asker: Asker(asker), questions, current: None }
    }
}

impl Scrapes {
    /// Somebody who may ask.
    pub(super) fn asker(&self) -> Asker {
        self.asker.clone()
    }

    /// Returns when there is something to do: a question, or nothing if it is the one before. May be dropped and called again.
    pub(super) async fn wanted(&mut self) -> Option<oneshot::Sender<Status>> {
        if self.current.is_some() {
            return None;
        }
        // The channel has a sender as long as this lives.
        self.questions.recv().await
    }
}

impl Control {
    /// Collects some more of what somebody wants to know, who is now asking or has asked before.
    pub(super) async fn scrape(
        &mut self,
        question: Option<oneshot::Sender<Status>>,
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
        some.iter_mut().for_each(tell_paths_apart);
        scrape.peers.append(&mut some);
        if scrape.left.len() > 0 {
            self.scrapes.current = Some(scrape);
            return Ok(());
        }
        let status = self.status_with(scrape.peers).await?;
        // Its receiver may have gone meanwhile.
        let _ = scrape.answer.send(status);
        Ok(())
    }
}
