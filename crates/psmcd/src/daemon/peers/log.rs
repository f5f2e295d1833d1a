//! What the log says of peers and their paths.

use std::net::SocketAddr;
use std::time::Instant;

use ipnet::IpNet;
use psmc_core::{Event, PathState, PeerId};
use psmc_wire::PathId;
use psmc_wire::control::CloseReason;

use super::path_lines::PathLine;
use super::{Peer, Peers};
use crate::daemon::gathered::{Gathered, listed};
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
                    peer.told_paths.forget(*path);
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
        let path = || name.clone();
        match event {
            Event::PathChanged { peer, path: id, state } => {
                self.log_path_state(*peer, (*id, name.as_deref()), *state);
            }
            Event::PathOpened { peer, .. } => self.note_news(*peer, |peer| peer.news.opened.note(path(), ())),
            Event::PathMoved { peer, .. } => {
                self.note_news(*peer, |peer| peer.news.moved.note(path(), *remote))
            }
            Event::BatchesLost { peer, .. } => {
                self.note_news(*peer, |peer| peer.news.batches.note(path(), ()))
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

    fn log_path_state(&mut self, peer: PeerId, (id, path): (PathId, Option<&str>), state: PathState) {
        let Some(peer) = self.get_mut(peer) else { return };
        tracing::debug!(peer = peer.config.name.as_str(), path, state = state.name(), "path state");
        let now = Instant::now();
        let line = peer.told_paths.note(id, path, state, now);
        line.into_iter().for_each(|line| peer.log_path(&line, now));
    }

    /// Says how paths stand that have changed too often for a line each time.
    pub(in crate::daemon) fn log_changed_paths(&mut self) {
        let now = Instant::now();
        for peer in &mut self.list {
            let lines: Vec<_> = peer.told_paths.due(now).collect();
            lines.iter().for_each(|line| peer.log_path(line, now));
            peer.log_gathered(now);
        }
    }

    /// Notes something that a line is to say, and says it if there has been none for a second.
    fn note_news(&mut self, peer: PeerId, note: impl FnOnce(&mut Peer)) {
        let Some(peer) = self.get_mut(peer) else { return };
        note(peer);
        peer.log_gathered(Instant::now());
    }
}

/// What is to be said of a peer's paths, by their names, if they are there still.
#[derive(Debug, Default)]
pub(super) struct PathNews {
    opened: Gathered<Option<String>, ()>,
    moved: Gathered<Option<String>, Option<SocketAddr>>,
    batches: Gathered<Option<String>, ()>,
}

impl Peer {
    fn log_gathered(&mut self, now: Instant) {
        let peer = self.config.name.as_str();
        let opened = self.news.opened.due(now);
        if !opened.is_empty() {
            tracing::info!(peer, path = listed(opened.keys().flatten()), "path opened by the peer");
        }
        let moved = self.news.moved.due(now);
        if !moved.is_empty() {
            let (path, remote) = (listed(moved.keys().flatten()), listed(moved.values().flatten()));
            tracing::info!(peer, path, remote, "the peer's address on a path has changed");
        }
        let batches = self.news.batches.due(now);
        if !batches.is_empty() {
            let path = listed(batches.keys().flatten());
            tracing::warn!(peer, path, "GSO datagrams are lost on this path: sending datagrams one by one");
        }
    }

    fn log_path(&mut self, PathLine { path, state, changes }: &PathLine, now: Instant) {
        if self.path_lines.note(now).is_some() {
            let peer = self.config.name.as_str();
            tracing::info!(peer, path, state = state.name(), changes, "path changed");
        }
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
