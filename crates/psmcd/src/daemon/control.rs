//! The control side: everything that takes its time.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use psmc_core::{ConnectionId, Event, PathState, PeerId};
use psmc_net::framing::FramingError;
use psmc_net::netlink::{LinkEvents, Netlink};
use psmc_net::tls::tcp::listen_tcp;
use psmc_net::tls::{Acceptor, AllowedKeys, Counters, Dialer, Identity, Listener, Secured, TlsError};
use psmc_net::udp::UdpBind;
use psmc_wire::PathId;
use psmc_wire::control::Message;
use psmc_wire::crypto::Role;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::DaemonError;
use super::connection::serve;
use super::dial::{DialError, dial};
use super::paths::{LISTEN_SOCKET, OpenPath, resolve};
use super::plane::{self, Notice, PlaneHandle, Started};
use super::relays::{
    BoxedStream, Callers, Goal, Grants, LOOK_INTERVAL, LocalEnd, Looks, Registration, Spares,
};
use super::settings::{peer_config, routes_for, site_config, tun_config};
use super::tunnels::Bind;
use crate::api::Server;
use crate::config::{self, Config, Name};
use crate::error_chain;

/// Accepted connections that wait to be taken over.
const MAX_ACCEPTED: usize = 64;

/// Paths that could not be opened are tried again this often: a name that didn't resolve, an uplink that had no
/// default route yet.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// A peer as the control side sees it.
pub(super) struct Peer {
    pub(super) id: PeerId,
    pub(super) config: config::Peer,
    pub(super) paths: Vec<OpenPath>,
    /// Sockets of removed paths, closed when the engine has forgotten the path.
    pub(super) retired: Vec<OpenPath>,
    /// What takes the place of relays that fail.
    pub(super) spares: Spares,
    /// Names of paths that were removed by hand, here or at the peer. The configuration doesn't bring them back.
    pub(super) removed: BTreeSet<Name>,
    pub(super) last_error: Option<String>,
}

impl Peer {
    pub(super) fn path_named(&self, name: &str) -> Option<&OpenPath> {
        self.paths.iter().find(|path| path.settings.name.as_str() == name)
    }

    /// Whether a configured path is neither open nor removed by hand.
    pub(super) fn is_missing(&self, name: &Name) -> bool {
        self.path_named(name.as_str()).is_none() && !self.removed.contains(name)
    }

    /// Puts a path aside whose removal has begun.
    pub(super) fn retire_path(&mut self, id: PathId) {
        for path in self.paths.extract_if(.., |path| path.id == id) {
            self.removed.insert(path.settings.name.clone());
            self.retired.push(path);
        }
    }
}

/// The control side of the daemon.
pub(super) struct Control {
    pub(super) site: config::Site,
    pub(super) identity: Identity,
    pub(super) peers: Vec<Peer>,
    /// The relays that paths may lead through.
    pub(super) relays: Vec<config::Relay>,
    /// Other machines that they may.
    pub(super) tunnel_ends: Vec<config::TunnelEnd>,
    /// What this site may show to relays that do not know it.
    pub(super) grants: Grants,
    /// How good paths were that may get another relay.
    pub(super) looks: Looks,
    /// The relays at which this site is a gateway.
    pub(super) registrations: Vec<Registration>,
    /// Shakes hands with peers that call.
    pub(super) acceptor: Acceptor,
    /// For calls through relays.
    pub(super) callers: Callers,
    pub(super) plane: PlaneHandle,
    pub(super) netlink: Netlink,
    pub(super) tun_name: String,
    pub(super) tun_index: u32,
    pub(super) next_socket: u32,
    pub(super) retry_paths: bool,
    pub(super) started: Instant,
    pub(super) tls_counters: Arc<Counters>,
    /// Connections that ended because the peer sent something that is no message.
    pub(super) malformed_messages: u64,
    pub(super) notices: mpsc::UnboundedReceiver<Notice>,
    news: mpsc::Receiver<Event>,
    accepted: mpsc::Receiver<(Secured, SocketAddr)>,
    called: mpsc::Receiver<(Box<Secured<BoxedStream>>, Name)>,
    pub(super) connections: BTreeMap<ConnectionId, mpsc::UnboundedSender<Message>>,
    next_connection: u64,
    pub(super) tasks: JoinSet<TaskEnd>,
    /// How many of the tasks keep sessions at relays.
    pub(super) keepers: usize,
    link_events: LinkEvents,
    server: Server,
    terminate: [Signal; 2],
}

/// What a task of the control side came to.
pub(super) enum TaskEnd {
    Dialed(usize, Result<Box<Secured<BoxedStream>>, DialError>),
    Disconnected(usize, ConnectionId, Result<(), FramingError>),
    Listener,
    /// Only when the daemon ends.
    Registered,
    /// A path has no use for its relays any more.
    Kept,
}

impl Control {
    /// Makes everything that a site needs; what fails is undone by being dropped.
    pub(super) async fn start(config: Config) -> Result<Self, DaemonError> {
        let Config { site, peers, relays, tunnel_ends } = config;
        let server = Server::bind(site.control_socket.as_path())?;
        let link_events = LinkEvents::open().await?;
        let netlink = Netlink::new()?;
        let identity = Identity::new(&site.private_key);
        let listener = if site.is_hidden { None } else { Some(listen_tcp(site.bind_address())?) };
        let Started { handle: plane, notices, news, tun_name, tun_index } =
            plane::start(site_config(&site), tun_config(&site)).await?;
        let (ready, accepted) = mpsc::channel(MAX_ACCEPTED);
        let tls_counters = Arc::new(Counters::default());
        let allowed: AllowedKeys = peers.iter().map(|peer| peer.public_key).collect();
        let acceptor = Acceptor::new(&identity, allowed);
        let (callers, called) = mpsc::channel(MAX_ACCEPTED);
        let mut tasks = JoinSet::new();
        if let Some(listener) = listener {
            let (acceptor, counters) = (acceptor.clone(), tls_counters.clone());
            tasks.spawn(async move {
                Listener::run(listener, acceptor, ready, counters).await;
                TaskEnd::Listener
            });
        }
        let mut control = Self {
            grants: Grants::new(site.grants_file.clone(), identity.public()),
            site,
            identity,
            peers: Vec::new(),
            relays,
            tunnel_ends,
            looks: Looks::default(),
            registrations: Vec::new(),
            acceptor,
            callers,
            plane,
            netlink,
            tun_name,
            tun_index,
            next_socket: LISTEN_SOCKET.0,
            retry_paths: false,
            started: Instant::now(),
            tls_counters,
            malformed_messages: 0,
            notices,
            news,
            accepted,
            called,
            connections: BTreeMap::new(),
            next_connection: 0,
            tasks,
            keepers: 0,
            link_events,
            server,
            terminate: [signals(SignalKind::terminate())?, signals(SignalKind::interrupt())?],
        };
        control.set_up(peers).await?;
        Ok(control)
    }

    async fn set_up(&mut self, peers: Vec<config::Peer>) -> Result<(), DaemonError> {
        let listen = Bind::Udp(UdpBind { address: self.site.bind_address(), interface: None });
        self.plane.call(move |plane| plane.open_port(LISTEN_SOCKET, &listen)).await??;
        for peer in peers {
            self.add_peer(peer).await?;
        }
        for peer in 0..self.peers.len() {
            self.open_configured_paths(peer).await;
        }
        self.register();
        let (site, interface) = (self.site.name.as_str(), self.tun_name.as_str());
        let listen = self.listening();
        tracing::info!(site, interface, listen, key = %self.identity.public(), "running");
        Ok(())
    }

    /// Where this site listens, in words.
    pub(super) fn listening(&self) -> String {
        if self.site.is_hidden { "nothing".to_owned() } else { self.site.bind_address().to_string() }
    }

    async fn add_peer(&mut self, config: config::Peer) -> Result<(), DaemonError> {
        let engine = peer_config(&config, self.identity.public());
        let added = self.plane.call(move |plane| plane.site.add_peer(engine, Instant::now())).await?;
        let name = config.name.to_string();
        let id = added.map_err(|source| DaemonError::Peer { name, source })?;
        for net in config.allowed_ips.iter().flat_map(|allowed| routes_for(allowed.net())) {
            // The kernel has made the routes of the interface's own networks.
            let is_own = self.site.addresses.iter().any(|address| address.net().trunc() == net);
            if !is_own {
                self.netlink.add_route(net, self.tun_index).await?;
            }
        }
        let spares = self.spares(&config);
        self.peers.push(Peer {
            id,
            config,
            paths: Vec::new(),
            retired: Vec::new(),
            spares,
            removed: BTreeSet::new(),
            last_error: None,
        });
        Ok(())
    }

    /// Serves until a signal ends it.
    pub(super) async fn run(&mut self) -> Result<(), DaemonError> {
        let mut retry = tokio::time::interval(RETRY_INTERVAL);
        retry.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        let mut look = tokio::time::interval(LOOK_INTERVAL);
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let [terminate, interrupt] = &mut self.terminate;
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                Some(event) = self.news.recv() => self.on_news(&event),
                notice = self.notices.recv() => match notice {
                    Some(notice) => self.on_notice(notice).await?,
                    None => return Err(DaemonError::PlaneDied),
                },
                Some((secured, from)) = self.accepted.recv() => {
                    self.on_accepted(secured, &from.to_string()).await?;
                }
                Some((secured, relay)) = self.called.recv() => self.on_accepted(*secured, relay.as_str()).await?,
                Some(Ok(end)) = self.tasks.join_next() => self.on_task_end(end).await?,
                event = self.link_events.next() => self.on_network_event(event?).await?,
                Some(call) = self.server.next_call() => self.on_call(call).await?,
                _ = retry.tick(), if self.retry_paths => self.retry_paths().await,
                _ = look.tick() => self.look_at_paths().await?,
            }
        }
        self.say_goodbye().await
    }

    /// Whether this site is the one to open connections to the peer.
    pub(super) fn is_dialing(&self, peer: &Peer) -> bool {
        peer.config.endpoint.is_some() || !peer.paths.is_empty()
    }

    async fn retry_paths(&mut self) {
        self.retry_paths = false;
        for peer in 0..self.peers.len() {
            self.open_configured_paths(peer).await;
        }
    }

    pub(super) async fn on_notice(&mut self, notice: Notice) -> Result<(), DaemonError> {
        match notice {
            Notice::Message(id, message) => {
                if let Some(connection) = self.connections.get(&id) {
                    // A connection that has just broken takes no more; its end is reported by its task.
                    let _ = connection.send(message);
                }
            }
            Notice::Event(Event::Dial(peer)) => self.dial(peer).await?,
            // Without its sender a connection ends once everything is written.
            Notice::Event(Event::Hangup(id)) => drop(self.connections.remove(&id)),
            Notice::Event(Event::PathForgotten { peer, path }) => self.forget_path(peer, path).await?,
            Notice::Event(Event::HopWanted { peer, path }) => {
                if let Some(keeper) = self.keeper(peer, path) {
                    keeper.renew();
                }
            }
            Notice::Event(event) => self.log_event(&event),
        }
        Ok(())
    }

    /// Something has happened that can be missed.
    fn on_news(&self, event: &Event) {
        if let Event::PathChanged { peer, path, state } = event {
            match self.keeper(*peer, *path) {
                Some(keeper) => keeper.on_path(*state),
                None if *state == PathState::Dead => self.registrations.iter().for_each(Registration::doubt),
                None => {}
            }
        }
        self.log_event(event);
    }

    /// Has a keeper do its work.
    pub(super) fn spawn_keeper(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.keepers += 1;
        self.tasks.spawn(async move {
            work.await;
            TaskEnd::Kept
        });
    }

    /// Has a registration kept.
    pub(super) fn spawn_registration(&mut self, work: impl Future<Output = ()> + Send + 'static) {
        self.tasks.spawn(async move {
            work.await;
            TaskEnd::Registered
        });
    }

    fn log_event(&self, event: &Event) {
        let name =
            |id: PeerId| self.peers.iter().find(|peer| peer.id == id).map(|peer| peer.config.name.as_str());
        match event {
            Event::Connected { peer, fresh, .. } => tracing::info!(peer = name(*peer), fresh, "connected"),
            Event::Closed { peer, reason } => {
                tracing::info!(peer = name(*peer), ?reason, "closed by the peer")
            }
            Event::PathChanged { peer, path, state } => {
                tracing::info!(peer = name(*peer), path = path.0, state = state.name(), "path changed");
            }
            Event::PathOpened { peer, path } => {
                tracing::info!(peer = name(*peer), path = path.0, "path opened by the peer");
            }
            Event::PathMoved { peer, path } => {
                tracing::info!(peer = name(*peer), path = path.0, "the peer's address on a path has changed");
            }
            Event::Dial(_) | Event::Hangup(_) | Event::PathForgotten { .. } | Event::HopWanted { .. } => {}
        }
    }

    /// Opens a control connection, in a task of its own.
    async fn dial(&mut self, peer: PeerId) -> Result<(), DaemonError> {
        let Some(index) = self.peers.iter().position(|other| other.id == peer) else {
            return Ok(());
        };
        let caller = self.caller();
        let Peer { config, paths, .. } = &self.peers[index];
        let dialer = Dialer::new(&self.identity, config.public_key);
        // Through a machine that only unwraps there is no connection; the straight one shows who speaks with whom.
        let is_only_wrapped = paths.iter().all(OpenPath::is_in_plain_tunnel);
        let leading = paths.iter().filter(|path| is_only_wrapped || !path.is_in_plain_tunnel());
        let mut routes: Vec<_> = leading.map(OpenPath::route).collect();
        // Straight ways first.
        routes.sort_by_key(|route| route.relays.len());
        routes.dedup();
        let endpoint = config.endpoint.clone().filter(|_| routes.is_empty() && !config.is_only_relayed());
        self.tasks.spawn(async move {
            if let Some(endpoint) = endpoint
                && let Ok(remote) = resolve(&endpoint).await
            {
                let relays = Vec::new();
                let to = Goal::Address(remote);
                routes.push(super::dial::Route { local_end: LocalEnd::default(), relays, to });
            }
            TaskEnd::Dialed(index, dial(caller, dialer, routes).await.map(Box::new))
        });
        Ok(())
    }

    pub(super) async fn on_task_end(&mut self, end: TaskEnd) -> Result<(), DaemonError> {
        match end {
            TaskEnd::Dialed(peer, Ok(secured)) => self.connect(peer, *secured).await,
            TaskEnd::Dialed(peer, Err(error)) => {
                self.note_error(peer, error_chain(&error));
                let id = self.peers[peer].id;
                self.plane.post(move |plane| plane.site.handle_dial_failed(id, Instant::now())).await
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
            TaskEnd::Kept => {
                self.keepers -= 1;
                Ok(())
            }
            TaskEnd::Listener | TaskEnd::Registered => Ok(()),
        }
    }

    /// Remembers why a peer can't be reached; says it aloud only when it is news.
    fn note_error(&mut self, peer: usize, error: String) {
        let peer = &mut self.peers[peer];
        if peer.last_error.as_ref() != Some(&error) {
            tracing::info!(peer = peer.config.name.as_str(), error, "no control connection");
            peer.last_error = Some(error);
        }
    }

    /// A peer has called, from that address or through that relay.
    async fn on_accepted<S>(&mut self, secured: Secured<S>, from: &str) -> Result<(), DaemonError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        tracing::debug!(from, peer = %secured.peer, "control connection accepted");
        match self.peers.iter().position(|peer| peer.config.public_key == secured.peer) {
            Some(peer) => self.connect(peer, secured).await,
            // Only keys of peers are let in.
            None => Ok(()),
        }
    }

    /// Hands a connection to the engine and serves it, in a task of its own.
    async fn connect<S>(&mut self, peer: usize, mut secured: Secured<S>) -> Result<(), DaemonError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        self.next_connection += 1;
        let id = ConnectionId(self.next_connection);
        let (sender, outgoing) = mpsc::unbounded_channel();
        self.connections.insert(id, sender);
        let unusable = psmc_net::aead::ExportedKeys::new(&[0; psmc_net::aead::SECRET_LEN]);
        let keys = std::mem::replace(&mut secured.keys, unusable);
        let (peer_id, role): (PeerId, Role) = (self.peers[peer].id, secured.role);
        let added = self.plane.call(move |plane| {
            plane.site.handle_connected(peer_id, id, role, Box::new(keys), Instant::now())
        });
        if added.await?.is_err() {
            self.connections.remove(&id);
            return Ok(());
        }
        self.peers[peer].last_error = None;
        let plane = self.plane.poster();
        self.tasks
            .spawn(async move { TaskEnd::Disconnected(peer, id, serve(id, secured, plane, outgoing).await) });
        Ok(())
    }

    /// Closes the socket of a path that either side has removed, and on which nothing comes any more.
    async fn forget_path(&mut self, peer: PeerId, path: PathId) -> Result<(), DaemonError> {
        let Some(peer) = self.peers.iter_mut().find(|other| other.id == peer) else {
            return Ok(());
        };
        peer.retire_path(path);
        let forgotten = peer.retired.extract_if(.., |retired| retired.id == path);
        let sockets: Vec<_> = forgotten.map(|path| path.socket).collect();
        for socket in sockets.into_iter().filter(|&socket| socket != LISTEN_SOCKET) {
            self.plane.post(move |plane| plane.close_port(socket)).await?;
        }
        Ok(())
    }
}

fn signals(kind: SignalKind) -> Result<Signal, DaemonError> {
    signal(kind).map_err(|source| DaemonError::System { what: "signal handlers", source })
}
