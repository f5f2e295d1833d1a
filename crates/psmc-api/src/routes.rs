//! What is learned while a site runs: routes to peers, registrations, and how it stands with a peer.

use std::net::{IpAddr, SocketAddr};

use serde::{Deserialize, Serialize};

/// A relay through which a peer is reached by its key.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteSpec {
    /// Where the relay takes connections.
    pub address: SocketAddr,
    /// The relay's public key, base64.
    pub public_key: String,
    /// The key under which the gateway is registered there, base64; absent if it is the peer's own. A session is with one
    /// key, so that any other is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gateway: Option<String>,
}

/// A relay with which a site registers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegisterSpec {
    /// Where the relay takes connections.
    pub address: SocketAddr,
    /// The relay's public key, base64.
    pub public_key: String,
    /// The local address by which the site registers there, and from which datagrams to the relay leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub local: Option<IpAddr>,
    /// The interface by which both leave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interface: Option<String>,
}

/// What a client waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum WaitFor {
    /// A path to the peer that can carry data.
    Usable,
    /// That the direct paths to the peer are not well.
    Trouble,
}

/// Which paths carry the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Carrier {
    /// Those of the configuration.
    Direct,
    /// Those over learned routes.
    Learned,
}

/// How it stands with a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerReport {
    /// The peer's name.
    pub peer: String,
    /// Whether what was waited for has come; false if the time was over before.
    pub reached: bool,
    /// Whether a path can carry data.
    pub usable: bool,
    /// Whether the direct paths are well, or one of them is.
    pub direct_well: bool,
    /// How many paths over learned routes can carry data.
    pub learned_up: u32,
    /// The serial of the last set of routes; absent if there was none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// When the present set of routes ends, in seconds since 1970; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
}

/// The learned routes of one peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PeerRoutes {
    /// The peer's name.
    pub peer: String,
    /// What is known.
    pub routes: RoutesStatus,
}

/// About the learned routes to a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RoutesStatus {
    /// When they are used, as the configuration spells it.
    pub policy: String,
    /// The serial of the last set; absent if there was none yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub serial: Option<u64>,
    /// When the present set ends, in seconds since 1970; absent if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Which paths carry the data.
    pub carrier: Carrier,
    /// Whether the direct paths are well, or one of them is.
    pub direct_well: bool,
    /// The routes of the set, the preferred one first.
    pub routes: Vec<RouteStatus>,
}

/// About one learned route.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RouteStatus {
    /// What its relay is called here.
    pub relay: String,
    /// Where that is.
    pub address: String,
    /// Its public key, base64.
    pub public_key: String,
    /// The paths that lead over it.
    pub paths: Vec<String>,
    /// Why the relay does not do its work: nothing, or too little, comes over any of these paths, while another way works.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failed: Option<String>,
}
