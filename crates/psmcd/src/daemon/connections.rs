//! Control connections to peers: who calls, who is called, and what becomes of it.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use psmc_core::{ConnectionId, PeerId};
use psmc_net::framing::FramingError;
use psmc_net::tls::{Dialer, Secured, TlsError};
use psmc_wire::crypto::Role;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{Notify, mpsc};

use super::DaemonError;
use super::connection::serve;
use super::control::Control;
use super::dial::{DialError, Route, dial};
use super::paths::{OpenPath, resolve};
use super::peers::Peer;
use super::relays::{BoxedStream, Goal, LocalEnd};
use super::reload::Reread;
use crate::config::Endpoint;
use crate::error_chain;

/// What a task of the control side came to.
pub(super) enum TaskEnd {
    Dialed(PeerId, Result<Box<Secured<BoxedStream>>, DialError>),
    Disconnected(PeerId, ConnectionId, Result<(), FramingError>),
    /// The addresses of a name, if there are any.
    Resolved(Endpoint, Vec<SocketAddr>),
    /// The configuration has been read again.
    Reread(Box<Reread>),
    Listener,
    Hearing,
    /// Only when the daemon ends.
    Registered,
    /// A path has no use for its relays any more.
    Kept,
}

impl Control {
    /// Opens a control connection, in a task of its own.
    pub(super) fn dial(&mut self, peer: PeerId) {
        let Some(index) = self.peer_index(peer) else { return };
        let caller = self.caller();
        let Peer { config, paths, .. } = &self.peers[index];
        let dialer = Dialer::new(&self.identity, config.public_key);
        // Through a machine that only unwraps there is no connection; the straight one shows who speaks with whom.
        let is_only_wrapped = paths.iter().all(OpenPath::is_in_plain_tunnel);
        let leading = paths.iter().filter(|path| is_only_wrapped || !path.is_in_plain_tunnel());
        let mut routes: Vec<_> = leading.map(|path| (path.learned.is_some(), path.route())).collect();
        // Straight ways first, or those that carry the data in their place.
        let leads_learned = self.peers[index].routes.lead_over_relays();
        routes.sort_by_key(|(is_learned, route)| (leads_learned && !is_learned, route.relays.len()));
        let mut routes: Vec<_> = routes.into_iter().map(|(_, route)| route).collect();
        routes.extend(self.other_routes(index));
        let mut seen = Vec::new();
        routes.retain(|route| {
            !seen.contains(route) && {
                seen.push(route.clone());
                true
            }
        });
        let endpoint = config.endpoint.clone().filter(|_| routes.is_empty() && !config.is_only_relayed());
        let superseded = Arc::new(Notify::new());
        self.dials.insert(peer, superseded.clone());
        self.tasks.spawn(async move {
            if let Some(endpoint) = endpoint
                && let Ok(remote) = resolve(&endpoint).await
            {
                let relays = Vec::new();
                let to = Goal::Address(remote);
                routes.push(Route { local_end: LocalEnd::default(), relays, to });
            }
            let connected = tokio::select! {
                connected = dial(caller, dialer, routes) => connected,
                () = superseded.notified() => Err(DialError::Superseded),
            };
            TaskEnd::Dialed(peer, connected.map(Box::new))
        });
    }

    /// Dials a peer to which there are other ways than before, whatever connection there is.
    pub(super) async fn dial_anew(&mut self, peer: PeerId) -> Result<(), DaemonError> {
        if let Some(dial) = self.dials.get(&peer) {
            dial.notify_one();
            return Ok(());
        }
        self.plane
            .post(move |plane| {
                // A peer that has just been removed is not dialled.
                if let Ok(mut peer) = plane.site.peer(peer) {
                    peer.redial(Instant::now());
                }
            })
            .await
    }

    pub(super) async fn on_task_end(&mut self, end: TaskEnd) -> Result<(), DaemonError> {
        match end {
            TaskEnd::Dialed(peer, Ok(secured)) => {
                self.dials.remove(&peer);
                self.connect(peer, *secured).await
            }
            TaskEnd::Dialed(peer, Err(DialError::Superseded)) => {
                self.dial(peer);
                Ok(())
            }
            TaskEnd::Dialed(peer, Err(error)) => {
                self.dials.remove(&peer);
                self.note_error(peer, error_chain(&error));
                self.plane.post(move |plane| plane.site.handle_dial_failed(peer, Instant::now())).await
            }
            TaskEnd::Disconnected(peer, id, end) => {
                self.connections.remove(&id);
                match end {
                    Ok(()) => {}
                    // A dialler learns of a refusal only now: TLS 1.3 lets it finish first.
                    Err(FramingError::Broken(error)) => {
                        self.note_error(peer, error_chain(&TlsError::from(error)));
                    }
                    Err(error @ (FramingError::Ended | FramingError::Stuck)) => {
                        self.note_error(peer, error_chain(&error));
                    }
                    Err(error @ FramingError::Malformed(_)) => {
                        self.malformed_messages += 1;
                        self.note_error(peer, error_chain(&error));
                    }
                }
                self.plane.post(move |plane| plane.site.handle_disconnected(id, Instant::now())).await
            }
            TaskEnd::Resolved(endpoint, addresses) => self.on_resolved(endpoint, addresses).await,
            TaskEnd::Reread(reread) => self.on_reread(*reread).await,
            TaskEnd::Kept => {
                self.keepers -= 1;
                Ok(())
            }
            TaskEnd::Listener | TaskEnd::Hearing | TaskEnd::Registered => Ok(()),
        }
    }

    /// Remembers why a peer can't be reached; says it aloud only when it is news.
    fn note_error(&mut self, peer: PeerId, error: String) {
        let Some(peer) = self.peers.iter_mut().find(|other| other.id == peer) else { return };
        let is_news = peer.said_error.as_ref() != Some(&error);
        if is_news && let Some(left_out) = peer.connection_lines.note(Instant::now()) {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::info!(peer = peer.config.name.as_str(), error, left_out, "no control connection");
            peer.said_error = Some(error.clone());
        }
        peer.last_error = Some(error);
    }

    /// A peer has called, from that address or through that relay.
    pub(super) async fn on_accepted<S>(&mut self, secured: Secured<S>, from: &str) -> Result<(), DaemonError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        tracing::debug!(from, peer = %secured.peer, "control connection accepted");
        match self.peers.iter_mut().find(|peer| peer.config.public_key == secured.peer) {
            Some(peer) => {
                peer.callers.note_call(from);
                let id = peer.id;
                self.connect(id, secured).await
            }
            // Only keys of peers are let in.
            None => Ok(()),
        }
    }

    /// Hands a connection to the engine and serves it, in a task of its own.
    async fn connect<S>(&mut self, peer: PeerId, mut secured: Secured<S>) -> Result<(), DaemonError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        let (sender, outgoing) = mpsc::unbounded_channel();
        self.connections.insert(id, sender);
        let unusable = psmc_net::aead::ExportedKeys::new(&[0; psmc_net::aead::SECRET_LEN]);
        let keys = std::mem::replace(&mut secured.keys, unusable);
        let role: Role = secured.role;
        let added = self
            .plane
            .call(move |plane| plane.site.handle_connected(peer, id, role, Box::new(keys), Instant::now()));
        if added.await?.is_err() {
            self.connections.remove(&id);
            return Ok(());
        }
        if let Some(index) = self.peer_index(peer) {
            self.peers[index].last_error = None;
        }
        let plane = self.plane.poster();
        self.tasks
            .spawn(async move { TaskEnd::Disconnected(peer, id, serve(id, secured, plane, outgoing).await) });
        Ok(())
    }
}
