//! A checked configuration.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use jiff::Timestamp;
use psmc_core::condition::Conditioning;
use psmc_core::police::PoliceConfig;
use psmc_core::{
    ClampMss, Direction, Gateway, PathPreference, Priority, ReorderPolicy, RepairKind, SchedulerKind, Tier,
};
use psmc_net::keys::{PrivateKey, PublicKey};
use psmc_net::token::Token;
use psmc_service::http;
use psmc_signal::connection::Coordinator;

use crate::quota::Quota;
use crate::speedtest::MAX_CALLERS;

use super::ipfix::Ipfix;
use super::preset::Chosen;
use super::promise::Promise;
use super::value::{
    AllowedNet, BindAddress, Congestion, Endpoint, Exclusion, InterfaceName, LinkMtu, Listen, Name,
    PortalCheck, Rate, RoutePolicy, SocketPath, Tcp, Transport, Weight,
};

/// The configuration of a site. Every value in it is legal, and they fit together: names and keys are unique, no two
/// peers claim the same network, and every path has somewhere to go.
#[derive(Debug)]
pub struct Config {
    /// This machine.
    pub site: Site,
    /// The other ends of its tunnels; at least one, unless it is a gateway, to which they may be added while it runs.
    pub peers: Vec<Peer>,
    /// The relays that paths may lead through. All that a path or peer names are among them.
    pub relays: Vec<Relay>,
    /// Other machines that paths may lead through. Names are unique among both.
    pub tunnel_ends: Vec<TunnelEnd>,
    /// Sites that may become peers while it runs. Names and keys are unique among them and the peers.
    pub invitations: Vec<Invitation>,
}

/// Descriptors that every site has: its interface, sockets, timers, clients, the log, and those that are kept in reserve.
const OWN: usize = 96;

/// Calls of which it is not known yet whose they are (`psmc_net::tls::Listener`).
const STRANGERS: usize = 512;

/// Uplinks of a machine that opens a path over each: as many as most have.
const UPLINKS: usize = 4;

impl Config {
    /// How many files and sockets psmcd may have open at the same time with this configuration, at most.
    #[must_use]
    pub fn open_files(&self) -> usize {
        let strangers = if self.site.is_hidden { 0 } else { STRANGERS };
        let peers: usize = self.peers.iter().map(open_files_of).sum();
        // A call through a relay has a connection of its own.
        let served = usize::from(self.site.metrics.is_some()) + usize::from(self.site.web.is_some());
        let tests = if self.site.speedtest { self.site.addresses.len() + MAX_CALLERS } else { 0 };
        let promises = &self.site.sla.promises;
        let measuring = promises.iter().map(Promise::open_files).sum::<usize>();
        let reflector = usize::from(self.site.sla.reflector.is_some()) + measuring;
        let exported = usize::from(self.site.sla.ipfix.is_some());
        // One that does not answer soon is dialled beside the next one.
        let coordinators = self.site.sla.coordinators.len();
        OWN + strangers
            + reflector
            + exported
            + coordinators
            + served * (1 + http::MAX_CONNECTIONS)
            + tests
            + 2 * self.site.register.len()
            + peers
    }
}

fn open_files_of(peer: &Peer) -> usize {
    let paths = match &peer.paths {
        Paths::Listed(paths) => paths.iter().map(|path| 1 + path.relays.len()).sum(),
        Paths::EveryUplink if peer.endpoint.is_some() => UPLINKS,
        Paths::EveryUplink => 0,
    };
    // Two control connections while one takes over from the other.
    2 + paths
}

/// This machine, `[site]`.
#[derive(Debug)]
pub struct Site {
    /// Its name.
    pub name: Name,
    /// Its secret.
    pub private_key: PrivateKey,
    /// Its addresses inside the tunnel, with the lengths of their networks' prefixes; at least one, none twice.
    pub addresses: Vec<IpNet>,
    /// Where it is reached from outside, unless it is [hidden](Self::is_hidden).
    pub listen: Listen,
    /// Where it listens for TLS only, beside that: for networks that let no UDP through, and block most ports.
    pub listen_tls: Option<Listen>,
    /// Where invited sites reach it, if the file says so.
    pub endpoint: Option<Endpoint>,
    /// The networks behind it, of which invited sites are told.
    pub networks: Vec<AllowedNet>,
    /// What it does about the Internet.
    pub internet: Internet,
    /// The relays at which it registers, so that peers reach it there, beside those that it is told of while it runs.
    pub register: Vec<Name>,
    /// Whether only relays may learn where it is: it registers, and the file does not say that it listens.
    pub is_hidden: bool,
    /// The file with the grants that it shows to relays.
    pub grants_file: Option<PathBuf>,
    /// The name of its TUN interface; `None` leaves it to the kernel (`psmc%d`).
    pub interface: Option<InterfaceName>,
    /// The MTU of its TUN interface; `None` fits it to the paths.
    pub mtu: Option<u16>,
    /// What becomes of the MSS of TCP connections through the tunnel.
    pub clamp_mss: ClampMss,
    /// Whether nobody is answered who does not prove to know its public key.
    pub is_quiet: bool,
    /// How old keys get before new ones are exchanged through the tunnel.
    pub rekey_after: Duration,
    /// Whether peers may test how fast the tunnel is.
    pub speedtest: bool,
    /// Who is asked over uplinks whose paths do not work whether a captive portal is in the way.
    pub portal_check: Option<PortalCheck>,
    /// Its traffic classes, beside those that every site has, or in place of them.
    pub classes: Vec<Class>,
    /// What is done with the packets of peers that are added while it runs.
    pub treatment: Treatment,
    /// The file in which it is kept what was used of quotas.
    pub state_file: PathBuf,
    /// Where its control socket is.
    pub control_socket: SocketPath,
    /// Where Prometheus finds its metrics, `[metrics]`; nowhere if `None`.
    pub metrics: Option<SocketAddr>,
    /// What it measures, and lets others measure, `[sla]`.
    pub sla: Sla,
    /// Its web page, `[web]`, if it has one.
    pub web: Option<Web>,
    /// How flows that heed no loss are held down, `[unresponsive]`, if they are.
    pub unresponsive: Option<PoliceConfig>,
}

/// What is measured, and what others may measure, `[sla]`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sla {
    /// Where it answers those who measure, and whom; nobody if `None`.
    pub reflector: Option<psmc_stamp::Settings>,
    /// Where records of its flows go, if anywhere.
    pub ipfix: Option<Ipfix>,
    /// What was promised to it, and is watched.
    pub promises: Vec<Promise>,
    /// The coordinators that are told of what looks like an attack where that breaks a promise.
    pub coordinators: Vec<Coordinator>,
}

/// A web page that shows how the site is, `[web]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Web {
    /// Where browsers find it.
    pub listen: SocketAddr,
    /// What they must show; there is one unless only this machine reaches the page.
    pub token: Option<Token>,
    /// Whether those who show the token may change paths there.
    pub orders: bool,
}

impl Site {
    /// The address to send from, and to listen on if it is not hidden.
    pub(crate) fn bind_address(&self) -> SocketAddr {
        let mut address = self.listen.socket_addr();
        if self.is_hidden {
            // Any port: one that everybody knows would be easier to guess.
            address.set_port(0);
        }
        address
    }
}

/// What a site does about the Internet: for its peers, and with its own way there.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Internet {
    /// Whether it forwards what peers send there, from an address of its own: `internet`.
    pub is_offered: bool,
    /// The name servers that this machine asks as long as the tunnel is there; none leaves those that it has.
    pub dns: Vec<IpAddr>,
    /// Whether nothing leaves this machine but through the tunnel.
    pub kill_switch: bool,
    /// What leaves this machine outside the tunnel nevertheless.
    pub exclude: Vec<Exclusion>,
}

/// A traffic class, `[[class]]`. A packet belongs to it if it is all that the class says; empty lists say nothing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Class {
    /// Its name. One of a class that every site has changes that one.
    pub name: Name,
    /// Code points, below 64, of which the packet has one.
    pub dscp: Vec<u8>,
    /// Protocols, of which the packet has one.
    pub protocols: Vec<u8>,
    /// Ports, of which the packet has one at either end.
    pub ports: Vec<RangeInclusive<u16>>,
    /// Networks that the packet may come from.
    pub from: Vec<AllowedNet>,
    /// Networks that the packet may go to.
    pub to: Vec<AllowedNet>,
    /// Whether it goes before others.
    pub priority: Option<Priority>,
    /// Its share: 1 to 100.
    pub weight: Option<u16>,
    /// How what paths lose of it is made good, if not as its peer is configured.
    pub repair: Option<RepairKind>,
    /// What becomes of its TCP connections, if not what its peer is configured with.
    pub tcp: Option<Tcp>,
    /// Whether flows that build a queue in it are put among the others, if the file says.
    pub queue_protection: Option<bool>,
    /// What it may send, and how it is marked.
    pub conditioning: Option<Conditioning>,
    /// The paths that it prefers, by name.
    pub paths: PathPreference,
    /// The preset that some of these come from.
    pub preset: Option<Chosen>,
}

/// The other end of a tunnel, `[[peer]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its name.
    pub name: Name,
    /// The key that it proves to have.
    pub public_key: PublicKey,
    /// The networks behind it; at least one. Those of two peers may be nested, and are the same only if their priorities are not.
    pub allowed_ips: Vec<AllowedNet>,
    /// Which of several peers with the same networks gets packets to them.
    pub gateway: Gateway,
    /// Where it is reached; `None` if it is the one to call.
    pub endpoint: Option<Endpoint>,
    /// How often an idle path says that it is alive.
    pub keepalive: Duration,
    /// The preset that some of these settings come from.
    pub preset: Option<Chosen>,
    /// What is done with its packets.
    pub treatment: Treatment,
    /// The most that plain UDP may have, in either direction.
    pub udp_rate_limit: Option<Rate>,
    /// The ways to it.
    pub paths: Paths,
    /// Relays that take the place of those that fail.
    pub spare_relays: Vec<Name>,
    /// When routes are used that are learned while the site runs; `None` if the file does not say.
    pub routes: Option<RoutePolicy>,
    /// What carries the datagrams of paths of which nothing else is said.
    pub transport: Transport,
}

impl Peer {
    /// Whether a path leads to it that only relays know where it ends.
    pub(crate) fn is_behind_relays(&self) -> bool {
        let Paths::Listed(paths) = &self.paths else { return false };
        paths.iter().any(|path| path.endpoint.is_none())
    }

    /// Whether all paths to it lead through relays, so that nothing must be sent to it straight.
    pub(crate) fn is_only_relayed(&self) -> bool {
        let Paths::Listed(paths) = &self.paths else { return false };
        paths.iter().all(|path| !path.relays.is_empty())
    }
}

/// A site that may become a peer, `[[invitation]]`: whoever shows the key may do so, once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Invitation {
    /// Its name.
    pub name: Name,
    /// The public half of the key in the invitation.
    pub public_key: PublicKey,
    /// The networks behind it; at least one. Those of one address in a network of this site are its own addresses.
    pub allowed_ips: Vec<AllowedNet>,
    /// Until when it may be used.
    pub expires: Timestamp,
}

impl Invitation {
    /// Which of these networks are addresses of the invited site in the tunnel of `site`, with the lengths of its prefixes.
    #[must_use]
    pub fn addresses(&self, site: &[IpNet]) -> Vec<IpNet> {
        let hosts = self.allowed_ips.iter().map(|allowed| allowed.net());
        let hosts = hosts.filter(|net| net.prefix_len() == net.max_prefix_len());
        let inside = hosts.filter_map(|host| {
            let own = site.iter().find(|own| own.contains(&host))?;
            // No longer than that of a host.
            IpNet::new(host.addr(), own.prefix_len()).ok()
        });
        inside.collect()
    }
}

/// What is done with the packets of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Treatment {
    /// Which path carries a packet.
    pub scheduler: SchedulerKind,
    /// How order is restored.
    pub reorder: ReorderPolicy,
    /// How losses are made good.
    pub repair: RepairKind,
    /// Whether plain UDP is put in order, too.
    pub ordered_udp: bool,
    /// Whether a path that delivers less than a tenth of the others' average is set aside.
    pub bad_path_rule: bool,
    /// What becomes of TCP connections through the tunnel.
    pub tcp: Tcp,
}

/// The ways to a peer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Paths {
    /// The file lists none: one over every uplink that there is, as they come and go.
    EveryUplink,
    /// Exactly these; 1 to [`MAX_PATHS`](super::MAX_PATHS).
    Listed(Vec<PathSettings>),
}

/// One path over UDP, `[[peer.path]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSettings {
    /// Its name, unique among those of the peer.
    pub name: Name,
    /// The interface that it must leave by; `None` leaves it to the routing table.
    pub interface: Option<InterfaceName>,
    /// The local address that it sends from; `None` leaves it to the kernel. Of the family of `endpoint`, if that is an
    /// address.
    pub address: Option<BindAddress>,
    /// Where it leads: its own endpoint, or else the peer's. `None` only where relays lead to the peer by its key.
    pub endpoint: Option<Endpoint>,
    /// The relays on the way there, the nearest first; up to [`MAX_CHAIN`](super::MAX_CHAIN), none twice. None for a direct
    /// path.
    pub relays: Vec<Name>,
    /// What its datagrams are wrapped in. With IP-in-IP there is one relay, which may be a [`TunnelEnd`].
    pub transport: Transport,
    /// Which of the flows it is over which a path is spread; the first has the name of that, and counts as the path itself.
    pub flow: u8,
    /// Its share in the `wrr` scheduler.
    pub weight: Weight,
    /// What it is for.
    pub tier: Tier,
    /// Which way it carries data.
    pub direction: Direction,
    /// What its uplink may carry, together with all other paths of that.
    pub quota: Option<Quota>,
    /// The most it may send.
    pub max_rate: Option<Rate>,
    /// The MTU of the link; `None` takes the interface's.
    pub mtu: Option<LinkMtu>,
    /// How its rate is found.
    pub congestion: PathCongestion,
}

/// The flow that every path has.
pub(crate) const FIRST_FLOW: u8 = 1;

impl PathSettings {
    /// A path of which nothing is said but its name.
    pub(crate) fn plain(name: Name) -> Self {
        Self {
            name,
            interface: None,
            address: None,
            endpoint: None,
            relays: Vec::new(),
            transport: Transport::Udp,
            flow: FIRST_FLOW,
            weight: Weight::default(),
            tier: Tier::default(),
            direction: Direction::Both,
            quota: None,
            max_rate: None,
            mtu: None,
            congestion: PathCongestion::default(),
        }
    }

    /// Whether it is one of the further flows of another path, each of which has a local port of its own.
    #[must_use]
    pub fn is_further_flow(&self) -> bool {
        self.flow != FIRST_FLOW
    }

    /// The name of what its rate and its quota are shared with by other paths of this site.
    #[must_use]
    pub fn uplink(&self) -> String {
        uplink_of(self.interface.as_ref(), self.address.as_ref())
    }
}

/// The name of an uplink: its interface, else its address, else the `default` of the routes.
pub(super) fn uplink_of(interface: Option<&InterfaceName>, address: Option<&BindAddress>) -> String {
    let address = || address.map(|address| address.get().to_string());
    let interface = interface.map(|interface| interface.as_str().to_owned());
    interface.or_else(address).unwrap_or_else(|| "default".to_owned())
}

/// How the rate of a path is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PathCongestion {
    /// By a model of what the path delivers.
    #[default]
    Model,
    /// By CUBIC, for which a loss is congestion.
    Cubic,
    /// It is this, whatever is lost.
    Fixed(Rate),
}

impl PathCongestion {
    /// What is so called; a fixed rate is the greatest one, without which there is none.
    pub(crate) fn new(name: Congestion, max_rate: Option<Rate>) -> Option<Self> {
        match name {
            Congestion::Model => Some(Self::Model),
            Congestion::Cubic => Some(Self::Cubic),
            Congestion::Fixed => max_rate.map(Self::Fixed),
        }
    }
}

/// A relay, `[[relay]]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relay {
    /// Its name.
    pub name: Name,
    /// Where it is reached.
    pub address: Endpoint,
    /// The key that it proves to have.
    pub public_key: PublicKey,
}

/// A `[[relay]]` that is none of ours: a machine that unwraps IP-in-IP and sends on what was in it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TunnelEnd {
    /// Its name.
    pub name: Name,
    /// Where it is. The port is of no use.
    pub address: Endpoint,
    /// The address by which it knows this site.
    pub inside: Ipv4Addr,
}
