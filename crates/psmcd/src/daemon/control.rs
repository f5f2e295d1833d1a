//! The control side: everything that takes its time.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use psmc_core::{Event, PathState, PeerId};
use psmc_net::netlink::{LinkEvents, Netlink};
use psmc_net::tls::tcp::{TcpError, listen_tcp};
use psmc_net::tls::{Acceptor, AllowedKeys, Identity};
use psmc_net::udp::UdpBind;
use psmc_service::daemon::{Signals, Told};
use psmc_service::supervisor::Supervisor;
use psmc_wire::PathId;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::{Interval, MissedTickBehavior};

use super::DaemonError;
use super::captures::Captures;
use super::connections::Connections;
use super::fallbacks::Fallbacks;
use super::fitting::Fitting;
use super::invitations::Invitations;
use super::ipfix::Exporter;
use super::metrics::{METRICS, Scraped};
use super::names::Names;
use super::network::footprint::Footprint;
use super::network::{HostNetwork, Numbers, TunnelInterface};
use super::paths::{LISTEN_SOCKET, Sockets};
use super::peers::Peers;
use super::pings::Pings;
use super::plane::{self, News, Notice, PlaneHandle, Started};
use super::portals::Portals;
use super::quotas::Quotas;
use super::reflection::Reflection;
use super::relays::{Caller, Grants, LOOK_INTERVAL, Relays};
use super::reload::ConfigFile;
use super::revival::Revivals;
use super::routes::RouteWatch;
use super::scrapes::Scrapes;
use super::settings::{site_config, tun_config};
use super::sla::Slas;
use super::speedtests::Speedtests;
use super::splits::splits_any;
use super::streams::Streams;
use super::tasks::{TaskEnd, Tasks};
use super::tunnels::Bind;
use super::undelivered::Hearing;
use super::unused::Unused;
use super::web;
use super::witnesses::Witnesses;
use crate::config::{self, Config, Tcp};
use crate::machine::keep_outside;
use psmc_api::Server;

/// Paths that could not be opened are tried again this often: a name that didn't resolve, an uplink that had no
/// default route yet.
const RETRY_INTERVAL: Duration = Duration::from_secs(1);

/// The control side of the daemon: what it knows, by owner, and the loop that hands on what happens.
pub(super) struct Control {
    pub(super) site: config::Site,
    pub(super) identity: Identity,
    pub(super) started: Instant,
    pub(super) file: ConfigFile,
    pub(super) peers: Peers,
    /// Who may become a peer.
    pub(super) invitations: Invitations,
    pub(super) relays: Relays,
    /// Who waits for learned routes, and when paths are looked at because of them.
    pub(super) routes: RouteWatch,
    /// What is tried for paths that do not answer.
    pub(super) revivals: Revivals,
    // In the end the plane goes before what follows, which it does without.
    pub(super) plane: PlaneHandle,
    pub(super) notices: mpsc::UnboundedReceiver<Notice>,
    news: mpsc::Receiver<News>,
    /// What leads into the tunnel, and what out of this host.
    pub(super) network: HostNetwork,
    /// Names of endpoints.
    pub(super) names: Names,
    pub(super) sockets: Sockets,
    /// Whether a path could not be opened that should be.
    pub(super) retry_paths: bool,
    /// Paths that are not used, and what was said of them.
    pub(super) unused: Unused,
    /// Who waits for round trips.
    pub(super) pings: Pings,
    /// Who looks at inner packets.
    pub(super) captures: Captures,
    /// Who tests how fast the tunnel is.
    pub(super) speedtests: Speedtests,
    /// Who measures the way to this site.
    pub(super) reflection: Reflection,
    pub(super) connections: Connections,
    pub(super) tasks: Tasks,
    /// Who watches over this process.
    pub(super) supervisor: Supervisor,
    /// Who wants to know how all is.
    pub(super) scrapes: Scrapes,
    /// Who has counted what somebody wants to know.
    pub(super) witnesses: Witnesses,
    /// What was promised to this site.
    pub(super) slas: Slas,
    /// Who is told of flows.
    pub(super) exporter: Exporter,
    /// What uplinks may carry.
    pub(super) quotas: Quotas,
    /// Datagrams in streams.
    pub(super) streams: Streams,
    /// Paths that may need some.
    pub(super) fallbacks: Fallbacks,
    /// Captive portals behind uplinks.
    pub(super) portals: Portals,
    /// Whether there is a TCP stack for connections that end here.
    pub(super) ends_tcp: bool,
    server: Server,
    signals: Signals,
}

impl Control {
    /// Makes everything that a site needs; what fails is undone by being dropped.
    pub(super) async fn start(config: Config, file: PathBuf) -> Result<Self, DaemonError> {
        // Before anything takes time: without somebody who listens they end the process.
        let signals = Signals::listen()?;
        let Config { site, peers, relays, tunnel_ends, invitations } = config;
        let server = Server::bind(site.control_socket.as_path())?;
        let link_events = LinkEvents::open().await?;
        let netlink = Netlink::new()?;
        let identity = Identity::new(&site.private_key);
        let numbers = Numbers::of(identity.public());
        keep_outside(&site);
        let listeners = listeners(&site)?;
        let Started { handle: plane, notices, news, tun_name, tun_index } =
            plane::start(site_config(&site), tun_config(&site)).await?;
        let police = site.unresponsive;
        plane.post(move |plane| plane.site.set_police(police)).await?;
        let allowed = AllowedKeys::default();
        let fitting = site.mtu.is_none().then(Fitting::new);
        let interface = TunnelInterface { name: tun_name, index: tun_index, fitting };
        let invitations = Invitations::new(invitations);
        let acceptor = acceptor(&site, &identity, &allowed, &invitations);
        let quotas = Quotas::new(site.state_file.clone());
        let footprint = Footprint::begin(&site, numbers).await?;
        let grants = Grants::new(site.grants_file.clone(), identity.public());
        let caller = Caller { identity: identity.clone(), name: site.name.to_string(), grants };
        let relays = Relays::new((relays, tunnel_ends), caller, acceptor.clone(), plane.poster());
        let mut control = Self {
            site,
            identity,
            started: Instant::now(),
            file: ConfigFile::new(file),
            peers: Peers::new(allowed),
            invitations,
            relays,
            routes: RouteWatch::new(),
            revivals: Revivals::default(),
            plane,
            notices,
            news,
            network: HostNetwork::new(netlink, link_events, numbers, interface, footprint),
            names: Names::default(),
            sockets: Sockets::default(),
            retry_paths: false,
            unused: Unused::default(),
            pings: Pings::default(),
            captures: Captures::default(),
            speedtests: Speedtests::new(),
            reflection: Reflection::default(),
            connections: Connections::new(acceptor),
            tasks: Tasks::default(),
            supervisor: Supervisor::from_environment(),
            scrapes: Scrapes::default(),
            witnesses: Witnesses::default(),
            slas: Slas::default(),
            exporter: Exporter::default(),
            quotas,
            streams: Streams::default(),
            fallbacks: Fallbacks::default(),
            portals: Portals::default(),
            ends_tcp: false,
            server,
            signals,
        };
        control.set_up(peers).await?;
        control.allow_speedtests();
        // Not before its peers are known: who calls early is kept waiting, and not refused.
        for listener in listeners {
            control.connections.listen(listener, &mut control.tasks);
        }
        Ok(control)
    }

    /// Answers Prometheus and browsers, where they may ask.
    async fn serve_http(&mut self) -> Result<(), DaemonError> {
        let asker = self.scrapes.asker();
        if let Some(address) = self.site.metrics {
            let asker = asker.clone();
            let ask = move || {
                let asker = asker.clone();
                async move { asker.ask().await.map(Scraped::new) }
            };
            let served = psmc_service::metrics::serve(address, METRICS, ask).await;
            self.tasks.spawn_server(served.map_err(DaemonError::Metrics)?);
        }
        if let Some(web) = &self.site.web {
            let served = web::serve(web, asker, self.server.caller()).await;
            self.tasks.spawn_server(served.map_err(DaemonError::Web)?);
        }
        Ok(())
    }

    /// Enters the peers and opens their paths; what was changed on this host is taken back if that fails.
    async fn set_up(&mut self, peers: Vec<config::Peer>) -> Result<(), DaemonError> {
        let done = self.enter_peers(peers).await;
        if done.is_err() {
            self.network.abandon().await;
        }
        done
    }

    async fn enter_peers(&mut self, peers: Vec<config::Peer>) -> Result<(), DaemonError> {
        self.serve_http().await?;
        self.reflection.allow(self.site.sla.reflector.as_ref()).await?;
        self.allow_export().await?;
        let listen = Bind::Udp(UdpBind { address: self.site.bind_address(), interface: None });
        self.plane.call(move |plane| plane.open_port(LISTEN_SOCKET, &listen)).await??;
        let ends_tcp = self.site.treatment.tcp == Tcp::Split || splits_any(&self.site.classes);
        self.end_tcp_if(ends_tcp).await?;
        for peer in peers {
            self.add_peer(peer).await?;
        }
        self.watch_targets();
        self.network.steer_now(&self.site, &self.peers).await;
        self.network.match_host(&self.site).await?;
        for peer in 0..self.peers.len() {
            self.open_configured_paths(peer).await;
        }
        self.network.note_change();
        self.relays.register(&self.site.register, &BTreeSet::new(), &mut self.tasks);
        self.hear();
        let (site, interface) = (self.site.name.as_str(), self.network.interface_name());
        let listen = self.listening();
        tracing::info!(site, interface, listen, key = %self.identity.public(), "running");
        Ok(())
    }

    /// Lets peers test how fast the tunnel is, if the file says so.
    pub(super) fn allow_speedtests(&mut self) {
        let addresses = self.site.addresses.iter().map(ipnet::IpNet::addr);
        self.speedtests.allow(self.site.speedtest, addresses, &mut self.tasks);
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
                tracing::info!(%error, "cannot receive ICMP errors: dead paths are detected by silence only")
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
            let watches_routes = self.routes.is_on(&self.peers);
            let (look_at, end_pings) = (self.network.look_at(), self.pings.deadline());
            let (poll_witnesses, judge_targets) = (self.witnesses.next_poll(), self.slas.next());
            let (export, count) = (self.exporter.next(), self.quotas.next());
            let fall_back = self.fallbacks.next();
            tokio::select! {
                told = self.signals.next() => match told {
                    Told::Stop => break,
                    Told::Reload => self.reread(None),
                },
                Some(news) = self.news.recv() => self.on_news(&news).await?,
                _ = beat.tick() => self.beat().await?,
                notice = self.notices.recv() => match notice {
                    Some(notice) => self.on_notice(notice).await?,
                    None => return Err(DaemonError::PlaneDied),
                },
                Some((secured, from)) = self.connections.next_accepted() => {
                    self.on_accepted(secured, &from.to_string(), Some(from)).await?;
                }
                Some((secured, relay)) = self.relays.next_call() => self.on_accepted(*secured, relay.as_str(), None).await?,
                Some(caller) = self.speedtests.next_caller() => self.on_speedtest(caller).await?,
                Some(end) = self.tasks.next_end() => self.on_task_end(end).await?,
                event = self.network.next_event() => self.on_network_event(event?).await?,
                () = until(end_pings) => self.pings.end_overdue(),
                () = until(poll_witnesses) => self.poll_witnesses().await?,
                Some(reading) = self.witnesses.next_reading() => self.witnesses.on_reading(reading),
                () = until(judge_targets) => self.judge_targets().await?,
                Some(tally) = self.slas.next_tally() => self.slas.on_tally(tally),
                () = until(export) => self.export().await?,
                () = until(count) => self.count_quotas().await?,
                () = until(fall_back) => self.fall_back().await?,
                () = until(look_at) => self.look_at_network().await?,
                Some(call) = self.server.next_call() => self.on_call(call).await?,
                question = self.scrapes.wanted() => self.scrape(question).await?,
                _ = retry.tick(), if self.retry_paths => self.retry_paths().await,
                _ = look.tick() => {
                    self.names.end_waiting_calls();
                    self.peers.log_changed_paths();
                    self.log_gone_addresses();
                    self.end_idle_capture().await?;
                    self.relays.look_at_paths(&self.peers, &self.plane).await?;
                    self.revive().await?;
                    self.fall_back().await?;
                    self.look_for_portals().await?;
                    self.unused.explain(&self.peers, &self.plane).await?;
                    self.network.look_at_forwarding(&self.site, &self.plane).await?;
                    self.network.fit_interface(&self.plane).await?;
                    self.network.look_at_footprint();
                }
                () = self.routes.tick(), if watches_routes => self.look_at_routes().await?,
            }
        }
        self.supervisor.stopping();
        self.close_quotas().await;
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
            Notice::Message(id, message) => self.connections.write(id, message),
            Notice::Event(Event::Dial(peer)) => self.dial(peer),
            // Without its sender a connection ends once everything is written.
            Notice::Event(Event::Hangup(id)) => self.connections.close(id),
            Notice::Event(Event::PathForgotten { peer, path }) => self.forget_path(peer, path).await?,
            Notice::Event(Event::HopWanted { peer, path }) => {
                if let Some(keeper) = self.peers.keeper(peer, path) {
                    keeper.renew();
                }
            }
            Notice::Event(Event::Measured { peer, path, number, round_trip }) => {
                self.pings.on_measured((peer, path), number, round_trip);
            }
            Notice::Event(Event::Counts { peer, counts }) => {
                self.witnesses.on_counts(peer, &counts, Instant::now());
            }
            Notice::Event(event) => self.peers.log_event(&event),
        }
        Ok(())
    }

    /// Something has happened that can be missed.
    async fn on_news(&mut self, news: &News) -> Result<(), DaemonError> {
        let event = &news.event;
        if let Event::PathChanged { peer, path, state } = event {
            self.unused.note((*peer, *path), *state);
            self.fallbacks.on_state((*peer, *path), *state, Instant::now());
            self.routes.look_soon();
            match self.peers.keeper(*peer, *path) {
                Some(keeper) => keeper.on_path(*state),
                None if *state == PathState::Dead => self.relays.doubt(),
                None => {}
            }
        }
        if let Event::PathMoved { peer, path } = event {
            self.on_moved(*peer, *path).await?;
        }
        self.peers.log_news(news);
        if let Event::PathChanged { peer, path, state: PathState::Active } = event {
            self.on_answer(*peer, *path).await?;
            self.network.fit_interface(&self.plane).await?;
        }
        Ok(())
    }

    /// Closes the socket of a path that either side has removed, and on which nothing comes any more.
    async fn forget_path(&mut self, peer: PeerId, path: PathId) -> Result<(), DaemonError> {
        let Some(peer) = self.peers.get_mut(peer) else {
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

/// Where it takes control connections and streams.
fn listeners(site: &config::Site) -> Result<Vec<TcpListener>, TcpError> {
    let usual = (!site.is_hidden).then(|| site.bind_address());
    let tls = site.listen_tls.map(|listen| listen.socket_addr());
    usual.into_iter().chain(tls).map(listen_tcp).collect()
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

/// Who admits callers: peers, who joins by an invitation, and streams of paths.
fn acceptor(
    site: &config::Site,
    identity: &Identity,
    allowed: &AllowedKeys,
    invitations: &Invitations,
) -> Acceptor {
    Acceptor::new(identity, allowed.clone())
        .quietly(site.is_quiet)
        .with_invitations(identity, invitations.allowed())
        .with_streams(identity, allowed.clone())
}
