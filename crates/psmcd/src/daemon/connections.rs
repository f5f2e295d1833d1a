//! Control connections to peers: who calls, who is called, and what becomes of it.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use psmc_core::{ConnectionId, PeerId};
use psmc_net::framing::{FramingError, MessageReader, Pace, close, write_message};
use psmc_net::tls::{Acceptor, Counters, Dialer, JOIN_ALPN, Listener, PATH_ALPN, Secured, TlsError};
use psmc_wire::control::Message;
use psmc_wire::crypto::Role;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{Notify, mpsc};

use super::DaemonError;
use super::control::Control;
use super::dial::{DialError, Route, dial};
use super::paths::{OpenPath, resolve};
use super::peers::Peer;
use super::plane::Poster;
use super::relays::{Goal, LocalEnd};
use super::streams::{asking_for, by_https, may_need_https};
use super::tasks::{TaskEnd, Tasks};
use crate::error_chain;

/// Accepted connections that wait to be taken over.
const MAX_ACCEPTED: usize = 64;

/// The control connections of a site.
pub(super) struct Connections {
    /// Shakes hands with peers that call.
    acceptor: Acceptor,
    counters: Arc<Counters>,
    /// Those that have called.
    accepted: mpsc::Receiver<(Secured, SocketAddr)>,
    ready: mpsc::Sender<(Secured, SocketAddr)>,
    /// What ends the dials that are under way.
    dials: BTreeMap<PeerId, Arc<Notify>>,
    /// What is to be written to each of them.
    open: BTreeMap<ConnectionId, mpsc::UnboundedSender<Message>>,
    last: u64,
    /// Those that ended because the peer sent something that is no message.
    malformed: u64,
}

impl Connections {
    /// None yet.
    pub(super) fn new(acceptor: Acceptor) -> Self {
        let (ready, accepted) = mpsc::channel(MAX_ACCEPTED);
        Self {
            acceptor,
            counters: Arc::default(),
            accepted,
            ready,
            dials: BTreeMap::new(),
            open: BTreeMap::new(),
            last: 0,
            malformed: 0,
        }
    }

    /// Takes calls there.
    pub(super) fn listen(&self, listener: TcpListener, tasks: &mut Tasks) {
        let (acceptor, counters, ready) = (self.acceptor.clone(), self.counters.clone(), self.ready.clone());
        tasks.spawn(async move {
            Listener::run(listener, acceptor, ready, counters).await;
            TaskEnd::Listener
        });
    }

    /// The next one that was accepted, and from where. May be dropped and called again.
    pub(super) async fn next_accepted(&mut self) -> Option<(Secured, SocketAddr)> {
        self.accepted.recv().await
    }

    /// Whether there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Writes a message to one.
    pub(super) fn write(&self, id: ConnectionId, message: Message) {
        if let Some(connection) = self.open.get(&id) {
            // A connection that has just broken takes no more; its end is reported by its task.
            let _ = connection.send(message);
        }
    }

    /// Ends one, once everything is written.
    pub(super) fn close(&mut self, id: ConnectionId) {
        self.open.remove(&id);
    }

    /// Ends a dial that is under way: the peer's paths have changed meanwhile. Says whether there was one.
    pub(super) fn supersede(&self, peer: PeerId) -> bool {
        let dial = self.dials.get(&peer);
        dial.into_iter().for_each(|dial| dial.notify_one());
        dial.is_some()
    }

    /// Ends a dial to a peer that is removed.
    pub(super) fn forget(&mut self, peer: PeerId) {
        if let Some(dial) = self.dials.remove(&peer) {
            dial.notify_one();
        }
    }

    /// What the listener has counted.
    pub(super) fn counters(&self) -> &Counters {
        &self.counters
    }

    /// How many ended because the peer sent something that is no message.
    pub(super) fn malformed(&self) -> u64 {
        self.malformed
    }

    /// A new one, and what is to be written to it.
    fn open(&mut self) -> (ConnectionId, mpsc::UnboundedReceiver<Message>) {
        self.last += 1;
        let id = ConnectionId(self.last);
        let (sender, outgoing) = mpsc::unbounded_channel();
        self.open.insert(id, sender);
        (id, outgoing)
    }
}

impl Control {
    /// Opens a control connection, in a task of its own.
    pub(super) fn dial(&mut self, peer: PeerId) {
        let Some(index) = self.peers.index_of(peer) else { return };
        let caller = self.relays.caller();
        let Peer { config, paths, .. } = &self.peers[index];
        let dialer = Dialer::new(&self.identity, config.public_key);
        let needs_https = paths.iter().find(|path| may_need_https(&path.settings));
        let dialer = needs_https.map_or(dialer.clone(), |path| asking_for(dialer, &path.settings));
        // Through a machine that only unwraps there is no connection; the straight one shows who speaks with whom.
        let is_only_wrapped = paths.iter().all(OpenPath::is_in_plain_tunnel);
        let leading = paths.iter().filter(|path| is_only_wrapped || !path.is_in_plain_tunnel());
        let mut routes: Vec<_> = leading.map(|path| (path.learned.is_some(), path.route())).collect();
        // Straight ways first, or those that carry the data in their place.
        let leads_learned = self.peers[index].routes.lead_over_relays();
        routes.sort_by_key(|(is_learned, route)| (leads_learned && !is_learned, route.relays.len()));
        let mut routes: Vec<_> = routes.into_iter().map(|(_, route)| route).collect();
        // What lets no UDP through may block the port of control connections, too.
        routes.extend(
            paths
                .iter()
                .filter(|path| may_need_https(&path.settings))
                .filter_map(|path| by_https(&path.route())),
        );
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
        self.connections.dials.insert(peer, superseded.clone());
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
        if self.connections.supersede(peer) {
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
                self.connections.dials.remove(&peer);
                self.connect(peer, *secured).await
            }
            TaskEnd::Dialed(peer, Err(DialError::Superseded)) => {
                self.dial(peer);
                Ok(())
            }
            TaskEnd::Dialed(peer, Err(error)) => {
                self.connections.dials.remove(&peer);
                self.peers.note_error(peer, error_chain(&error));
                self.plane.post(move |plane| plane.site.handle_dial_failed(peer, Instant::now())).await
            }
            TaskEnd::Disconnected(peer, id, end) => {
                self.connections.close(id);
                match end {
                    Ok(()) => {}
                    // A dialler learns of a refusal only now: TLS 1.3 lets it finish first.
                    Err(FramingError::Broken(error)) => {
                        let error = TlsError::from(error);
                        if matches!(error, TlsError::KeyRefused) {
                            // It has removed this site, and with it what it ended; its word of that may have been lost.
                            self.plane.post(move |plane| plane.end_splits_of(peer)).await?;
                        }
                        self.peers.note_error(peer, error_chain(&error));
                    }
                    Err(error @ (FramingError::Ended | FramingError::Stuck)) => {
                        self.peers.note_error(peer, error_chain(&error));
                    }
                    Err(error @ FramingError::Malformed(_)) => {
                        self.connections.malformed += 1;
                        self.peers.note_error(peer, error_chain(&error));
                    }
                }
                self.plane.post(move |plane| plane.site.handle_disconnected(id, Instant::now())).await
            }
            TaskEnd::Streamed(socket, ended) => self.on_stream_end(socket, ended).await,
            TaskEnd::LookedForPortal(interface, portal) => {
                self.on_portal(&interface, portal.as_deref());
                Ok(())
            }
            TaskEnd::Resolved(endpoint, addresses) => self.on_resolved(endpoint, addresses).await,
            TaskEnd::Reread(reread) => self.on_reread(*reread).await,
            TaskEnd::Applied(Some(applicant)) => {
                self.on_applied(*applicant);
                Ok(())
            }
            TaskEnd::Enrolled(enrolment) => self.on_enrolled(*enrolment).await,
            TaskEnd::Applied(None) | TaskEnd::Answered => Ok(()),
            TaskEnd::Listener
            | TaskEnd::Hearing
            | TaskEnd::Served
            | TaskEnd::Registered
            | TaskEnd::Kept
            | TaskEnd::Unstreamed => Ok(()),
        }
    }

    /// A peer has called, from that address or through that relay; the address is known if nothing else is in between.
    pub(super) async fn on_accepted<S>(
        &mut self,
        secured: Secured<S>,
        from: &str,
        address: Option<SocketAddr>,
    ) -> Result<(), DaemonError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        if secured.protocol == JOIN_ALPN {
            self.hear_applicant(secured, from);
            return Ok(());
        }
        if secured.protocol == PATH_ALPN {
            let peer =
                self.peers.iter().find(|peer| peer.config.public_key == secured.peer).map(|peer| peer.id);
            return match peer {
                Some(peer) => self.on_stream(peer, secured, address).await,
                // Only keys of peers are let in.
                None => Ok(()),
            };
        }
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
        let (id, outgoing) = self.connections.open();
        let unusable = psmc_net::aead::ExportedKeys::new(&[0; psmc_net::aead::SECRET_LEN]);
        let keys = std::mem::replace(&mut secured.keys, unusable);
        let role: Role = secured.role;
        let added = self
            .plane
            .call(move |plane| plane.site.handle_connected(peer, id, role, Box::new(keys), Instant::now()));
        if added.await?.is_err() {
            self.connections.close(id);
            return Ok(());
        }
        if let Some(index) = self.peers.index_of(peer) {
            self.peers[index].last_error = None;
        }
        let plane = self.plane.poster();
        self.tasks
            .spawn(async move { TaskEnd::Disconnected(peer, id, serve(id, secured, plane, outgoing).await) });
        Ok(())
    }
}

/// Serves a connection until it ends: gives what arrives to the engine, writes what comes from `outgoing`.
/// When `outgoing` is closed, what was given before is written, then the connection is closed, without an error.
async fn serve<S: AsyncRead + AsyncWrite + Unpin>(
    id: ConnectionId,
    secured: Secured<S>,
    plane: Poster,
    outgoing: mpsc::UnboundedReceiver<Message>,
) -> Result<(), FramingError> {
    let (mut stream, writer) = tokio::io::split(secured.stream);
    let read = async {
        let (mut messages, mut pace) = (MessageReader::default(), Pace::new());
        loop {
            let message = messages.next(&mut stream).await?;
            plane.post(move |plane| plane.site.handle_message(id, message, std::time::Instant::now())).await;
            pace.wait().await;
        }
    };
    tokio::select! {
        end = write_all(writer, outgoing) => end,
        end = read => end,
    }
}

async fn write_all(
    mut writer: impl AsyncWrite + Unpin,
    mut outgoing: mpsc::UnboundedReceiver<Message>,
) -> Result<(), FramingError> {
    while let Some(message) = outgoing.recv().await {
        write_message(&mut writer, &message).await?;
    }
    close(writer).await;
    Ok(())
}
