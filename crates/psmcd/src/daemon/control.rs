//! The control side: everything that takes its time.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use psmc_core::{ConnectionId, Event, PathState, PeerId};
use psmc_net::netlink::{LinkEvents, Netlink};
use psmc_net::tls::tcp::listen_tcp;
use psmc_net::tls::{Acceptor, AllowedKeys, Counters, Identity, Listener, Secured};
use psmc_net::udp::UdpBind;
use psmc_service::supervisor::Supervisor;
use psmc_wire::PathId;
use psmc_wire::control::{CloseReason, Message};
use tokio::net::TcpListener;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Interval, MissedTickBehavior};

use super::DaemonError;
use super::connections::TaskEnd;
use super::fitting::Fitting;
use super::names::Names;
use super::network::{Network, Numbers};
use super::paths::LISTEN_SOCKET;
use super::peers::Peer;
use super::plane::{self, News, Notice, PlaneHandle, Started};
use super::relays::{BoxedStream, Callers, Grants, LOOK_INTERVAL, Looks, Registered};
use super::revival::Revivals;
use super::routes::{self, Waiter};
use super::settings::{site_config, tun_config};
use super::tunnels::Bind;
use super::undelivered::Hearing;
use super::unused::Unused;
use crate::config::{self, Config, Name};
use psmc_api::Server;

/// Accepted connections that wait to be taken over.
const MAX_ACCEPTED: usize = 64;

/// Paths that could not be opened are tried again this often: a name that didn't resolve, an uplink that had no
/// default route yet.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

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
    /// What is tried for paths that do not answer.
    pub(super) revivals: Revivals,
    /// The relays at which this site is a gateway.
    pub(super) registrations: Vec<Registered>,
    /// Shakes hands with peers that call.
    pub(super) acceptor: Acceptor,
    /// The keys of peers, which it lets in.
    pub(super) allowed: AllowedKeys,
    /// What ends the dials that are under way.
    pub(super) dials: BTreeMap<PeerId, Arc<Notify>>,
    /// Clients whose answers come later.
    pub(super) waiters: Vec<Waiter>,
    /// When the paths are looked at for which learned routes stand in.
    pub(super) route_looks: Interval,
    /// For calls through relays.
    pub(super) callers: Callers,
    pub(super) plane: PlaneHandle,
    pub(super) netlink: Netlink,
    pub(super) tun_name: String,
    pub(super) tun_index: u32,
    /// What fits the interface to the paths, if the configuration does not say how large its packets may be.
    pub(super) fitting: Option<Fitting>,
    /// What leads into the tunnel, and what out of this host.
    pub(super) network: Network,
    pub(super) next_socket: u32,
    pub(super) retry_paths: bool,
    pub(super) started: Instant,
    pub(super) tls_counters: Arc<Counters>,
    /// Connections that ended because the peer sent something that is no message.
    pub(super) malformed_messages: u64,
    pub(super) notices: mpsc::UnboundedReceiver<Notice>,
    /// Names of endpoints.
    pub(super) names: Names,
    /// Where the configuration is, to be read again.
    pub(super) file: PathBuf,
    /// Whether it is being read.
    pub(super) is_rereading: bool,
    /// Paths that are not used, and what was said of them.
    pub(super) unused: Unused,
    /// What is wrong with the kernel's forwarding, if anything is.
    pub(super) forwarding: Option<String>,
    /// Who watches over this process.
    pub(super) supervisor: Supervisor,
    news: mpsc::Receiver<News>,
    accepted: mpsc::Receiver<(Secured, SocketAddr)>,
    called: mpsc::Receiver<(Box<Secured<BoxedStream>>, Name)>,
    pub(super) connections: BTreeMap<ConnectionId, mpsc::UnboundedSender<Message>>,
    pub(super) next_connection: u64,
    pub(super) tasks: JoinSet<TaskEnd>,
    /// How many of the tasks keep sessions at relays.
    pub(super) keepers: usize,
    link_events: LinkEvents,
    server: Server,
    terminate: [Signal; 2],
    hangup: Signal,
}

impl Control {
    /// Makes everything that a site needs; what fails is undone by being dropped.
    pub(super) async fn start(config: Config, file: PathBuf) -> Result<Self, DaemonError> {
        // Before anything takes time: without somebody who listens they end the process.
        let [hangup, terminate, interrupt] = all_signals()?;
        let Config { site, peers, relays, tunnel_ends } = config;
        let server = Server::bind(site.control_socket.as_path())?;
        let link_events = LinkEvents::open().await?;
        let netlink = Netlink::new()?;
        let identity = Identity::new(&site.private_key);
        let numbers = Numbers::of(identity.public());
        keep_outside(&site, &numbers);
        let listener = if site.is_hidden { None } else { Some(listen_tcp(site.bind_address())?) };
        let Started { handle: plane, notices, news, tun_name, tun_index } =
            plane::start(site_config(&site), tun_config(&site)).await?;
        let (ready, accepted) = mpsc::channel(MAX_ACCEPTED);
        let tls_counters = Arc::new(Counters::default());
        let allowed = AllowedKeys::default();
        let (callers, called) = mpsc::channel(MAX_ACCEPTED);
        let mut control = Self {
            grants: Grants::new(site.grants_file.clone(), identity.public()),
            fitting: site.mtu.is_none().then(Fitting::new),
            acceptor: Acceptor::new(&identity, allowed.clone()),
            site,
            identity,
            peers: Vec::new(),
            relays,
            tunnel_ends,
            looks: Looks::default(),
            revivals: Revivals::default(),
            registrations: Vec::new(),
            allowed,
            dials: BTreeMap::new(),
            waiters: Vec::new(),
            route_looks: ticks(routes::LOOK_INTERVAL),
            callers,
            plane,
            netlink,
            tun_name,
            tun_index,
            network: Network::new(numbers),
            next_socket: LISTEN_SOCKET.0,
            retry_paths: false,
            started: Instant::now(),
            tls_counters,
            malformed_messages: 0,
            notices,
            names: Names::default(),
            file,
            is_rereading: false,
            unused: Unused::default(),
            forwarding: None,
            supervisor: Supervisor::from_environment(),
            news,
            accepted,
            called,
            connections: BTreeMap::new(),
            next_connection: 0,
            tasks: JoinSet::new(),
            keepers: 0,
            link_events,
            server,
            terminate: [terminate, interrupt],
            hangup,
        };
        control.set_up(peers).await?;
        // Not before its peers are known: who calls early is kept waiting, and not refused.
        if let Some(listener) = listener {
            control.listen(listener, ready);
        }
        Ok(control)
    }

    fn listen(&mut self, listener: TcpListener, ready: mpsc::Sender<(Secured, SocketAddr)>) {
        let (acceptor, counters) = (self.acceptor.clone(), self.tls_counters.clone());
        self.tasks.spawn(async move {
            Listener::run(listener, acceptor, ready, counters).await;
            TaskEnd::Listener
        });
    }

    /// Enters the peers and opens their paths; rules and routes are taken back if that fails.
    async fn set_up(&mut self, peers: Vec<config::Peer>) -> Result<(), DaemonError> {
        let done = self.enter_peers(peers).await;
        if done.is_err() {
            self.stop_steering().await;
        }
        done
    }

    async fn enter_peers(&mut self, peers: Vec<config::Peer>) -> Result<(), DaemonError> {
        let listen = Bind::Udp(UdpBind { address: self.site.bind_address(), interface: None });
        self.plane.call(move |plane| plane.open_port(LISTEN_SOCKET, &listen)).await??;
        for peer in peers {
            self.add_peer(peer).await?;
        }
        self.steer_now().await;
        for peer in 0..self.peers.len() {
            self.open_configured_paths(peer).await;
        }
        self.network.note_change();
        self.register();
        self.hear();
        let (site, interface) = (self.site.name.as_str(), self.tun_name.as_str());
        let listen = self.listening();
        tracing::info!(site, interface, listen, key = %self.identity.public(), "running");
        Ok(())
    }

    /// Listens to ICMP errors about undelivered datagrams, if this site may.
    fn hear(&mut self) {
        match Hearing::open() {
            Ok(hearing) => {
                let plane = self.plane.poster();
                self.tasks.spawn(async move {
                    hearing.run(plane).await;
                    TaskEnd::Hearing
                });
            }
            Err(error) => {
                tracing::info!(%error, "no ICMP is heard: paths that end are found by their silence")
            }
        }
    }

    /// Where this site listens, in words.
    pub(super) fn listening(&self) -> String {
        if self.site.is_hidden { "nothing".to_owned() } else { self.site.bind_address().to_string() }
    }

    /// Serves until a signal ends it.
    pub(super) async fn run(&mut self) -> Result<(), DaemonError> {
        let (mut retry, mut look) = (ticks(RETRY_INTERVAL), ticks(LOOK_INTERVAL));
        let mut beat = ticks(self.supervisor.interval());
        self.supervisor.ready();
        loop {
            let watches_routes = self.watches_routes();
            let look_at = self.network.look_at();
            let [terminate, interrupt] = &mut self.terminate;
            tokio::select! {
                _ = terminate.recv() => break,
                _ = interrupt.recv() => break,
                Some(()) = self.hangup.recv() => self.reread(None),
                Some(news) = self.news.recv() => self.on_news(&news).await?,
                _ = beat.tick() => self.beat().await?,
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
                () = until(look_at) => self.look_at_network().await?,
                Some(call) = self.server.next_call() => self.on_call(call).await?,
                _ = retry.tick(), if self.retry_paths => self.retry_paths().await,
                _ = look.tick() => {
                    self.end_waiting_calls();
                    self.look_at_paths().await?;
                    self.revive().await?;
                    self.explain_paths().await?;
                    self.look_at_forwarding().await?;
                    self.fit_interface().await?;
                }
                _ = self.route_looks.tick(), if watches_routes => self.look_at_routes().await?,
            }
        }
        self.supervisor.stopping();
        self.say_goodbye().await
    }

    /// Drops all but the control socket, where those whose calls were dropped are to be told.
    pub(super) fn into_server(self) -> Server {
        self.server
    }

    /// Tells the supervisor that this loop goes round, and that the data plane does.
    async fn beat(&mut self) -> Result<(), DaemonError> {
        let lives = self.supervisor.beat();
        self.plane.post(move |_| lives.store(true, Ordering::Relaxed)).await
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
            Notice::Event(Event::Dial(peer)) => self.dial(peer),
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
    async fn on_news(&mut self, news: &News) -> Result<(), DaemonError> {
        let event = &news.event;
        if let Event::PathChanged { peer, path, state } = event {
            self.unused.note((*peer, *path), *state);
            self.look_soon();
            match self.keeper(*peer, *path) {
                Some(keeper) => keeper.on_path(*state),
                None if *state == PathState::Dead => self.registrations.iter().for_each(Registered::doubt),
                None => {}
            }
        }
        if let Event::PathMoved { peer, path } = event {
            self.on_moved(*peer, *path).await?;
        }
        self.log_news(news);
        if let Event::PathChanged { peer, path, state: PathState::Active } = event {
            self.on_answer(*peer, *path).await?;
            self.fit_interface().await?;
        }
        Ok(())
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

    fn log_event(&mut self, event: &Event) {
        match event {
            Event::Connected { peer, fresh, .. } => self.log_connected(*peer, *fresh),
            Event::Closed { peer, reason } => self.log_closed(*peer, *reason),
            Event::PathChanged { .. }
            | Event::PathOpened { .. }
            | Event::PathMoved { .. }
            | Event::BatchesLost { .. }
            | Event::Dial(_)
            | Event::Hangup(_)
            | Event::PathForgotten { .. }
            | Event::HopWanted { .. } => {}
        }
    }

    fn log_connected(&mut self, peer: PeerId, fresh: bool) {
        let Some(index) = self.peer_index(peer) else { return };
        let (peer, now) = (&mut self.peers[index], Instant::now());
        let name = peer.config.name.as_str();
        if let Some(left_out) = peer.connection_lines.note(now) {
            let left_out = (left_out > 0).then_some(left_out);
            tracing::info!(peer = name, fresh, left_out, "connected");
            peer.said_error = None;
        }
        if fresh && let Some(at) = peer.callers.note_fresh(now) {
            let error = format!("the same key is in use at {at}: each site needs a key of its own");
            tracing::warn!(peer = name, error, "two hosts take the tunnel from each other");
            peer.last_error = Some(error);
        }
    }

    fn log_closed(&mut self, peer: PeerId, reason: CloseReason) {
        let Some(index) = self.peer_index(peer) else { return };
        let (peer, now) = (&mut self.peers[index], Instant::now());
        let name = peer.config.name.as_str();
        if let Some(left_out) = peer.connection_lines.note(now) {
            let (left_out, reason) = ((left_out > 0).then_some(left_out), why_closed(reason));
            tracing::info!(peer = name, reason, left_out, "closed by the peer");
        }
        if reason == CloseReason::Superseded && peer.callers.note_superseded(now) {
            let error = "another host calls the peer with this site's key, again and again: each site needs a key of its own";
            tracing::warn!(peer = name, error, "two hosts take the tunnel from each other");
        }
    }

    fn log_news(&mut self, News { event, path: name, remote }: &News) {
        let path = name.as_deref();
        if let Event::PathChanged { peer, .. }
        | Event::PathOpened { peer, .. }
        | Event::BatchesLost { peer, .. }
        | Event::PathMoved { peer, .. } = event
            && let Some(index) = self.peer_index(*peer)
            && self.peers[index].path_lines.note(Instant::now()).is_none()
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
                    "large packets that the kernel or a device is to cut (GSO) are lost: datagrams are sent one by one"
                );
            }
            Event::Connected { .. }
            | Event::Closed { .. }
            | Event::Dial(_)
            | Event::Hangup(_)
            | Event::PathForgotten { .. }
            | Event::HopWanted { .. } => {}
        }
    }

    fn name_of(&self, id: PeerId) -> Option<&str> {
        self.peers.iter().find(|peer| peer.id == id).map(|peer| peer.config.name.as_str())
    }

    /// Closes the socket of a path that either side has removed, and on which nothing comes any more.
    async fn forget_path(&mut self, peer: PeerId, path: PathId) -> Result<(), DaemonError> {
        let Some(peer) = self.peers.iter_mut().find(|other| other.id == peer) else {
            return Ok(());
        };
        peer.retire_path(path);
        let forgotten = peer.retired.extract_if(.., |retired| retired.id == path);
        let sockets: Vec<_> = forgotten.flat_map(|path| path.sockets()).collect();
        for socket in sockets {
            self.plane.post(move |plane| plane.close_port(socket)).await?;
        }
        Ok(())
    }
}

/// What a peer means by ending a connection.
fn why_closed(reason: CloseReason) -> &'static str {
    match reason {
        CloseReason::Shutdown => "it goes away",
        CloseReason::Superseded => "another connection with this site's key has taken over",
        CloseReason::Version => "it is of another version",
        CloseReason::Protocol => "it says that this site breaks the protocol",
        CloseReason::Other(_) => "for a reason that this version does not know",
    }
}

/// A clock that does not make up for the ticks that it has missed.
fn ticks(interval: Duration) -> Interval {
    let mut ticks = tokio::time::interval(interval);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    ticks
}

/// Waits until then, or for ever.
async fn until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// SIGHUP, SIGTERM and SIGINT.
fn all_signals() -> Result<[Signal; 3], DaemonError> {
    let [hangup, terminate, interrupt] =
        [SignalKind::hangup(), SignalKind::terminate(), SignalKind::interrupt()].map(signals);
    Ok([hangup?, terminate?, interrupt?])
}

/// Has nothing that this process sends by itself go through the tunnel, nor come from an address in it.
fn keep_outside(site: &config::Site, numbers: &Numbers) {
    psmc_net::mark::set(numbers.mark);
    psmc_net::inside::set(site.addresses.iter().map(ipnet::IpNet::addr).collect());
}

pub(super) fn signals(kind: SignalKind) -> Result<Signal, DaemonError> {
    signal(kind).map_err(|source| DaemonError::System { what: "signal handlers", source })
}
