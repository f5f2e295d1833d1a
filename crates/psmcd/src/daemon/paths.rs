//! From configured paths to sockets and paths of the engine.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use psmc_core::{PathAddress, PathConfig, PeerError, SocketId};
use psmc_net::ipip::{TunnelBind, Way};
use psmc_net::netlink::Uplink;
use psmc_net::udp::{UdpBind, source_address};
use psmc_wire::PathId;
use thiserror::Error;

use super::DaemonError;
use super::control::Control;
use super::dial::Route;
use super::lookup::lookup;
use super::peers::Peer;
use super::plane::Plane;
use super::relays::{Goal, Keeper, Lead, LocalEnd, Spares};
use super::settings::path_config;
use super::streams::Stream;
use super::tunnels::{Bind, PortError, TUNNEL_HEADER};
use crate::config::{
    Endpoint, FITTED_LEAST_MTU, Host, MAX_CHAIN, Name, PathSettings, Relay, TUNNEL_OVERHEAD, Transport,
};

/// The socket on the listening port, used by paths that are bound to nothing.
pub(super) const LISTEN_SOCKET: SocketId = SocketId(0);

/// The numbers of sockets, none of which is used twice.
#[derive(Debug)]
pub(super) struct Sockets {
    last: u32,
}

impl Default for Sockets {
    fn default() -> Self {
        Self { last: LISTEN_SOCKET.0 }
    }
}

impl Sockets {
    /// The number of a new one.
    pub(super) fn number(&mut self) -> SocketId {
        self.last += 1;
        SocketId(self.last)
    }
}

/// Why a path could not be opened.
#[derive(Debug, Error)]
pub(super) enum OpenError {
    /// The peer's name has no address.
    #[error("cannot resolve `{0}`: check the name, or the resolver")]
    Unresolved(Endpoint),
    /// It is not known yet.
    #[error("the name of `{0}` is being resolved, and the resolver has not answered yet")]
    Resolving(Endpoint),
    /// No relay has this name.
    #[error("there is no relay `{name}`; this site knows: {known}")]
    UnknownRelay {
        /// The name.
        name: Name,
        /// The names of those that there are.
        known: String,
    },
    /// It leads to nobody.
    #[error(
        "neither the path nor its peer has an endpoint, nor does it lead through relays that know the peer"
    )]
    Nowhere,
    /// It leads straight to the peer.
    #[error("this site is hidden behind its relays: lead the path through some with --relays")]
    WouldShow,
    /// Within IP-in-IP a datagram is for an address.
    #[error("IP-in-IP leads to an address: give the path an endpoint, or let it go by UDP")]
    NoAddress,
    /// IP-in-IP is IPv4 in IPv4.
    #[error("IP-in-IP needs addresses of IPv4, and {0} is none")]
    NotIpv4(IpAddr),
    /// Nothing leads to the relay just now.
    #[error("no local address can reach the relay")]
    NoSource(#[source] io::Error),
    /// It would pass a relay twice, or too many.
    #[error("a path leads through {MAX_CHAIN} relays at most, and through none twice")]
    BadChain,
    /// The engine refused it.
    #[error(transparent)]
    Refused(#[from] PeerError),
    /// The daemon is ending.
    #[error(transparent)]
    Daemon(#[from] DaemonError),
}

/// A path as the control side keeps it.
#[derive(Clone, Debug)]
pub(super) struct OpenPath {
    pub(super) id: PathId,
    pub(super) settings: PathSettings,
    pub(super) socket: SocketId,
    /// Where its datagrams go: to the peer, or to the relay next to this site.
    pub(super) remote: SocketAddr,
    /// Where it leads in the end.
    goal: Goal,
    /// What keeps its sessions at its relays, if it leads through any.
    pub(super) keeper: Option<Keeper>,
    /// The tunnel of IP-in-IP in which its datagrams travel, if there is one.
    tunnel: Option<TunnelBind>,
    /// The stream in which its datagrams travel, if they travel in one.
    pub(super) stream: Option<Stream>,
    /// The path beside which it was opened, because nothing came there.
    pub(super) beside: Option<PathId>,
    /// The relay of the learned route over which it leads, if it does.
    pub(super) learned: Option<Relay>,
    /// The socket that it had when it last answered, which is kept while others are tried.
    pub(super) home: SocketId,
    /// The index of the interface that the socket was bound to; another one under the same name is another link.
    pub(super) interface_index: Option<u32>,
    /// Whether it was opened because there was an uplink.
    pub(super) is_automatic: bool,
    /// Whether it rests because its uplink leads nowhere.
    pub(super) is_idle: bool,
    /// Whether it rests because its interface has no address.
    pub(super) has_no_address: bool,
    /// The page of the captive portal that is in its way, if one was found.
    pub(super) portal: Option<String>,
    /// Whether its link is up, as the log was told last.
    pub(super) told_link: Option<bool>,
}

/// What the plane needs to open a path.
struct Opening {
    config: PathConfig,
    bind: Option<Bind>,
    is_relayed: bool,
    /// Whether its datagrams travel in a stream, which is not there yet.
    waits_for_stream: bool,
    /// Whether it carries data only when no other path can.
    stands_by: bool,
    /// Whether its interface has no address.
    has_no_address: bool,
}

impl OpenPath {
    /// What to bind its socket to, or `None` if it uses the listening one, or a stream.
    pub(super) fn bind(&self) -> Option<Bind> {
        match &self.tunnel {
            Some(tunnel) => Some(Bind::Tunnel(tunnel.clone())),
            None if self.is_in_stream() => None,
            None => {
                let any = || UdpBind { address: unspecified(self.remote), interface: None };
                let bind = bind_of(&self.settings, self.remote);
                bind.or_else(|| (self.socket != LISTEN_SOCKET).then(any)).map(Bind::Udp)
            }
        }
    }

    /// Sets the destination, and the socket that is used.
    pub(super) fn lead_to(&mut self, remote: SocketAddr, socket: SocketId) {
        self.socket = socket;
        self.remote = remote;
        if self.keeper.is_none() {
            self.goal = Goal::Address(remote);
        }
    }

    /// Its sockets: one, or two while it does not answer.
    pub(super) fn sockets(&self) -> impl Iterator<Item = SocketId> + use<> {
        [self.socket, self.home].into_iter().filter(|&socket| socket != LISTEN_SOCKET)
    }

    /// Its peer was heard at this address. What listens there for connections does so at the port that it always had, whatever
    /// a NAT made of that of datagrams.
    pub(super) fn note_address(&mut self, address: PathAddress) {
        let PathAddress { socket, remote, .. } = address;
        self.socket = socket;
        self.remote = remote;
        if let (Goal::Address(goal), None) = (&mut self.goal, &self.keeper) {
            goal.set_ip(remote.ip());
        }
    }

    /// Whether its datagrams travel in IP-in-IP.
    pub(super) fn is_in_tunnel(&self) -> bool {
        self.tunnel.is_some()
    }

    /// Whether its datagrams travel in a stream.
    pub(super) fn is_in_stream(&self) -> bool {
        self.stream.is_some()
    }

    /// Whether it leads through a machine that only unwraps, and takes no connections.
    pub(super) fn is_in_plain_tunnel(&self) -> bool {
        matches!(&self.tunnel, Some(TunnelBind { way: Way::Plain(_), .. }))
    }

    /// How a control connection is made along this path.
    pub(super) fn route(&self) -> Route {
        let kept = self.keeper.as_ref().map(|keeper| keeper.keeping().relays);
        let relays = kept.or_else(|| Some(self.stream.as_ref()?.relays.clone())).unwrap_or_default();
        Route { local_end: local_end(&self.settings), relays, to: self.goal }
    }

    /// The name of what its rate is shared with by other paths.
    pub(super) fn uplink(&self) -> String {
        self.settings.uplink()
    }

    /// Whether it may be used if its link is up.
    pub(super) fn may_be_used(&self) -> bool {
        !(self.is_idle || self.has_no_address)
    }

    /// Whether its interface has no address, so that the kernel would take one in the tunnel.
    pub(super) fn lacks_address(&self) -> bool {
        self.tunnel.is_none() && lacks_address(&self.settings, self.remote)
    }

    pub(super) fn uses_interface(&self, name: &str) -> bool {
        self.settings.interface.as_ref().is_some_and(|interface| interface.as_str() == name)
    }
}

/// Where what belongs to a path with these settings leaves this machine.
pub(super) fn local_end(settings: &PathSettings) -> LocalEnd {
    LocalEnd {
        interface: settings.interface.as_ref().map(|name| name.as_str().to_owned()),
        local: settings.address.map(|address| address.get()),
    }
}

/// What a path with these settings is bound to, or `None` if it uses the listening socket.
fn bind_of(settings: &PathSettings, remote: SocketAddr) -> Option<UdpBind> {
    let PathSettings { interface, address, .. } = settings;
    let any = unspecified(remote);
    let is_bound = interface.is_some() || address.is_some() || settings.is_further_flow();
    let ip = address.map_or(any.ip(), |address| address.get());
    let interface = interface.as_ref().map(|name| name.as_str().to_owned());
    is_bound.then_some(UdpBind { address: SocketAddr::new(ip, 0), interface })
}

/// Whether the interface of these settings has no address to send to `remote` from but those in the tunnel.
pub(super) fn lacks_address(settings: &PathSettings, remote: SocketAddr) -> bool {
    let LocalEnd { interface, local } = local_end(settings);
    let source = source_address(interface.as_deref(), remote);
    interface.is_some()
        && local.is_none()
        && source.is_err_and(|error| error.kind() == io::ErrorKind::AddrNotAvailable)
}

/// The unspecified address of the same family.
fn unspecified(remote: SocketAddr) -> SocketAddr {
    match remote {
        SocketAddr::V4(_) => SocketAddr::from(([0, 0, 0, 0], 0)),
        SocketAddr::V6(_) => SocketAddr::from(([0u16; 8], 0)),
    }
}

/// The first address of an endpoint: one to which a route leads, if there is any.
pub(super) async fn resolve(endpoint: &Endpoint) -> Result<SocketAddr, OpenError> {
    let first = match &endpoint.host {
        Host::Ip(ip) => Some(SocketAddr::new(*ip, endpoint.port.get())),
        Host::Dns(name) => lookup(name.as_str(), endpoint.port.get()).await.first().copied(),
    };
    first.ok_or_else(|| OpenError::Unresolved(endpoint.clone()))
}

/// A path for each of these uplinks.
pub(super) fn uplink_settings<'a>(uplinks: impl IntoIterator<Item = &'a Uplink>) -> Vec<PathSettings> {
    let over = |uplink: &Uplink| {
        let plain = PathSettings::plain(uplink.name.parse().ok()?);
        Some(PathSettings { interface: uplink.name.parse().ok(), ..plain })
    };
    uplinks.into_iter().filter_map(over).collect()
}

impl Control {
    /// Opens a path. If its interface isn't there yet, the path waits for it, dead.
    pub(super) async fn open_path(&mut self, peer: usize, settings: PathSettings) -> Result<(), OpenError> {
        let relays = match self.relays.tunnel_end(&settings) {
            Some(_) => Vec::new(),
            None => self.relays.named(&settings.relays)?,
        };
        self.open_path_through(peer, settings, relays, None).await.map(drop)
    }

    /// Opens a path over a learned route, which stands by unless such paths carry the data.
    pub(super) async fn open_path_over(
        &mut self,
        peer: usize,
        settings: PathSettings,
        route: Relay,
    ) -> Result<(), OpenError> {
        self.open_path_through(peer, settings, vec![route.clone()], Some(route)).await.map(drop)
    }

    /// Opens a path for what does not get through on another one, and says which it is.
    pub(super) async fn open_path_beside(
        &mut self,
        peer: usize,
        other: PathId,
        settings: PathSettings,
    ) -> Result<PathId, OpenError> {
        let relays = self.relays.named(&settings.relays)?;
        let id = self.open_path_through(peer, settings, relays, None).await?;
        if let Some(path) = self.peers[peer].paths.last_mut() {
            path.beside = Some(other);
        }
        Ok(id)
    }

    async fn open_path_through(
        &mut self,
        peer: usize,
        settings: PathSettings,
        relays: Vec<Relay>,
        learned: Option<Relay>,
    ) -> Result<PathId, OpenError> {
        if self.site.is_hidden && relays.is_empty() {
            return Err(OpenError::WouldShow);
        }
        let (goal, remote) = self.destination(peer, &settings, relays.first()).await?;
        let socket = self.sockets.number();
        let tunnel = self.tunnel_of(&settings, (self.peers[peer].id, socket), (goal, remote))?;
        let mtu = self.room(&settings, tunnel.is_some()).await;
        let interface_index = self.network.index_of_link(&settings).await;
        let stream = (settings.transport == Transport::Tls).then(|| Stream::new(relays.clone()));
        let bind = match &tunnel {
            Some(tunnel) => Some(Bind::Tunnel(tunnel.clone())),
            None if stream.is_some() => None,
            None => bind_of(&settings, remote).map(Bind::Udp),
        };
        let socket = if bind.is_some() || stream.is_some() { socket } else { LISTEN_SOCKET };
        let leads_on = !relays.is_empty() && stream.is_none();
        let has_no_address = tunnel.is_none() && lacks_address(&settings, remote);
        self.quotas.arrange(&self.peers, Some(&settings));
        let opening = Opening {
            config: path_config(&settings, socket, remote, mtu).tuned(self.quotas.tuning(&settings)),
            bind,
            is_relayed: leads_on,
            waits_for_stream: stream.is_some(),
            stands_by: learned.is_some() && !self.peers[peer].routes.lead_over_relays(),
            has_no_address,
        };
        let id = self.open_in_plane(peer, opening).await?;
        self.peers[peer].removed.remove(&settings.name);
        if let Some(stream) = &stream {
            self.keep_stream((peer, id), &settings, (stream.clone(), goal), (socket, remote));
        }
        let keeper = leads_on.then(|| {
            let wrapped = tunnel.as_ref().map(|tunnel| (goal, *tunnel.local.ip()));
            let is_trusted = learned.is_some() && self.believes_relays(peer);
            let spares = if learned.is_some() { Spares::none() } else { self.peers[peer].spares.clone() };
            let lead = Lead { relays, spares, wrapped, is_trusted };
            self.relays.keep(&self.peers[peer], id, &settings, lead, &mut self.tasks)
        });
        self.peers[peer].paths.push(OpenPath {
            id,
            settings,
            socket,
            remote,
            goal,
            keeper,
            tunnel,
            stream,
            beside: None,
            learned,
            home: socket,
            interface_index,
            is_automatic: false,
            is_idle: false,
            has_no_address,
            portal: None,
            told_link: None,
        });
        // The kernel may have to be told that answers come this way.
        self.network.note_change();
        Ok(id)
    }

    /// Where a path to this peer leads in the end, and where its datagrams go first: to the relay next to this site, if there is one.
    async fn destination(
        &mut self,
        peer: usize,
        settings: &PathSettings,
        relay: Option<&Relay>,
    ) -> Result<(Goal, SocketAddr), OpenError> {
        let to = self.peers[peer].id;
        let Some(relay) = relay else {
            let endpoint = settings.endpoint.as_ref().ok_or(OpenError::Nowhere)?;
            let remote = self.address_over(endpoint, settings, to).await?;
            return Ok((Goal::Address(remote), remote));
        };
        // Both names are asked for at the same time.
        let next = self.names.address_of(&relay.address, to, &mut self.tasks);
        let goal = match &settings.endpoint {
            Some(endpoint) => Goal::Address(self.names.address_of(endpoint, to, &mut self.tasks)?),
            None => Goal::Gateway(self.peers[peer].config.public_key),
        };
        next?;
        Ok((goal, self.address_over(&relay.address, settings, to).await?))
    }

    /// How large the IP packets of a path may be.
    async fn room(&self, settings: &PathSettings, is_in_tunnel: bool) -> u16 {
        let mut mtu = self.network.link_mtu(settings).await;
        if is_in_tunnel {
            mtu = mtu.saturating_sub(TUNNEL_HEADER);
        }
        let needed = usize::from(self.site.mtu.unwrap_or(FITTED_LEAST_MTU)) + TUNNEL_OVERHEAD;
        if usize::from(mtu) < needed {
            let path = settings.name.as_str();
            tracing::info!(path, mtu, needed, "full-size packets are split on this path");
        }
        mtu
    }

    async fn open_in_plane(&self, peer: usize, opening: Opening) -> Result<PathId, OpenError> {
        let to = self.peers[peer].id;
        let Opening { config, bind, is_relayed, waits_for_stream, stands_by, has_no_address } = opening;
        let (name, socket) = (config.name.clone(), config.socket);
        let opened = self.plane.call(move |plane| {
            let now = Instant::now();
            let mut peer = plane.site.peer(to)?;
            let id =
                if is_relayed { peer.add_relayed_path(config, now)? } else { peer.add_path(config, now)? };
            if stands_by {
                peer.path(id)?.set_standby(true, now)?;
            }
            if has_no_address || waits_for_stream {
                plane.site.handle_link(socket, false, now);
                return Ok((id, Ok(())));
            }
            Ok((id, bind.map_or(Ok(()), |bind| bind_port(plane, socket, &bind))))
        });
        let (id, bound): (PathId, Result<(), PortError>) =
            opened.await?.map_err(|error: PeerError| OpenError::Refused(error))?;
        if let Err(error) = bound {
            tracing::warn!(
                path = name,
                error = crate::error_chain(&error),
                "path waits for its interface or address"
            );
        }
        Ok(id)
    }

    /// Removes a path, until it is added by hand.
    pub(super) async fn close_path(&mut self, peer: usize, name: &str) -> Result<(), OpenError> {
        let (id, wanted) = (self.peers[peer].id, name.to_owned());
        let removed = self.plane.call(move |plane| {
            let mut path = plane.site.peer(id)?.path_named(&wanted)?;
            path.remove(Instant::now())?;
            Ok(path.id())
        });
        let removed: Result<PathId, PeerError> = removed.await?;
        let path = removed?;
        self.peers[peer].retire_path(path);
        Ok(())
    }

    /// Opens the configured paths of a peer, or one for each uplink.
    pub(super) async fn open_configured_paths(&mut self, peer: usize) {
        let wanted = match self.wanted_paths(peer).await {
            Ok(wanted) => wanted,
            Err(error) => {
                let Peer { config, waiting, .. } = &mut self.peers[peer];
                if waiting.note(None, &error) {
                    tracing::warn!(peer = %config.name, error = crate::error_chain(&error), "no paths yet");
                }
                self.retry_paths |= !matches!(error, OpenError::Resolving(_));
                return;
            }
        };
        self.peers[peer].waiting.retain(|name| wanted.iter().any(|path| path.name == *name));
        if let Err(error) = self.end_other_paths(peer, &wanted).await {
            tracing::warn!(error = crate::error_chain(&error), "cannot read the uplinks");
            self.retry_paths = true;
        }
        let is_automatic = self.peers[peer].config.paths == crate::config::Paths::EveryUplink;
        let before = self.peers[peer].paths.len();
        for settings in wanted {
            if !self.peers[peer].is_missing(&settings.name) {
                continue;
            }
            let name = settings.name.clone();
            let opened = self.open_path(peer, settings).await;
            let Peer { config, waiting, paths, .. } = &mut self.peers[peer];
            let Err(error) = opened else {
                waiting.forget(Some(&name));
                if let Some(path) = paths.last_mut() {
                    path.is_automatic = is_automatic;
                }
                continue;
            };
            if waiting.note(Some(&name), &error) {
                let peer = config.name.as_str();
                tracing::warn!(peer, path = %name, error = crate::error_chain(&error), "cannot open a path");
            }
            self.retry_paths |= !matches!(error, OpenError::Resolving(_));
        }
        if self.peers[peer].paths.len() > before && self.dial_over_new_paths(peer).await.is_err() {
            // The daemon is ending, and says so elsewhere.
            self.retry_paths = true;
        }
    }

    async fn wanted_paths(&mut self, peer: usize) -> Result<Vec<PathSettings>, OpenError> {
        let config = &self.peers[peer].config;
        match (&config.paths, config.endpoint.clone()) {
            (crate::config::Paths::Listed(paths), _) => Ok(paths.clone()),
            (crate::config::Paths::EveryUplink, None) => Ok(Vec::new()),
            (crate::config::Paths::EveryUplink, Some(endpoint)) => {
                self.paths_over_uplinks(peer, &endpoint).await
            }
        }
    }
}

/// Opens the socket of a path and tells the engine whether there is one.
pub(super) fn bind_port(plane: &mut Plane, socket: SocketId, bind: &Bind) -> Result<(), PortError> {
    let bound = plane.open_port(socket, bind);
    plane.site.handle_link(socket, bound.is_ok(), Instant::now());
    bound
}
