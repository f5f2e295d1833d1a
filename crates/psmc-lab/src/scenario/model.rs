//! A scenario in which every value is legal and all of them fit together.
//!
//! Names are resolved: whatever refers to a host, a link or a program holds its index. Every address is known, those
//! that the file leaves out included, and every host has the routes it needs.

use std::collections::BTreeSet;
use std::net::IpAddr;
use std::path::PathBuf;
use std::time::Duration;

use ipnet::IpNet;
use psmc_sim::link::LinkConfig;
use psmc_sim::router::RouterConfig;
use psmc_toml::choice;

/// The index of a host in [`Scenario::hosts`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct HostId(pub usize);

/// The index of a link in [`Scenario::links`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LinkId(pub usize);

/// The index of a program in [`Scenario::programs`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ProgramId(pub usize);

/// The index of a tunnel in [`Scenario::tunnels`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TunnelId(pub usize);

/// The index of a stream of traffic in [`Scenario::traffic`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TrafficId(pub usize);

/// A network, what happens in it, and what must come of it.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// For people.
    pub name: String,
    /// How long it runs, from the moment everything is up.
    pub duration: Duration,
    /// Where all chance comes from.
    pub seed: u64,
    /// The interval of all series.
    pub sample_interval: Duration,
    /// The hosts; the others refer to them by index.
    pub hosts: Vec<Host>,
    /// The links between them.
    pub links: Vec<Link>,
    /// Hosts that pass on packets as measured devices do.
    pub routers: Vec<Router>,
    /// PSMC tunnels.
    pub tunnels: Vec<Tunnel>,
    /// Programs of any kind; those of tunnels are not among them.
    pub programs: Vec<Program>,
    /// Traffic of our own generators.
    pub traffic: Vec<Traffic>,
    /// What happens while it runs, in the order of time.
    pub events: Vec<Event>,
    /// What must hold at the end.
    pub checks: Vec<Check>,
}

impl Scenario {
    /// The hosts that lie between others: somebody sends what is for a third to an address of theirs. Others must not
    /// forward, for what reaches them by an address that they have left would go to and fro.
    #[must_use]
    pub fn forwarders(&self) -> BTreeSet<HostId> {
        let via: BTreeSet<_> =
            self.hosts.iter().flat_map(|host| &host.routes).map(|route| route.via).collect();
        let lies_between = |end: &&LinkEnd| end.addresses.iter().any(|net| via.contains(&net.addr()));
        let between = self.links.iter().flat_map(|link| &link.ends).filter(lies_between);
        between.map(|end| end.host).chain(self.routers.iter().map(|router| router.host)).collect()
    }
}

/// A machine with a network stack of its own. A host that lies between others forwards.
#[derive(Clone, Debug)]
pub struct Host {
    /// Its name.
    pub name: String,
    /// Its routes beyond those of its own links: those of the file, and what is needed to reach every address. Of several
    /// to the same prefix the first counts; the others are for whoever binds to the link of their next hop.
    pub routes: Vec<Route>,
    /// What it does to packets that it forwards.
    pub nat: Option<Nat>,
}

/// Where packets to a prefix go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Route {
    /// The prefix.
    pub to: IpNet,
    /// The next hop, on a link of the host.
    pub via: IpAddr,
}

/// Network address translation of what leaves by a link: the source becomes the host's own address there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nat {
    /// How it chooses ports.
    pub kind: NatKind,
    /// The link towards the outside.
    pub outside: LinkId,
}

choice! {
    /// How a NAT maps and filters (RFC 4787).
    pub enum NatKind: "kind of NAT", such as "symmetric" {
        /// One outside port for an inside address and port, whatever the destination; anybody may answer.
        EndpointIndependent = "endpoint-independent",
        /// Another one for each destination; only that destination may answer.
        Symmetric = "symmetric",
    }
}

/// A link between two hosts: an interface at each, with a name of its own.
#[derive(Clone, Debug)]
pub struct Link {
    /// Its name, and that of its interfaces.
    pub name: String,
    /// Its ends.
    pub ends: [LinkEnd; 2],
    /// From the first end to the second, and back.
    pub directions: [LinkConfig; 2],
    /// Where every packet at its ends is logged (pcap).
    pub capture: Option<PathBuf>,
}

/// An end of a link.
#[derive(Clone, Debug)]
pub struct LinkEnd {
    /// The host.
    pub host: HostId,
    /// The addresses of its interface, with the length of the prefix.
    pub addresses: Vec<IpNet>,
}

/// A host that passes on packets as a device does of which there is a profile.
#[derive(Clone, Debug)]
pub struct Router {
    /// The host.
    pub host: HostId,
    /// What the profile calls the device.
    pub profile: String,
    /// What it is like: a port for each of the links.
    pub config: RouterConfig,
    /// The links of the host, in the order of the file.
    pub links: Vec<LinkId>,
}

/// A PSMC tunnel between two hosts, each of which runs `psmcd` with keys made for the occasion.
#[derive(Clone, Debug)]
pub struct Tunnel {
    /// Its name.
    pub name: String,
    /// The first one dials and opens the paths.
    pub ends: Sites,
    /// The paths, at least one.
    pub paths: Vec<TunnelPath>,
    /// Settings of both sites, as the file of `psmcd` takes them in `[site]`: `scheduler`, `reorder`, `mtu` …
    pub settings: Vec<(String, toml::Value)>,
}

/// Both ends of a tunnel.
pub type Sites = [TunnelEnd; 2];

/// A site.
#[derive(Clone, Debug)]
pub struct TunnelEnd {
    /// The host it runs on.
    pub host: HostId,
    /// Its addresses in the tunnel.
    pub addresses: Vec<IpNet>,
    /// What is reached through it besides its addresses.
    pub networks: Vec<IpNet>,
}

/// A path of a tunnel.
#[derive(Clone, Debug)]
pub struct TunnelPath {
    /// Its name.
    pub name: String,
    /// The link by which it leaves the first site.
    pub link: LinkId,
    /// The address of the second site that it leads to.
    pub endpoint: IpAddr,
    /// Its settings, as the file of `psmcd` takes them in `[[peer.path]]`: `weight`, `max_rate` …
    pub settings: Vec<(String, toml::Value)>,
}

/// A program that runs on a host.
#[derive(Clone, Debug)]
pub struct Program {
    /// Its name.
    pub name: String,
    /// Where it runs.
    pub host: HostId,
    /// Its file, found through the PATH or beside the lab's own, and its arguments.
    pub command: Vec<String>,
    /// When it starts.
    pub start: Duration,
    /// When it is ended by SIGTERM; at the end of the scenario if `None`.
    pub stop: Option<Duration>,
    /// Whether the results have what it prints.
    pub has_output: bool,
}

/// Traffic of our own.
#[derive(Clone, Debug)]
pub struct Traffic {
    /// Its name.
    pub name: String,
    /// What kind.
    pub kind: TrafficKind,
    /// Who sends (TCP, QUIC, UDP) or asks (requests, ping).
    pub from: HostId,
    /// Who receives or answers.
    pub to: HostId,
    /// The address by which the sender reaches the receiver: in a tunnel, or on a link.
    pub address: IpAddr,
    /// When it starts.
    pub start: Duration,
    /// When it ends, if it is not done before.
    pub stop: Duration,
}

/// A kind of traffic.
#[derive(Clone, Debug, PartialEq)]
pub enum TrafficKind {
    /// Bulk transfer by TCP.
    Tcp {
        /// `cubic`, `reno`, `bbr` or what else the kernel has.
        congestion_control: String,
        /// How many connections at once.
        flows: usize,
        /// How much each transfers; as much as it can until the end if `None`.
        bytes: Option<u64>,
        /// Whether the sockets are MPTCP ones (RFC 8684), with a subflow for each link of the hosts.
        multipath: bool,
    },
    /// Bulk transfer by QUIC.
    Quic {
        /// `cubic`, `newreno` or `bbr`.
        congestion_control: String,
        /// How much is transferred; as much as it can until the end if `None`.
        bytes: Option<u64>,
    },
    /// UDP at a constant rate.
    Udp {
        /// Bits per second of payload.
        rate: u64,
        /// Bytes of payload in a datagram.
        payload: usize,
        /// Whether the rate is only the most, and less is sent while datagrams are lost, as video calls do.
        adaptive: bool,
    },
    /// Requests at random times (a Poisson process), each on a TCP connection of its own.
    Requests {
        /// `cubic`, `reno`, `bbr` or what else the kernel has.
        congestion_control: String,
        /// How many a second, on average.
        rate: f64,
        /// Bytes of a request.
        request: usize,
        /// Bytes of a response.
        response: usize,
    },
    /// ICMP echo requests.
    Ping {
        /// Time between two.
        interval: Duration,
        /// Bytes of payload.
        payload: usize,
    },
}

impl TrafficKind {
    /// As the file calls it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Tcp { .. } => "tcp",
            Self::Quic { .. } => "quic",
            Self::Udp { .. } => "udp",
            Self::Requests { .. } => "requests",
            Self::Ping { .. } => "ping",
        }
    }
}

/// Something that happens.
#[derive(Clone, Debug)]
pub struct Event {
    /// When.
    pub at: Duration,
    /// What.
    pub action: Action,
}

/// What can happen.
#[derive(Clone, Debug)]
pub enum Action {
    /// The interfaces of a link go down.
    Cut(LinkId),
    /// Every packet on a link vanishes, and nobody is told. The directions as in [`Link::directions`].
    BlackHole(LinkId, [bool; 2]),
    /// A link is again what it was at the beginning.
    Restore(LinkId),
    /// A link becomes this.
    Change(LinkId, Box<[LinkConfig; 2]>),
    /// A program gets SIGKILL.
    Kill(ProgramId),
    /// A program is started again; it is killed first if it runs.
    Restart(ProgramId),
    /// The daemon of a site, `0` or `1` of the tunnel's ends, gets SIGKILL.
    KillSite(TunnelId, usize),
    /// The daemon of a site is started again; it is killed first if it runs.
    RestartSite(TunnelId, usize),
    /// The interface of a host on a link gets these addresses instead of those it has.
    Roam(HostId, LinkId, Vec<IpNet>),
    /// UDP that nobody asked for, from a host to an address, at a rate in bit/s, for a time, in datagrams of so many bytes.
    Flood {
        /// Who sends.
        from: HostId,
        /// Where to.
        to: IpAddr,
        /// Bits per second.
        rate: u64,
        /// Bytes of payload.
        payload: usize,
        /// How long.
        duration: Duration,
    },
}

/// What must hold.
#[derive(Clone, Debug)]
pub struct Check {
    /// Of what.
    pub subject: Subject,
    /// What is measured.
    pub metric: Metric,
    /// From when to when; the whole run if `None`.
    pub window: Option<[Duration; 2]>,
    /// The bound.
    pub bound: Bound,
}

/// What a check looks at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// A stream of traffic.
    Traffic(TrafficId),
    /// A direction of a link: 0 from its first end to its second, 1 back.
    Link(LinkId, usize),
    /// A program.
    Program(ProgramId),
}

choice! {
    /// What is measured, by the key of the file. Units as in the names of the results.
    pub enum Metric: "metric", such as "goodput" {
        /// Mbit/s of payload (traffic), or of IP packets (links).
        Goodput = "goodput",
        /// Bytes of payload.
        Bytes = "bytes",
        /// Percent of the datagrams, requests or packets.
        Loss = "loss",
        /// The longest time without a delivery, in ms.
        LongestGap = "longest_gap",
        /// Round trip or response time, in ms: the median.
        RttMedian = "rtt_median",
        /// Round trip or response time, in ms: the 99th percentile.
        Rtt99 = "rtt_99",
        /// How much longer than the fastest datagrams took, in ms: the 99th percentile.
        Delay99 = "delay_99",
        /// The exit status of a program.
        ExitStatus = "exit_status",
    }
}

/// A bound on a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Bound {
    /// This or more.
    AtLeast(f64),
    /// This or less.
    AtMost(f64),
    /// Between both.
    Between(f64, f64),
}
