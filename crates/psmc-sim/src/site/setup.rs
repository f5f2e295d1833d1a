//! What a site is.

use std::net::{IpAddr, SocketAddr};

use ipnet::IpNet;
use psmc_core::{PathConfig, PeerConfig, SiteConfig};

use crate::ids::{HostId, LinkId};

/// What a site proves to be: here a number, where the daemon has a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Identity(pub u64);

/// A site: a host that runs the engine behind a TUN device.
#[derive(Clone, Debug)]
pub struct SiteSetup {
    /// The host.
    pub host: HostId,
    /// What it proves to be.
    pub identity: Identity,
    /// What its engine is told; the seed is another one at each start.
    pub config: SiteConfig,
    /// The addresses of its TUN device.
    pub addresses: Vec<IpNet>,
    /// The port where it takes datagrams and control connections.
    pub listen: u16,
    /// The other ends of its tunnels.
    pub peers: Vec<PeerSetup>,
}

/// The other end of a tunnel.
#[derive(Clone, Debug)]
pub struct PeerSetup {
    /// What it must prove to be.
    pub identity: Identity,
    /// What the engine is told; its networks are routed into the tunnel.
    pub config: PeerConfig,
    /// Where it is dialled if there are no paths.
    pub endpoint: Option<SocketAddr>,
    /// The paths to it.
    pub paths: Vec<PathSetup>,
}

/// A path that a site opens.
#[derive(Clone, Debug)]
pub struct PathSetup {
    /// What the engine is told; the socket is found here.
    pub config: PathConfig,
    /// The link that it must leave by; the routes say which if `None`.
    pub link: Option<LinkId>,
    /// The address that it sends from; the one that fits if `None`.
    pub address: Option<IpAddr>,
}
