//! What a daemon says about itself.
//!
//! Units are in the names: `_s` seconds, `_ms` milliseconds, `_mbps` 10^6 bit/s, `_pct` per cent. All fractions must be
//! finite, because JSON has no word for others.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

use super::routes::RoutesStatus;
use super::sla::SlaStatus;

/// Everything about a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// The machine that was asked.
    pub site: SiteStatus,
    /// Its peers, in the order of the configuration.
    pub peers: Vec<PeerStatus>,
    /// Datagrams that were refused before a peer was known, by reason: `unknown_label`, `authentication_failed`,
    /// `replayed`, `malformed`, ….
    pub counters: BTreeMap<String, u64>,
    /// How much each system call carried.
    #[serde(default)]
    pub batches: Batches,
    /// What the conditioners of classes with a profile have marked, in the order of the classes.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub conditioners: Vec<ConditionerStatus>,
    /// What was promised to it, and how that is kept.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sla: Vec<SlaStatus>,
    /// How the export of flows goes; absent without a collector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ipfix: Option<IpfixStatus>,
}

/// How the export of flows goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct IpfixStatus {
    /// The collector, as the configuration has it.
    pub collector: String,
    /// Messages that have left.
    pub messages: u64,
    /// Records in them.
    pub records: u64,
    /// Messages that could not leave, and were lost.
    pub unsent_messages: u64,
    /// Records in them.
    pub unsent_records: u64,
    /// What is wrong; absent if nothing is known to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trouble: Option<String>,
}

/// System calls that carried packets, and how many: the more each carries, the less a packet costs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Batches {
    /// Inner packets from the tunnel's interface, as they are once cut.
    pub tun_read: Calls,
    /// Inner packets to the tunnel's interface, as they are before they are joined.
    pub tun_written: Calls,
    /// Datagrams from the network.
    pub udp_received: Calls,
    /// Datagrams to the network.
    pub udp_sent: Calls,
}

/// System calls of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// How many.
    pub calls: u64,
    /// Packets that they carried.
    pub packets: u64,
}

impl Calls {
    /// So many calls have carried so many packets.
    pub fn add(&mut self, calls: usize, packets: usize) {
        self.calls += calls as u64;
        self.packets += packets as u64;
    }
}

/// About the conditioner of one traffic class.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ConditionerStatus {
    /// The class.
    pub class: String,
    /// How it marks: `off`, `standard`, `seed` or `adaptive`.
    pub mode: String,
    /// What the class may send.
    pub rate_mbps: f64,
    /// What may exceed that for a moment.
    pub burst_bytes: u64,
    /// The class of assured forwarding that says the marks behind the far site, such as `AF1`; absent if none does.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mark: Option<String>,
    /// What was marked, to all peers together, by drop precedence: `dp0` is kept longest, `dp2` dropped first.
    pub marked: BTreeMap<String, Marked>,
}

/// Inner packets with one mark.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Marked {
    /// How many.
    pub packets: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// About the site itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteStatus {
    /// Its name.
    pub name: String,
    /// Its public key, base64.
    pub public_key: String,
    /// Its TUN interface.
    pub interface: String,
    /// Its addresses inside the tunnel, with prefix lengths.
    pub addresses: Vec<String>,
    /// Where it listens; `nothing` if it is hidden behind its relays.
    pub listen: String,
    /// The relays at which it is a gateway.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub registered: Vec<RegistrationStatus>,
    /// Sites that may become peers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub invitations: Vec<InvitationStatus>,
    /// What is wrong with this machine, and what to do about it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub notices: Vec<String>,
    /// How long the daemon has been running.
    pub uptime_s: f64,
    /// The version of the daemon.
    pub version: String,
}

/// About one site that may become a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct InvitationStatus {
    /// What it will be called.
    pub name: String,
    /// The networks behind it.
    pub allowed_ips: Vec<String>,
    /// Until when, as RFC 3339 writes it.
    pub expires: String,
    /// Whether that is over.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub expired: bool,
}

/// About one relay at which a site is a gateway.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegistrationStatus {
    /// What the configuration calls it.
    pub relay: String,
    /// Its public key, base64.
    pub public_key: String,
    /// Whether it leads peers here.
    pub registered: bool,
    /// Why it does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// Where it is, if it was added while the daemon ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub added: Option<String>,
}

/// About one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerStatus {
    /// Its name.
    pub name: String,
    /// Its public key, base64.
    pub public_key: String,
    /// What it says that it is, such as `psmcd 0.1.0`; absent before it is connected, and if it is older than that word.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub software: Option<String>,
    /// Whether packets get through.
    pub state: PeerState,
    /// About the control connection, without which data still flow until the keys run out.
    pub control: ControlStatus,
    /// The networks behind it.
    pub allowed_ips: Vec<String>,
    /// Those of them that go to another peer at present, for which this one stands by.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stands_by_for: Vec<String>,
    /// Whether it was added while the daemon ran.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub added: bool,
    /// What was learned about ways to it; absent if nothing ever was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub routes: Option<RoutesStatus>,
    /// Which path takes a packet, as the configuration spells it.
    #[serde(default)]
    pub scheduler: String,
    /// The age of the keys that data are sealed with; absent before the first handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key_age_s: Option<f64>,
    /// The number of those keys; absent before the first handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub epoch: Option<u64>,
    /// How many generations of keys have come into use since the daemon started: each begins with the number 0.
    #[serde(default)]
    pub key_generations: u64,
    /// How many of these came from exchanges through the tunnel itself, without a control connection.
    #[serde(default)]
    pub key_exchanges: u64,
    /// For how long nothing has been sent or accepted, because the keys have expired and no control connection has brought
    /// others; absent unless that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub keys_expired_s: Option<f64>,
    /// Inner bytes sent.
    pub tx_bytes: u64,
    /// Inner bytes received.
    pub rx_bytes: u64,
    /// Inner packets sent.
    pub tx_packets: u64,
    /// Inner packets received.
    pub rx_packets: u64,
    /// The most that plain UDP may have, as both sites agree.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub udp_rate_limit_mbps: Option<f64>,
    /// Inner packets that were dropped, by reason.
    pub drops: BTreeMap<String, u64>,
    /// Inner packets larger than a datagram: how many were sent in parts, were joined from parts, wait for parts, or
    /// never became complete, and how many parts were refused because they contradict others. And how many segments
    /// that open TCP connections had their MSS lowered, so that those have no such packets.
    #[serde(default)]
    pub parts: BTreeMap<String, u64>,
    /// What reordering did to the packets from the peer: a name and a count each.
    #[serde(default)]
    pub reorder: BTreeMap<String, u64>,
    /// What was sent to make good what paths lose, and what was recovered: a name and a count each.
    #[serde(default)]
    pub repair: BTreeMap<String, u64>,
    /// What became of flows that lose much while they were watched, in bytes; how often some were held down, how many are, and to
    /// what rate. Empty while flows are not judged.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unresponsive: BTreeMap<String, u64>,
    /// What has become of what the peer wanted dropped here of its own traffic: questions taken, replayed, expired, and with too many
    /// rules; rules that were foreign, contradictory, and illegal. Empty while it has wanted nothing.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub shedding: BTreeMap<String, u64>,
    /// TCP connections that the sites end; absent if they do not both do so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub streams: Option<StreamsStatus>,
    /// The traffic classes of what is sent to the peer.
    #[serde(default)]
    pub classes: Vec<ClassStatus>,
    /// How long ago something authentic was last heard of it; absent if nothing ever was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub heard_s: Option<f64>,
    /// The ways to it.
    pub paths: Vec<PathStatus>,
    /// Paths that it should have, and cannot be opened yet.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingPath>,
}

/// A path that cannot be opened yet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WaitingPath {
    /// Its name; absent if the names of the paths depend on the uplinks that there will be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Why.
    pub why: String,
    /// For how long.
    pub since_s: f64,
}

/// TCP connections that this site and a peer end, and carry as streams.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StreamsStatus {
    /// How many there are.
    pub open: u64,
    /// How many of clients at this site there have been.
    pub opened: u64,
    /// How many of clients at the peer there have been.
    pub accepted: u64,
    /// How many of these could not be had.
    pub refused: u64,
    /// How many have ended before their time.
    pub reset: u64,
    /// Their bytes, sent.
    pub tx_bytes: u64,
    /// Their bytes that were sent once more, since they seemed to be lost.
    #[serde(default)]
    pub resent_bytes: u64,
    /// How many of clients at this site have had a byte of their server.
    #[serde(default)]
    pub answered: u64,
    /// How long that took them together, from the client's first segment on.
    #[serde(default)]
    pub answer_time_s: f64,
    /// Their bytes, received.
    pub rx_bytes: u64,
}

/// About one traffic class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClassStatus {
    /// Its name.
    pub name: String,
    /// Inner packets that wait for a path.
    pub queued_packets: u64,
    /// Their bytes.
    pub queued_bytes: u64,
    /// Whether they wait for paths that the class insists on, while none of these works and others do.
    #[serde(default)]
    pub is_stuck: bool,
    /// Inner packets that have gone to a path.
    pub tx_packets: u64,
    /// Inner packets marked as having experienced congestion.
    pub marked_packets: u64,
    /// Inner packets of flows that built a queue where none should, and were put into the last class.
    #[serde(default)]
    pub put_out_packets: u64,
    /// Acknowledgements of TCP that did not leave, as a later one said the same and more.
    #[serde(default)]
    pub superseded_packets: u64,
    /// Inner packets that the queue dropped, by reason: `codel` for those of flows that kept it too long, `full`,
    /// `stale`.
    pub drops: BTreeMap<String, u64>,
}

/// Whether packets get through to a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PeerState {
    /// They do.
    Connected,
    /// The handshake is under way.
    Connecting,
    /// No path works, or the peer has not called.
    Down,
}

/// About a control connection.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ControlStatus {
    /// Whether there is one.
    pub connected: bool,
    /// How long that has been so.
    pub since_s: f64,
    /// Why the last attempt failed, or the last connection ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_error: Option<String>,
}

/// The paths of one peer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PeerPaths {
    /// The peer's name.
    pub peer: String,
    /// Its paths.
    pub paths: Vec<PathStatus>,
}

/// A quota of an uplink, and what its paths have used of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct QuotaStatus {
    /// Bytes that it may carry in a period, in both directions.
    pub bytes: u64,
    /// Bytes that it has carried in this one.
    pub used_bytes: u64,
    /// How long a period is: `day`, `week` or `month`.
    pub every: String,
    /// The day of the week (1 is Monday) or of the month on which one begins.
    pub day: u8,
    /// What becomes of its paths then: `backup`, `never`, or `slow:` and a rate.
    pub then: String,
    /// When the next period begins (RFC 3339); absent where a calendar ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ends: Option<String>,
    /// Whether it is used up.
    pub used_up: bool,
    /// Why what is used is kept in memory only, and forgotten when the daemon ends.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// About one path.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathStatus {
    /// Its name.
    pub name: String,
    /// Its number in the protocol.
    pub id: u32,
    /// What it is doing.
    pub state: PathState,
    /// For how long.
    #[serde(default)]
    pub since_s: f64,
    /// Why it carries no data, if it does not and that can be said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// The page of the captive portal that is in its way, if one was found.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub portal: Option<String>,
    /// Whether it was added while the daemon ran, and is not in its configuration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub added: bool,
    /// The local address, once it is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<String>,
    /// The local port, if its socket is open and has ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local_port: Option<u16>,
    /// The address and port from which its datagrams come, as the peer last said: behind a NAT those of the NAT. Absent if
    /// the peer says nothing, as older ones and hidden ones do, and if the path leads through relays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seen_as: Option<String>,
    /// The remote address and port, once they are known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub remote: Option<String>,
    /// The relays that it leads through, the nearest first. A site that has not opened the path knows the nearest only: by
    /// its name if it has one here, else by its public key.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub relays: Vec<String>,
    /// Whether its datagrams travel in IP-in-IP to the relay; told by the site that has opened it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub ip_in_ip: bool,
    /// Whether its datagrams travel in a stream of TLS; told by the site that has opened it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub in_stream: bool,
    /// Why it has no session at its relays, or no connection to one of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub relay_error: Option<String>,
    /// The interface that it is bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
    /// What it shares with other paths of this site that have the same: its interface, else its local address, else the
    /// `default` of the routes. Relays behind one uplink add ways, but no rate beyond the uplink's. Absent if the peer has
    /// opened the path.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uplink: Option<String>,
    /// Its share in the `wrr` scheduler.
    pub weight: u16,
    /// What it is for: `primary`, `secondary`, `backup` or `never`.
    #[serde(default)]
    pub tier: String,
    /// Which way it carries data, as seen from the site that has opened it: `both`, `up` or `down`. Always `both` if that is the peer,
    /// which tells what this site shall do by the tier.
    #[serde(default)]
    pub direction: String,
    /// What its uplink may carry, and has carried, if that is limited.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub quota: Option<QuotaStatus>,
    /// The most it may send.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_rate_mbps: Option<f64>,
    /// The largest IP packet that it is known to carry, in bytes: found by probing, reckoned with IPv6's header.
    #[serde(default)]
    pub mtu: u16,
    /// What its interface carries, in bytes, if the path was found to carry less: it swallows what is larger.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub narrower_than: Option<u16>,
    /// Smoothed round-trip time; absent before the first measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ms: Option<f64>,
    /// Mean deviation of the round-trip time; absent before the first measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_var_ms: Option<f64>,
    /// Datagrams lost, of the last hundred.
    pub loss_pct: f64,
    /// Whether routers on it can mark datagrams instead of dropping them (ECN).
    #[serde(default)]
    pub ecn: PathEcn,
    /// Datagrams that routers have marked, of those that they could have marked.
    #[serde(default)]
    pub marked_pct: f64,
    /// When it delivers nothing, if that was found to come back with a period. Absent if not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slot: Option<PathSlot>,
    /// The number of the bottleneck behind which it shares one link's rate with other paths of the peer that have the same
    /// number. Absent if its queue does not show that it shares one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bottleneck: Option<usize>,
    /// Estimated delivery rate; absent before the first measurement.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_mbps: Option<f64>,
    /// Outer bytes sent.
    pub tx_bytes: u64,
    /// Outer bytes received.
    pub rx_bytes: u64,
    /// Datagrams sent.
    pub tx_packets: u64,
    /// Datagrams received.
    pub rx_packets: u64,
    /// Datagrams sent and declared lost.
    pub lost_packets: u64,
    /// How often the path became suspect because somebody on the way said (ICMP) that a datagram was not delivered.
    #[serde(default)]
    pub undelivered: u64,
}

/// Outages of a path that come back with a period, during which other paths carry what is sent.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathSlot {
    /// From the beginning of one to that of the next.
    pub period_s: f64,
    /// How long each takes.
    pub length_ms: f64,
    /// Until the next one begins.
    pub next_s: f64,
}

/// Whether congestion marks (ECN) cross a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathEcn {
    /// Not known yet: no data has been sent and acknowledged.
    #[default]
    Trying,
    /// They do.
    Capable,
    /// They don't, or what can be marked is dropped.
    Failed,
}

/// What a path is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum PathState {
    /// Being validated.
    Probing,
    /// Carrying data.
    Active,
    /// Silent while it should not be: no new data.
    Suspect,
    /// Not answering.
    Dead,
    /// Kept alive in reserve.
    Standby,
    /// Removed: what is on its way still arrives.
    Closing,
}

impl ClassStatus {
    /// Whether it ever had a packet.
    pub fn is_used(&self) -> bool {
        self.tx_packets + self.queued_packets + self.drops.values().sum::<u64>() > 0
    }
}

impl fmt::Display for PeerState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Connected => "connected",
            Self::Connecting => "connecting",
            Self::Down => "down",
        })
    }
}

impl fmt::Display for PathState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Probing => "probing",
            Self::Active => "active",
            Self::Suspect => "suspect",
            Self::Dead => "dead",
            Self::Standby => "standby",
            Self::Closing => "closing",
        })
    }
}
