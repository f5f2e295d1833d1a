//! What a site is told about itself, its peers and its paths.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use ipnet::IpNet;
use psmc_wire::PathId;
use psmc_wire::control::{PathInfo, Tier};
use psmc_wire::crypto::Aead;

use crate::batch::{PathAddress, SocketId};
use crate::classify::{ClassConfig, RepairKind};
use crate::congestion::CongestionConfig;
use crate::mss::ClampMss;
use crate::reorder::ReorderPolicy;

/// A site.
#[derive(Clone, Debug)]
pub struct SiteConfig {
    /// What it calls itself towards its peers.
    pub name: String,
    /// Its program and the version of that, which its peers are told.
    pub software: String,
    /// The largest inner packet, in bytes.
    pub mtu: u16,
    /// The AEAD that this processor does faster.
    pub aead: Aead,
    /// The traffic classes, in the order in which they are asked whether a packet is theirs. The last one takes what
    /// belongs to no other.
    pub classes: Vec<ClassConfig>,
    /// What becomes of the MSS that inner TCP connections agree on.
    pub clamp_mss: ClampMss,
    /// Whether nobody but the relays at which it has registered may learn where it is: it heeds no datagram that comes
    /// from elsewhere, and sends none elsewhere on paths that its peers open.
    pub hidden: bool,
    /// The broadcast addresses of its own networks in the tunnel, which no peer is sent anything for unless its `allowed_ips`
    /// name them.
    pub broadcasts: Vec<Ipv4Addr>,
    /// How long keys last.
    pub key_limits: KeyLimits,
    /// Where incarnations, labels and the key of the flow hash come from. Must be unpredictable.
    pub seed: [u8; 32],
}

/// How long the keys of a session last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyLimits {
    /// After this time the sites exchange keys within the session, if no control connection has brought new ones by then.
    pub exchange_after: Duration,
    /// After this time nothing is sealed with keys of a generation, and ten seconds later nothing is opened.
    pub seal_for: Duration,
    /// The most datagrams that are sealed with one key, and accepted under it. It is rolled after half as many.
    pub datagrams: u64,
}

impl Default for KeyLimits {
    /// Half a minute is left of the quarter of an hour in which there have to be new keys. They end after an hour: a site
    /// that was asleep, or had no uplink, for three quarters of it goes on without a control connection, and what is older
    /// is lost to nobody. 2^28 datagrams of 2 KiB are what RFC 9001 (appendix B.1.1) allows with AES-GCM.
    fn default() -> Self {
        Self {
            exchange_after: Duration::from_secs(14 * 60 + 30),
            seal_for: Duration::from_secs(60 * 60),
            datagrams: 1 << 28,
        }
    }
}

/// A peer.
#[derive(Clone, Debug)]
pub struct PeerConfig {
    /// For people.
    pub name: String,
    /// Source and destination addresses of inner packets that belong to it.
    pub allowed_ips: Vec<IpNet>,
    /// Which of several peers with the same addresses gets packets to them.
    pub gateway: Gateway,
    /// Whether this site knows where to dial the peer.
    pub can_dial: bool,
    /// Whether this site's public key is the smaller one: it opens the paths with even numbers, and dials
    /// first if both can.
    pub smaller_key: bool,
    /// Which path takes a packet.
    pub scheduler: SchedulerKind,
    /// Whether a path that delivers less than a tenth of the others' average is set aside; only with schedulers
    /// that [heed it](SchedulerKind::heeds_bad_path_rule).
    pub bad_path_rule: bool,
    /// What happens to packets that arrive out of order.
    pub reorder: ReorderPolicy,
    /// Whether the peer is asked to put plain UDP in order, too, as it does TCP and QUIC.
    pub ordered_udp: bool,
    /// Bits per second that plain UDP must not exceed in either direction, if the peer has no smaller limit; zero counts
    /// as none.
    pub udp_rate_limit: Option<u64>,
    /// What happens to packets that a path has lost.
    pub repair: RepairKind,
    /// Whether TCP connections are ended at the sites, of classes that say nothing else, if the peer agrees.
    pub split: bool,
    /// A path without traffic is probed this often, which also keeps NAT bindings alive.
    pub keepalive: Duration,
}

/// When a peer gets packets to addresses that belong to others as well.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Of those that work it is the one with the least number. No two that share a prefix have the same.
    pub priority: u8,
    /// For how long it must have worked again before it counts as one that works; for ever if `None`, as long as another does.
    pub failback: Option<Duration>,
}

impl Default for Gateway {
    /// The first, and after 5 s again: what comes and goes faster than that would only move flows about.
    fn default() -> Self {
        Self { priority: 1, failback: Some(Duration::from_secs(5)) }
    }
}

/// A path that this site opens.
#[derive(Clone, Debug)]
pub struct PathConfig {
    /// For people, and unique among the paths to a peer.
    pub name: String,
    /// The socket of the path.
    pub socket: SocketId,
    /// Where the peer is reached.
    pub remote: SocketAddr,
    /// Its share under `wrr`; zero counts as one.
    pub weight: u16,
    /// What it is for, at both ends.
    pub tier: Tier,
    /// Who may send data on it.
    pub direction: Direction,
    /// The rate that must not be exceeded, in bits per second; zero counts as none.
    pub max_rate: Option<u64>,
    /// The largest IP packet that the path carries, in bytes.
    pub mtu: u16,
    /// How the rate of the path is found.
    pub congestion: CongestionConfig,
}

impl PathConfig {
    /// The same with what `change` says.
    #[must_use]
    pub fn tuned(mut self, change: PathTuning) -> Self {
        self.weight = change.weight.unwrap_or(self.weight);
        self.max_rate = change.max_rate.unwrap_or(self.max_rate);
        self.tier = change.tier.unwrap_or(self.tier);
        self.direction = change.direction.unwrap_or(self.direction);
        self
    }

    /// What it is for to this site.
    pub(crate) fn own_tier(&self) -> Tier {
        if self.direction == Direction::Down { Tier::Never } else { self.tier }
    }

    /// What it is for to the peer, which did not open it.
    pub(crate) fn peers_tier(&self) -> Tier {
        if self.direction == Direction::Up { Tier::Never } else { self.tier }
    }
}

/// Which way a path carries data, as seen from the site that has opened it. Acknowledgements and questions about the path itself go both
/// ways all the same.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// Both ways.
    #[default]
    Both,
    /// To the peer only.
    Up,
    /// From the peer only.
    Down,
}

impl Direction {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Both, Self::Up, Self::Down];

    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Both => "both",
            Self::Up => "up",
            Self::Down => "down",
        }
    }
}

/// What of a path's configuration becomes another one; the rest stays.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathTuning {
    /// Its weight.
    pub weight: Option<u16>,
    /// Its greatest rate, in bits per second; `Some(None)` for none.
    pub max_rate: Option<Option<u64>>,
    /// What it is for.
    pub tier: Option<Tier>,
    /// Who may send data on it.
    pub direction: Option<Direction>,
}

/// The schedulers there are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SchedulerKind {
    /// The path on which the packet arrives first.
    #[default]
    Earliest,
    /// Weighted round robin: bytes in proportion to the paths' weights.
    Wrr,
    /// Weighted round robin, with the paths' weights following what each of them delivers.
    WrrAdaptive,
    /// Every flow stays on one path.
    Flow,
    /// Every packet on every path.
    Redundant,
    /// One path as long as it works, then the next by weight.
    Backup,
}

impl SchedulerKind {
    /// All of them, the default first.
    pub const ALL: [Self; 6] =
        [Self::Earliest, Self::Wrr, Self::WrrAdaptive, Self::Flow, Self::Redundant, Self::Backup];

    /// The name in configuration files and in the status.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Earliest => "earliest",
            Self::Wrr => "wrr",
            Self::WrrAdaptive => "wrr-adaptive",
            Self::Flow => "flow",
            Self::Redundant => "redundant",
            Self::Backup => "backup",
        }
    }

    /// Whether packets of one flow may take several paths, each of them for itself.
    pub(crate) fn spreads_flows(self) -> bool {
        match self {
            Self::Earliest | Self::Wrr | Self::WrrAdaptive => true,
            Self::Flow | Self::Redundant | Self::Backup => false,
        }
    }

    /// Whether bad paths can be told from what this scheduler makes of them: it must fill every path when there
    /// is a backlog. With strict turns all paths look like the slowest; others use some paths little or not at all.
    #[must_use]
    pub fn heeds_bad_path_rule(self) -> bool {
        match self {
            Self::Earliest | Self::WrrAdaptive => true,
            Self::Wrr | Self::Flow | Self::Redundant | Self::Backup => false,
        }
    }
}

/// The outer MTU that is assumed of a path the peer has opened, if this site has opened none itself.
const DEFAULT_MTU: u16 = 1500;

impl PathConfig {
    /// What is known of a path that the peer has opened.
    pub(crate) fn learned(id: PathId, address: PathAddress, own: Option<&Self>) -> Self {
        Self {
            name: format!("peer-{id}"),
            socket: address.socket,
            remote: address.remote,
            weight: 1,
            tier: Tier::default(),
            direction: Direction::Both,
            max_rate: None,
            mtu: own.map_or(DEFAULT_MTU, |config| config.mtu),
            congestion: own.map_or(CongestionConfig::default(), |config| config.congestion),
        }
    }

    /// With what would make no sense replaced by what comes next to it.
    pub(crate) fn checked(self) -> Self {
        Self { weight: self.weight.max(1), max_rate: self.max_rate.filter(|&rate| rate > 0), ..self }
    }

    /// Takes over what the peer tells about its path.
    pub(crate) fn apply(&mut self, info: PathInfo) {
        self.name = info.name;
        self.weight = info.weight;
        self.tier = info.tier;
        self.max_rate = info.max_rate;
    }
}
