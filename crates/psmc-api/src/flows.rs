//! Flows that are known one by one: those that lose much, and what is done about those that go on; and TCP connections that the sites
//! end.

use serde::{Deserialize, Serialize};

/// The flows that are known.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Flows {
    /// What is done about those that heed no loss: `off`, `police` or `seed`. None are known while it is `off`.
    pub mode: String,
    /// Those that are watched, up to sixteen of each peer.
    pub flows: Vec<FlowStatus>,
    /// TCP connections that the sites end, those with the most bytes first, up to a thousand of each peer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended: Vec<EndedFlow>,
}

/// A TCP connection that this site and a peer end, and carry as a stream.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EndedFlow {
    /// The name of the peer.
    pub peer: String,
    /// Who has called, with the port.
    pub client: String,
    /// Who was called.
    pub server: String,
    /// Whether the client is at this site.
    pub is_from_here: bool,
    /// Whether the connection stands at both ends.
    pub stands: bool,
    /// For how long there is one.
    pub age_s: f64,
    /// How long after the client's first segment the first byte of the other side came, if one did.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub first_byte_s: Option<f64>,
    /// Bytes sent to the peer.
    pub tx_bytes: u64,
    /// Of these, what was sent once more, since it seemed to be lost.
    pub resent_bytes: u64,
    /// Bytes received of the peer, in order.
    pub rx_bytes: u64,
    /// Bytes that wait here for paths.
    pub waiting_bytes: u64,
    /// Bytes that have come and wait here for their host.
    pub held_bytes: u64,
    /// How many bytes the peer may send beyond what the host has taken.
    pub window_bytes: u64,
}

/// Packets that are taken together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowStatus {
    /// The name of the peer that they go to.
    pub peer: String,
    /// Their class; `null` if a peer tells of them, which knows of no classes of this site.
    pub class: Option<String>,
    /// Whether the peer tells that they are dropped behind it.
    pub is_dropped_behind: bool,
    /// What they look like: `tcp` (or anything else that is not UDP), `quic`, `udp`.
    pub kind: String,
    /// Where they come from; a prefix of length 0 is everything of the class.
    pub sources: String,
    /// Where they go, if not all from there are meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<String>,
    /// Whether they are one flow, and not all from there.
    pub is_one_flow: bool,
    /// Both ends of the newest of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub example: Option<String>,
    /// The target on whose behalf they are suspected: they seem to fill what breaks it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub candidate_of: Option<String>,
    /// What came in the last round.
    pub offered_bits_per_second: u64,
    /// What arrived.
    pub delivered_bits_per_second: u64,
    /// What was dropped of those that were let pass, in per cent.
    pub loss_pct: f64,
    /// What has come since they are watched.
    pub offered_bytes: u64,
    /// Dropped here because of the limit.
    pub held_back_bytes: u64,
    /// Arrived.
    pub delivered_bytes: u64,
    /// Dropped elsewhere.
    pub dropped_bytes: u64,
    /// How they are held down, if they are.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<FlowLimit>,
}

/// How flows are held down that heed no loss.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct FlowLimit {
    /// For how long, in seconds.
    pub since_s: f64,
    /// What passes.
    pub bits_per_second: u64,
    /// What was lost of them when they were found out, in per cent.
    pub loss_pct: f64,
}
