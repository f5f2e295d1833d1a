//! What the log says of peers and their paths.

use std::time::Instant;

use ipnet::IpNet;
use psmc_core::{Event, PathState, PeerId};
use psmc_wire::PathId;
use psmc_wire::control::CloseReason;

use super::Peers;
use crate::daemon::plane::News;

impl Peers {
    /// Remembers why a peer can't be reached; says it aloud only when it is news.
    pub(in crate::daemon) fn note_error(&mut self, peer: PeerId, error: String) {
        let Some(peer) = self.get_mut(peer) else { return };
        let is_news = peer.said_error.as_ref() != Some(&error);
        if is_news && let Some(left_out) = peer.connection_lines.note(Instant::now()) {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::info!(peer = peer.config.name.as_str(), error, left_out, "no control connection");
            peer.said_error = Some(error.clone());
        }
        peer.last_error = Some(error);
    }

    /// What has happened to a peer.
    pub(in crate::daemon) fn log_event(&mut self, event: &Event) {
        match event {
            Event::Connected { peer, fresh, .. } => self.log_connected(*peer, *fresh),
            Event::Closed { peer, reason } => self.log_closed(*peer, *reason),
            Event::KeysEnded { peer } => self.log_keys_ended(*peer),
            Event::GatewayChanged { peer, network, others } => self.log_gateway(*peer, *network, *others),
            Event::PathChanged { .. }
            | Event::PathOpened { .. }
            | Event::Stream { .. }
            | Event::PathMoved { .. }
            | Event::BatchesLost { .. }
            | Event::Measured { .. }
            | Event::Counts { .. }
            | Event::Dial(_)
            | Event::Hangup(_)
            | Event::HopWanted { .. } => {}
            Event::PathForgotten { peer, path } => {
                if let Some(peer) = self.get_mut(*peer) {
                    peer.told_states.remove(path);
                }
            }
        }
    }

    fn log_connected(&mut self, peer: PeerId, fresh: bool) {
        let Some(index) = self.index_of(peer) else { return };
        let (peer, now) = (&mut self.list[index], Instant::now());
        let name = peer.config.name.as_str();
        if let Some(left_out) = peer.connection_lines.note(now) {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::info!(peer = name, fresh, left_out, "connected");
            peer.said_error = None;
        }
        if fresh && let Some(at) = peer.callers.note_fresh(now) {
            let error = format!("the same key is in use at {at}: each site needs a key of its own");
            tracing::warn!(peer = name, error, "two hosts with the same key compete for the tunnel");
            peer.last_error = Some(error);
        }
    }

    fn log_gateway(&self, peer: PeerId, network: IpNet, others: usize) {
        let Some(index) = self.index_of(peer) else { return };
        let name = self.list[index].config.name.as_str();
        let others = (others > 0).then_some(others);
        tracing::info!(peer = name, %network, others, "packets to networks of several peers go to this one now");
    }

    fn log_keys_ended(&self, peer: PeerId) {
        let Some(index) = self.index_of(peer) else { return };
        let name = self.list[index].config.name.as_str();
        tracing::warn!(
            peer = name,
            "the keys have expired: nothing is sent until there is a control connection"
        );
    }

    fn log_closed(&mut self, peer: PeerId, reason: CloseReason) {
        let Some(index) = self.index_of(peer) else { return };
        let (peer, now) = (&mut self.list[index], Instant::now());
        let name = peer.config.name.as_str();
        if let Some(left_out) = peer.connection_lines.note(now) {
            let (left_out, reason) = ((left_out > 0).then_some(left_out), why_closed(reason));
            tracing::info!(peer = name, reason, left_out, "closed by the peer");
        }
        if reason == CloseReason::Superseded && peer.callers.note_superseded(now) {
            let error = "another host calls the peer with this site's key, again and again: each site needs a key of its own";
            tracing::warn!(peer = name, error, "two hosts with the same key compete for the tunnel");
        }
    }

    /// What has happened to a path.
    pub(in crate::daemon) fn log_news(&mut self, News { event, path: name, remote }: &News) {
        let path = name.as_deref();
        if let Event::PathChanged { peer, path: id, state } = event
            && !self.is_news(*peer, *id, *state)
        {
            tracing::debug!(peer = self.name_of(*peer), path, state = state.name(), "path changed");
            return;
        }
        if let Event::PathChanged { peer, .. }
        | Event::PathOpened { peer, .. }
        | Event::BatchesLost { peer, .. }
        | Event::PathMoved { peer, .. } = event
            && let Some(index) = self.index_of(*peer)
            && self.list[index].path_lines.note(Instant::now()).is_none()
        {
            return;
        }
        match event {
            Event::PathChanged { peer, state, .. } => {
                tracing::info!(peer = self.name_of(*peer), path, state = state.name(), "path changed");
            }
            Event::PathOpened { peer, .. } => {
                tracing::info!(peer = self.name_of(*peer), path, "path opened by the peer");
            }
            Event::PathMoved { peer, .. } => {
                let remote = remote.map(tracing::field::display);
                tracing::info!(
                    peer = self.name_of(*peer),
                    path,
                    remote,
                    "the peer's address on a path has changed"
                );
            }
            Event::BatchesLost { peer, .. } => {
                tracing::warn!(
                    peer = self.name_of(*peer),
                    path,
                    "GSO datagrams are lost on this path: sending datagrams one by one"
                );
            }
            Event::Connected { .. }
            | Event::Closed { .. }
            | Event::GatewayChanged { .. }
            | Event::KeysEnded { .. }
            | Event::Measured { .. }
            | Event::Counts { .. }
            | Event::Dial(_)
            | Event::Hangup(_)
            | Event::PathForgotten { .. }
            | Event::Stream { .. }
            | Event::HopWanted { .. } => {}
        }
    }

    /// Whether a state is worth a line: a path that is silent for a moment, and then answers again, is what it was.
    fn is_news(&mut self, peer: PeerId, path: PathId, state: PathState) -> bool {
        let Some(peer) = self.get_mut(peer) else { return false };
        state != PathState::Suspect && peer.told_states.insert(path, state) != Some(state)
    }

    fn name_of(&self, id: PeerId) -> Option<&str> {
        self.get(id).map(|peer| peer.config.name.as_str())
    }
}

/// What a peer means by ending a connection.
fn why_closed(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Shutdown => "it goes away",
        CloseReason::Superseded => "another connection with this site's key has taken over",
        CloseReason::Version => "version mismatch",
        CloseReason::Protocol => "the peer reports a protocol violation by this site",
        CloseReason::Other(_) => "for a reason that this version does not know",
    }
}
