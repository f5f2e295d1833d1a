//! Requests and responses.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::capture::{CaptureSpec, Captured};
use super::flows::Flows;
use super::routes::{PeerReport, PeerRoutes, RegisterSpec, RouteSpec, WaitFor};
use super::segments::PathSegments;
use super::shed::{ShedAnswer, ShedSpec};
use super::sla::SlaStatus;
use super::status::{PathState, PeerPaths, RegistrationStatus, Status};

/// What a client asks for.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "op", rename_all = "snake_case")]
pub enum Request {
    /// Everything there is to know; answered with [`Response::Status`].
    Status,
    /// The paths of one peer, or of all; answered with [`Response::Paths`].
    PathList {
        /// The peer's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<String>,
    },
    /// Adds a path, until the daemon ends; answered with [`Response::Ok`], or with [`Response::Noted`] if it waits for something.
    PathAdd {
        /// The peer's name.
        peer: String,
        /// What the path is.
        path: PathSpec,
    },
    /// Removes a path, until the daemon ends; answered with [`Response::Ok`].
    PathRemove {
        /// The peer's name.
        peer: String,
        /// The path's name.
        path: String,
    },
    /// Changes a path, until the daemon ends; what is absent stays. Answered with [`Response::Ok`].
    PathSet {
        /// The peer's name.
        peer: String,
        /// The path's name.
        path: String,
        /// Its share in the `wrr` scheduler, 1 to 1000.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        weight: Option<u16>,
        /// The most it may send.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        max_rate: Option<RateLimit>,
        /// What it is for: `primary`, `secondary`, `backup` or `never`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        tier: Option<String>,
        /// Which way it carries data, as seen from this site: `both`, `up` or `down`.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        direction: Option<String>,
        /// Whether it carries data.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        state: Option<WantedState>,
        /// How this site finds its rate: `model`, `cubic`, or `fixed` at `max_rate`, which must be given, too.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        congestion: Option<String>,
    },
    /// Says what was used in this period of the quota of a path's uplink, for good; answered with [`Response::Ok`], or with
    /// [`Response::Noted`] if it cannot be written down.
    PathQuota {
        /// The peer's name.
        peer: String,
        /// The path's name.
        path: String,
        /// Bytes that were used.
        used_bytes: u64,
    },
    /// Changes what is done with the packets to a peer, until the daemon ends; answered with [`Response::Ok`].
    PeerSet {
        /// The peer's name.
        peer: String,
        /// Which path takes a packet, as the configuration spells it.
        scheduler: String,
    },
    /// Adds a peer, until the daemon ends; answered with [`Response::Ok`].
    PeerAdd(PeerSpec),
    /// Removes a peer that was added while the daemon ran; answered with [`Response::Ok`].
    PeerRemove {
        /// Its name.
        name: String,
    },
    /// Answers with [`Response::Peer`] when what is waited for has come, or the time is over.
    PeerWait {
        /// The peer's name.
        peer: String,
        /// What is waited for.
        until: WaitFor,
        /// How long, in milliseconds, [`MAX_WAIT`] at most.
        timeout_ms: u64,
    },
    /// Measures the round trip of each path to a peer, once, on the paths themselves; answered with [`Response::Ping`] when all
    /// have answered, or the time is over.
    Ping {
        /// The peer's name.
        peer: String,
        /// How long an answer is waited for, in milliseconds, [`MAX_WAIT`] at most.
        timeout_ms: u64,
    },
    /// What has been lost and delayed between this site, the relays of its paths and a peer, or all peers; answered with
    /// [`Response::Segments`]. They are asked for that from the first such request until ten seconds after the last: the first answers
    /// tell of nothing yet.
    Segments {
        /// The peer's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<String>,
    },
    /// The flows that lose much, and how those are held down that heed no loss; answered with [`Response::Flows`].
    Flows,
    /// Asks a peer to drop what this site cannot take of its own traffic, and tells what the peer has answered last; answered with
    /// [`Response::Shed`].
    Shed(ShedSpec),
    /// Asks a peer to answer questions from a socket of the client's, by which it finds out what a NAT makes of that; answered
    /// with [`Response::Ok`].
    NatProbe(NatProbe),
    /// How what was promised to this site is kept; answered with [`Response::Sla`].
    Sla,
    /// Keeps one direction of a TCP connection through the tunnel on one path for a while, whatever the scheduler says, so that it
    /// shows what that path carries; answered with [`Response::Ok`].
    FlowPin(FlowPin),
    /// Keeps copies of inner packets, for one client at a time, until it stops or does not ask for five seconds; answered with
    /// [`Response::Ok`].
    CaptureStart(CaptureSpec),
    /// Those that have passed since it was last asked for them; answered with [`Response::Captured`].
    CaptureNext,
    /// Keeps no more; answered with [`Response::Ok`].
    CaptureStop,
    /// Leads further paths to a peer, over these relays and as long as the set counts. It takes the place of the one
    /// before: paths whose relay is in both go on. Answered with [`Response::Ok`].
    RoutesSet {
        /// The peer's name.
        peer: String,
        /// The relays, the preferred one first.
        routes: Vec<RouteSpec>,
        /// When the set ends, in seconds since 1970.
        expires: u64,
        /// Its number: one that is lower than that of an earlier set is refused.
        serial: u64,
        /// When the paths are used, as `routes` of the configuration says it; absent for what that says.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        policy: Option<String>,
        /// What may be shown to the relays, as `psmc grant` prints it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<String>,
    },
    /// Ends the learned routes to a peer; answered with [`Response::Ok`].
    RoutesClear {
        /// The peer's name.
        peer: String,
    },
    /// The learned routes to one peer, or to all; answered with [`Response::Routes`].
    RoutesList {
        /// The peer's name.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        peer: Option<String>,
    },
    /// Registers with these relays, beside those of the configuration, until the daemon ends. They take the place of those
    /// before: where a relay is in both nothing changes. Answered with [`Response::Ok`].
    RegisterSet {
        /// The relays.
        relays: Vec<RegisterSpec>,
        /// What may be shown to them, as `psmc grant` prints it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        grants: Vec<String>,
    },
    /// The relays with which the site registers; answered with [`Response::Registrations`].
    RegisterList,
    /// Reads the configuration again and applies what has changed; answered with [`Response::Reloaded`], or with an error if
    /// the file is wrong: then nothing is changed.
    Reload,
    /// Logs what this filter lets through, until the daemon ends; answered with [`Response::Ok`].
    Log {
        /// A level, or a list of directives; absent for what was logged when the daemon started.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        filter: Option<String>,
    },
    /// What was added while the daemon ran, and the file that does not have it; answered with [`Response::Additions`].
    Additions,
}

/// The longest time that a client may wait for something: shorter than firewalls and people forget.
pub const MAX_WAIT: Duration = Duration::from_secs(60);

/// How long reading thousands of peers again may take.
const RELOAD_TIME: Duration = Duration::from_secs(30);

impl Request {
    /// How long its answer may take because that is what it asks for.
    pub fn patience(&self) -> Duration {
        match self {
            Self::PeerWait { timeout_ms, .. } | Self::Ping { timeout_ms, .. } => {
                Duration::from_millis(*timeout_ms).min(MAX_WAIT)
            }
            Self::Reload => RELOAD_TIME,
            Self::Status
            | Self::Log { .. }
            | Self::Additions
            | Self::PathList { .. }
            | Self::Segments { .. }
            | Self::Sla
            | Self::Flows
            | Self::Shed(_)
            | Self::PathAdd { .. }
            | Self::PathRemove { .. }
            | Self::PathSet { .. }
            | Self::PathQuota { .. }
            | Self::PeerSet { .. }
            | Self::PeerAdd(_)
            | Self::NatProbe(_)
            | Self::FlowPin(_)
            | Self::CaptureStart(_)
            | Self::CaptureNext
            | Self::CaptureStop
            | Self::PeerRemove { .. }
            | Self::RoutesSet { .. }
            | Self::RoutesClear { .. }
            | Self::RoutesList { .. }
            | Self::RegisterSet { .. }
            | Self::RegisterList => Duration::ZERO,
        }
    }
}

/// What the daemon answers.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "result", content = "value", rename_all = "snake_case")]
pub enum Response {
    /// It is done.
    Ok,
    /// It is done, and there is something to be said about it, for a person to read.
    Noted {
        /// What.
        note: String,
    },
    /// To [`Request::Status`].
    Status(Box<Status>),
    /// To [`Request::PathList`].
    Paths(Vec<PeerPaths>),
    /// To [`Request::PeerWait`].
    Peer(PeerReport),
    /// To [`Request::Ping`]: the paths, by their ids.
    Ping(Vec<PathPing>),
    /// To [`Request::Segments`]: the paths, by peers and ids.
    Segments(Vec<PathSegments>),
    /// To [`Request::Sla`]: the targets, in the order of the configuration.
    Sla(Vec<SlaStatus>),
    /// To [`Request::Flows`].
    Flows(Flows),
    /// To [`Request::Shed`]: absent before the first answer.
    Shed(Option<ShedAnswer>),
    /// To [`Request::CaptureNext`].
    Captured(Captured),
    /// To [`Request::RoutesList`].
    Routes(Vec<PeerRoutes>),
    /// To [`Request::RegisterList`].
    Registrations(Vec<RegistrationStatus>),
    /// To [`Request::Reload`].
    Reloaded(ReloadReport),
    /// To [`Request::Additions`].
    Additions(Additions),
    /// It could not be done.
    Error {
        /// Why, and what to do about it, for a person to read.
        message: String,
    },
}

impl Response {
    /// A refusal in words.
    #[must_use]
    pub fn error(message: impl std::fmt::Display) -> Self {
        Self::Error { message: message.to_string() }
    }
}

/// What a peer is asked to do about questions from a socket of the client's: docs/PROTOCOL.md, section 2.12.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct NatProbe {
    /// The peer's name.
    pub peer: String,
    /// What it is to do.
    pub step: NatProbeStep,
    /// What the questions carry: unpredictable, and used once.
    pub question: [u8; 16],
    /// What the answers carry, likewise.
    pub answer: [u8; 16],
}

/// What a peer is to do about questions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum NatProbeStep {
    /// Answer them where they come from.
    Open,
    /// Answer the newest once more.
    Answer,
    /// Forget them.
    End,
}

/// A connection that is kept on a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowPin {
    /// The name of the peer to which its packets go.
    pub peer: String,
    /// The path's name.
    pub path: String,
    /// Where they come from, in the tunnel.
    pub source: SocketAddr,
    /// Where they go.
    pub destination: SocketAddr,
    /// For how long, in milliseconds, [`MAX_WAIT`] at most.
    pub timeout_ms: u64,
}

/// How one path has answered.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathPing {
    /// The path's name.
    pub path: String,
    /// Its id, by which both sites know it.
    pub id: u32,
    /// Its state when it was asked.
    pub state: PathState,
    /// Whether anything left: nothing does while the interface is down, or no relay has a session for the path.
    pub sent: bool,
    /// The round trip; absent if nothing came back in time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
}

/// What came of reading the configuration again.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReloadReport {
    /// What is otherwise than before, in words.
    pub changes: Vec<String>,
    /// Settings that have changed in the file and are as they were until psmcd is restarted.
    pub restart: Vec<String>,
    /// What was changed while the daemon ran, is not in the file, and stays.
    pub kept: Vec<String>,
}

/// What was added while the daemon ran.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Additions {
    /// The daemon's configuration, as an absolute path.
    pub file: PathBuf,
    /// Peers.
    pub peers: Vec<PeerSpec>,
    /// Paths.
    pub paths: Vec<AddedPath>,
}

/// A peer that is added, or was.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerSpec {
    /// The peer's name here.
    pub name: String,
    /// Its public key, base64.
    pub public_key: String,
    /// The networks behind it.
    pub allowed_ips: Vec<String>,
    /// Where it is reached, `host:port`; absent if it is the one to call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
}

/// A path that was added.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct AddedPath {
    /// The name of its peer.
    pub peer: String,
    /// What it is.
    pub path: PathSpec,
    /// Whether the file lists other paths of the peer. Where it lists none there is one over every uplink, and a listed one would
    /// be the only one.
    pub is_among_others: bool,
}

/// A limit on a path's rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RateLimit {
    /// No limit but its congestion controller's.
    None,
    /// This many bits per second.
    BitsPerSecond(u64),
}

/// What a person wants a path to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WantedState {
    /// Carry data.
    Active,
    /// Be kept alive, and carry data only when no active path can.
    Standby,
}

/// A path to be added.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSpec {
    /// Its name.
    pub name: String,
    /// The interface that it must leave by.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// The local address that it sends from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub address: Option<IpAddr>,
    /// The relays that it leads through, the nearest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<String>,
    /// Where it leads, `host:port`, if not to its peer's endpoint. If neither is given, its relays find the peer by key.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub endpoint: Option<String>,
    /// Its share in the `wrr` scheduler, 1 to 1000.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u16>,
    /// What it is for, if not `primary`: `secondary`, `backup` or `never`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tier: Option<String>,
    /// Which way it carries data, if not `both`: `up` or `down`, as seen from this site.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub direction: Option<String>,
    /// What its uplink may carry, as `50GB/month/12,backup`: bytes, the period and the day on which it begins, and what becomes of the
    /// path then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<String>,
    /// What carries its datagrams, if not what its peer's paths have: `udp`, `tls` or `auto`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transport: Option<String>,
    /// The most it may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate_bits_per_second: Option<u64>,
    /// The MTU of the link, in bytes of an IP packet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mtu: Option<u16>,
    /// How its rate is found: `model`, `cubic`, or `fixed` at the rate that is the most it may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub congestion: Option<String>,
}
