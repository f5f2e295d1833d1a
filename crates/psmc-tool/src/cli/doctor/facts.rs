//! What was seen, before anybody judges it.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::SystemTime;

use ipnet::IpNet;
use psmc_api::{PathState, PathStatus, PeerStatus, Status};
use psmc_net::keys::KeyFileError;
use psmc_net::probe::{IcmpError, Walk};
use psmc_net::tls::TlsError;
use psmcd::config::ValueError;
use psmcd::machine::Notice;

use super::firewall::Dropped;
use super::nat::View;

/// All that was seen.
#[derive(Debug)]
pub(super) struct Facts {
    pub(super) machine: Machine,
    pub(super) daemon: Daemon,
    /// Ports of this site that another program has.
    pub(super) taken_ports: Vec<TakenPort>,
    /// What `psmc check` says of this machine, too.
    pub(super) notices: Vec<Notice>,
    pub(super) network: Network,
    /// What the firewall of this machine drops of the tunnel's.
    pub(super) dropped: Vec<Dropped>,
    /// Peers to which there is no way to try.
    pub(super) unled: Vec<Unled>,
    /// Ways to peers.
    pub(super) ways: Vec<Way>,
    /// What could not be looked at, and why.
    pub(super) unseen: Vec<String>,
}

impl Facts {
    /// How peers see the sockets of the paths that this site has opened and that work.
    pub(super) fn views(&self) -> Vec<View> {
        let peers = self.daemon.status().into_iter().flat_map(|status| &status.peers);
        let of_peer = |peer: &PeerStatus| {
            let views = peer.paths.iter().filter_map(|path| view(&peer.name, path));
            views.collect::<Vec<_>>()
        };
        peers.filter(|peer| peer.control.connected).flat_map(of_peer).collect()
    }

    /// The routers that have answered on the ways from each uplink.
    pub(super) fn routers(&self) -> BTreeMap<String, Vec<IpAddr>> {
        let mut routers: BTreeMap<String, Vec<IpAddr>> = BTreeMap::new();
        for way in &self.ways {
            let uplink = way.state.as_ref().and_then(|path| path.uplink.clone()).or(way.interface.clone());
            let (Some(uplink), Ok(walk)) = (uplink, &way.walk) else { continue };
            routers.entry(uplink).or_default().extend(walk.hops.iter().map(|(_, router)| *router));
        }
        routers
    }
}

/// How a peer sees the socket of a path, if it works and the peer says so.
fn view(peer: &str, path: &PathStatus) -> Option<View> {
    if !matches!(path.state, PathState::Active | PathState::Standby) {
        return None;
    }
    Some(View {
        uplink: path.uplink.clone()?,
        interface: path.interface.clone(),
        local: SocketAddr::new(path.local.as_ref()?.parse().ok()?, path.local_port?),
        far: path.remote.as_ref()?.parse().ok()?,
        seen: path.seen_as.as_ref()?.parse().ok()?,
        by: peer.to_owned(),
    })
}

/// The machine itself.
#[derive(Debug)]
pub(super) struct Machine {
    pub(super) tun: Tun,
    /// Major and minor number of the kernel.
    pub(super) kernel: Option<(u32, u32)>,
    pub(super) now: SystemTime,
    /// When the configuration was written, if there is one.
    pub(super) written: Option<SystemTime>,
    /// Whether something keeps the clock right.
    pub(super) is_synchronised: Option<bool>,
    /// Whether systemd-networkd runs that removes rules of others.
    pub(super) networkd_removes_rules: bool,
    /// Datagrams received, and those with wrong checksums, since the machine was started.
    pub(super) datagrams: Option<(u64, u64)>,
}

/// Whether there can be a tunnel's interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tun {
    /// There can.
    Fine,
    /// There is no device, or no driver.
    Missing,
    /// The device may not be opened.
    Denied,
}

/// What is known of the file of the private key, if it yields none.
#[derive(Debug)]
pub(super) struct WrongKeyFile {
    pub(super) error: KeyFileError,
    /// The same in the words of `psmc check`.
    pub(super) said: ValueError,
}

/// The daemon of the configuration.
#[derive(Debug)]
pub(super) enum Daemon {
    /// It does not run.
    Absent,
    /// Its socket is there, and nobody listens on it.
    Dead { socket: PathBuf },
    /// It does not answer.
    Silent { socket: PathBuf },
    /// This user may not ask it.
    Denied,
    /// It runs.
    Running {
        status: Box<Status>,
        /// How many files it may have open.
        most_files: Option<u64>,
    },
}

impl Daemon {
    pub(super) fn status(&self) -> Option<&Status> {
        match self {
            Self::Running { status, .. } => Some(status),
            Self::Absent | Self::Dead { .. } | Self::Silent { .. } | Self::Denied => None,
        }
    }
}

/// A port that another program has.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TakenPort {
    /// UDP or TCP.
    pub(super) protocol: &'static str,
    pub(super) port: u16,
    /// Who has it.
    pub(super) by: Option<String>,
}

/// The network of this machine.
#[derive(Debug, Default)]
pub(super) struct Network {
    /// All addresses, with the interfaces that have them, but for the tunnel's.
    pub(super) addresses: Vec<(IpNet, String)>,
    /// Local networks within those of peers.
    pub(super) overlaps: Vec<Overlap>,
    /// Networks of peers that do not lead into the tunnel.
    pub(super) astray: Vec<Astray>,
}

/// A local network within one of a peer.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Overlap {
    pub(super) local: IpNet,
    pub(super) interface: String,
    pub(super) of_peer: IpNet,
}

/// A network of a peer that does not lead into the tunnel.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Astray {
    pub(super) net: IpNet,
    /// The address that was asked for.
    pub(super) address: IpAddr,
    /// Where its packets leave; nowhere if `None`.
    pub(super) by: Option<String>,
    /// Rules of others that are asked before this site's.
    pub(super) rules: Vec<String>,
}

/// A peer to which there is no way to try.
#[derive(Debug)]
pub(super) struct Unled {
    pub(super) peer: String,
    pub(super) why: UnledWhy,
}

/// Why there is none.
#[derive(Debug)]
pub(super) enum UnledWhy {
    /// The name has no address.
    Unresolved(String),
    /// It is an address of this machine.
    Own(SocketAddr),
    /// Nothing leads out of this machine.
    NoUplink(SocketAddr),
    /// The uplinks are of another version of IP.
    Version(Notice),
}

/// A way to a peer, or to the first relay on it.
#[derive(Debug)]
pub(super) struct Way {
    pub(super) peer: String,
    /// The path's name, if the file has it.
    pub(super) path: Option<String>,
    /// The relay that it leads to first.
    pub(super) relay: Option<String>,
    /// The interface that it is bound to.
    pub(super) interface: Option<String>,
    /// The address that it is bound to.
    pub(super) local: Option<IpAddr>,
    pub(super) remote: SocketAddr,
    pub(super) link: Link,
    /// The MTU of its interface, or what the file says it is.
    pub(super) link_mtu: Option<u16>,
    pub(super) gateway: Gateway,
    pub(super) tcp: Tcp,
    pub(super) tls: Tls,
    /// How far datagrams come, or why none can be sent.
    pub(super) walk: Result<Walk, std::io::Error>,
    /// What was said of a packet of the smallest size that PSMC needs, and of one of the interface's.
    pub(super) narrow: Option<IcmpError>,
    pub(super) wide: Option<IcmpError>,
    /// What the running daemon knows of it.
    pub(super) state: Option<PathStatus>,
}

/// The local end of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Link {
    /// It can be used.
    Usable,
    /// There is no such interface.
    Missing,
    /// It is down.
    Down,
    /// The address is none of its.
    NoSuchAddress,
    /// It has no address of that version of IP.
    NoAddress,
    /// No route leads there.
    NoRoute,
}

/// The next hop of a way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gateway {
    /// There is none, or it has answered.
    Fine,
    /// It does not say where it is.
    Silent(IpAddr),
}

/// What came of an attempt to connect.
#[derive(Debug)]
pub(super) enum Tcp {
    /// It was not tried.
    Untried,
    Connected,
    Refused,
    NoAnswer,
    Failed(std::io::Error),
}

/// What came of a handshake.
#[derive(Debug)]
pub(super) enum Tls {
    /// It was not tried: there is no connection, or the daemon has one.
    Untried,
    Accepted,
    Failed(TlsError),
    /// It has no end.
    Stalled,
}
