//! How a site goes away: with a word to its peers, and nothing left at its relays.

use std::time::Duration;

use super::DaemonError;
use super::control::Control;
use super::plane::Plane;

/// How long a closing site lets its goodbyes travel.
const GOODBYE_TIME: Duration = Duration::from_millis(200);

/// How long a closing site takes to give back its sessions at relays: two round trips over a bad path. What it does not
/// give back is forgotten there in time.
const RELEASE_TIME: Duration = Duration::from_secs(1);

impl Control {
    /// Tells the peers that this site goes away, gives the messages a moment to leave, and gives back what it has at
    /// relays.
    pub(super) async fn say_goodbye(&mut self) -> Result<(), DaemonError> {
        tracing::info!(site = self.site.name.as_str(), "stopping");
        let ids: Vec<_> = self.peers.iter().map(|peer| peer.id).collect();
        let leave = move |plane: &mut Plane| {
            plane.end_splits();
            ids.into_iter().for_each(|id| plane.site.remove_peer(id));
        };
        self.plane.call(leave).await?;
        self.end_export().await?;
        let deadline = tokio::time::sleep(GOODBYE_TIME);
        tokio::pin!(deadline);
        while !self.connections.is_empty() {
            tokio::select! {
                () = &mut deadline => break,
                Some(notice) = self.notices.recv() => self.on_notice(notice).await?,
                Some(end) = self.tasks.next_end() => self.on_task_end(end).await?,
            }
        }
        self.release_sessions().await;
        Ok(())
    }

    /// Keepers that nobody holds give back their sessions, and end.
    async fn release_sessions(&mut self) {
        for peer in self.peers.iter_mut() {
            peer.paths.clear();
            peer.retired.clear();
        }
        let deadline = tokio::time::sleep(RELEASE_TIME);
        tokio::pin!(deadline);
        while self.tasks.keep_sessions() {
            tokio::select! {
                () = &mut deadline => break,
                Some(_) = self.tasks.next_end() => {}
            }
        }
    }
}
