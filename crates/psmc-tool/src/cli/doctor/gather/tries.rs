//! Tries the ways to peers: TCP, the handshake, and how far datagrams come.

use std::io;
use std::net::IpAddr;
use std::time::Duration;

use psmc_api::{PathStatus, PeerState, PeerStatus};
use psmc_net::keys::PublicKey;
use psmc_net::netlink::{Netlink, NetlinkError, Uplink};
use psmc_net::probe::{self, IcmpError, Probe, Walk};
use psmc_net::tls::tcp::{TcpError, connect_tcp};
use psmc_net::tls::{Dialer, Identity, TlsError};
use psmcd::config::Config;
use psmcd::machine::Marks;
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::super::facts::{Daemon, Gateway, Link, Tcp, Tls, Way};
use super::LEAST_PACKET;

/// A connection may take so long: a round trip over satellites, and a retransmission.
const CONNECT_TIME: Duration = Duration::from_secs(3);

/// A handshake may take so long.
const HANDSHAKE_TIME: Duration = Duration::from_secs(3);

/// A peer that refuses this site's key says so within this time: a round trip.
const REFUSAL_TIME: Duration = Duration::from_secs(1);

/// ICMP errors may take so long.
const ICMP_TIME: Duration = Duration::from_millis(1500);

/// So many routers are asked: most hosts of the Internet are fewer away.
const MOST_HOPS: u8 = 16;

/// Ethernet's, where nothing better is known.
const USUAL_MTU: u16 = 1500;

/// What is needed to try one way.
struct Trial {
    mark: u32,
    way: Way,
    /// By which the handshake is tried, if it may be.
    dialer: Option<Dialer>,
}

/// Tries all of them at the same time.
pub(super) async fn make(
    config: &Config,
    daemon: &Daemon,
    (ways, marks): (&mut Vec<Way>, &Marks),
    unseen: &mut Vec<String>,
) {
    let identity = Identity::new(&config.site.private_key);
    let mut tries = JoinSet::new();
    for (position, mut way) in ways.drain(..).enumerate() {
        let known = peer_of(daemon, &way);
        way.state = known.and_then(|peer| state_of(peer, &way)).cloned();
        let key = config.peers.iter().find(|peer| peer.name.as_str() == way.peer).map(|peer| peer.public_key);
        let dialer = key.filter(|_| way.relay.is_none() && may_shake_hands(daemon, known));
        let dialer = dialer.map(|key: PublicKey| Dialer::new(&identity, key));
        let trial = Trial { mark: marks.mark, way, dialer };
        tries.spawn(async move { (position, trial.run().await) });
    }
    let mut tried = Vec::new();
    while let Some(Ok((position, outcome))) = tries.join_next().await {
        match outcome {
            Ok(way) => tried.push((position, way)),
            Err(error) => unseen.push(format!("a way to a peer: {}", crate::error_chain(&error))),
        }
    }
    tried.sort_by_key(|(position, _)| *position);
    ways.extend(tried.into_iter().map(|(_, way)| way));
}

fn peer_of<'a>(daemon: &'a Daemon, way: &Way) -> Option<&'a PeerStatus> {
    daemon.status()?.peers.iter().find(|peer| peer.name == way.peer)
}

/// What the daemon knows of a way.
fn state_of<'a>(peer: &'a PeerStatus, way: &Way) -> Option<&'a PathStatus> {
    // Those that the peer has opened have none.
    let mut opened = peer.paths.iter().filter(|path| path.uplink.is_some());
    opened.find(|path| match &way.path {
        Some(name) => path.name == *name,
        None => path.interface.is_some() && path.interface == way.interface,
    })
}

/// Whether a handshake in the name of this site disturbs nobody: with a connection that there is, or keys that are in use, it would.
fn may_shake_hands(daemon: &Daemon, peer: Option<&PeerStatus>) -> bool {
    match daemon {
        Daemon::Absent | Daemon::Dead { .. } => true,
        Daemon::Silent { .. } | Daemon::Denied => false,
        Daemon::Running { .. } => {
            peer.is_some_and(|peer| !peer.control.connected && peer.state != PeerState::Connected)
        }
    }
}

impl Trial {
    async fn run(self) -> Result<Way, NetlinkError> {
        let Self { mark, mut way, dialer } = self;
        // One of its own: the kernel lists one thing at a time over each.
        let netlink = Netlink::new()?;
        let index = match &way.interface {
            None => None,
            Some(name) => match netlink.link_index(name).await {
                Ok(index) => Some(index),
                Err(NetlinkError::NoSuchLink { .. }) => {
                    way.link = Link::Missing;
                    return Ok(way);
                }
                Err(error) => return Err(error),
            },
        };
        way.link = near_end(&netlink, &way, index, mark).await?;
        if way.link != Link::Usable {
            return Ok(way);
        }
        if let (None, Some(name)) = (way.link_mtu, &way.interface) {
            way.link_mtu = u16::try_from(netlink.link_mtu(name).await?).ok().filter(|mtu| *mtu > 0);
        }
        let narrow = probe_of(&way, LEAST_PACKET);
        let wide = probe_of(&way, way.link_mtu.unwrap_or(USUAL_MTU));
        // In this order, as routers say no more than a few things at once.
        let (walk, connected, narrow, wide) = tokio::join!(
            biased;
            far_end(&way),
            connect(&way, dialer.as_ref()),
            said_of(&narrow),
            said_of(&wide)
        );
        (way.tcp, way.tls) = connected;
        (way.walk, way.narrow, way.wide) = (walk, narrow, wide);
        let hop = netlink.way_to(way.remote.ip(), mark, index).await;
        if let Some((hop, gateway)) = hop.and_then(|hop| Some((hop, hop.gateway?)))
            && netlink.has_answered(hop.interface, gateway).await? == Some(false)
        {
            way.gateway = Gateway::Silent(gateway);
        }
        Ok(way)
    }
}

/// Whether anything can be sent at all.
async fn near_end(netlink: &Netlink, way: &Way, index: Option<u32>, mark: u32) -> Result<Link, NetlinkError> {
    let remote = way.remote.ip();
    if let Some(index) = index {
        if !netlink.link_state(index).await?.is_some_and(|state| state.up) {
            return Ok(Link::Down);
        }
        let addresses = netlink.addresses(index).await?;
        let is_usable = |address: IpAddr| match address {
            IpAddr::V4(_) => remote.is_ipv4(),
            IpAddr::V6(address) => remote.is_ipv6() && !address.is_unicast_link_local(),
        };
        if way.local.is_none() && !addresses.iter().any(|own| is_usable(own.addr())) {
            return Ok(Link::NoAddress);
        }
    }
    if let Some(local) = way.local {
        // A socket can be bound to an address of this machine, and to no other.
        if std::net::UdpSocket::bind((local, 0)).is_err() {
            return Ok(Link::NoSuchAddress);
        }
    }
    let leads = match netlink.way_to(remote, mark, index).await {
        Some(way) => way.gateway.is_some() || is_on_link(netlink, remote, index).await?,
        None => false,
    };
    Ok(if leads { Link::Usable } else { Link::NoRoute })
}

/// Whether a route says that the address is on the link of this index, or that all are. Of a link that is named the kernel takes that
/// for granted where it has no route.
async fn is_on_link(netlink: &Netlink, address: IpAddr, index: Option<u32>) -> Result<bool, NetlinkError> {
    let Some(index) = index else { return Ok(true) };
    let routes = netlink.main_routes().await?;
    let leads = routes.iter().any(|route| route.interface == index && route.destination.contains(&address));
    let is_uplink =
        |uplink: &Uplink| uplink.index == index && if address.is_ipv4() { uplink.v4 } else { uplink.v6 };
    Ok(leads || netlink.uplinks(&[]).await?.iter().any(is_uplink))
}

fn probe_of(way: &Way, length: u16) -> Probe {
    Probe { interface: way.interface.clone(), local: way.local, remote: way.remote, length }
}

async fn far_end(way: &Way) -> io::Result<Walk> {
    probe::walk(&probe_of(way, 100), MOST_HOPS, ICMP_TIME).await
}

/// What is said of a large datagram. That it cannot be sent is seen by small ones.
async fn said_of(probe: &Probe) -> Option<IcmpError> {
    probe::send(probe, None, ICMP_TIME).await.ok().flatten()
}

async fn connect(way: &Way, dialer: Option<&Dialer>) -> (Tcp, Tls) {
    let interface = way.interface.as_deref();
    match connect_tcp(interface, way.local, way.remote, CONNECT_TIME).await {
        Ok(stream) => {
            let Some(dialer) = dialer else { return (Tcp::Connected, Tls::Untried) };
            (Tcp::Connected, shake_hands(stream, dialer).await)
        }
        Err(TcpError::TimedOut { .. }) => (Tcp::NoAnswer, Tls::Untried),
        Err(TcpError::Connect { source, .. }) if source.kind() == io::ErrorKind::ConnectionRefused => {
            (Tcp::Refused, Tls::Untried)
        }
        Err(
            TcpError::Connect { source, .. }
            | TcpError::Socket(source)
            | TcpError::Interface { source, .. }
            | TcpError::Local { source, .. }
            | TcpError::Listen { source, .. },
        ) => (Tcp::Failed(source), Tls::Untried),
    }
}

async fn shake_hands(stream: TcpStream, dialer: &Dialer) -> Tls {
    let mut secured = match timeout(HANDSHAKE_TIME, dialer.connect(stream)).await {
        Ok(Ok(secured)) => secured,
        Ok(Err(error)) => return Tls::Failed(error),
        Err(_) => return Tls::Stalled,
    };
    // Whether this site's key is accepted shows in what is read first.
    let read = timeout(REFUSAL_TIME, secured.stream.read(&mut [0; 1])).await;
    match read.map(|read| read.map_err(TlsError::from)) {
        Ok(Err(refused @ TlsError::KeyRefused)) => Tls::Failed(refused),
        Ok(Ok(_) | Err(_)) | Err(_) => Tls::Accepted,
    }
}
