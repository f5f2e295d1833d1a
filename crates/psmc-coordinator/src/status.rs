//! What a coordinator tells about itself.

mod metrics;

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use psmc_net::tls::Counters;
use psmc_signal::Stage;
use serde::{Deserialize, Serialize};

use crate::mitigation::{Moment, OpenAlert};

pub use metrics::METRICS;

/// What there is to know.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Status {
    /// The coordinator's name.
    pub name: String,
    /// How long it has been up, in seconds.
    pub uptime_s: u64,
    /// Whether it decides, and does not stand by while another does.
    pub leads: bool,
    /// Who decides, if that is known.
    pub leader: Option<String>,
    /// Gateways that are connected.
    pub gateways: usize,
    /// Clients that are connected.
    pub clients: usize,
    /// Watchers that are connected.
    #[serde(default)]
    pub watchers: usize,
    /// Clients that are told nothing.
    pub blocked: Vec<String>,
    /// Why what happens cannot be kept, if it cannot.
    #[serde(default)]
    pub not_kept: Option<String>,
    /// How it goes with Suricata's events, if they are followed.
    #[serde(default)]
    pub suricata: Option<EveStatus>,
    /// What it has done.
    pub counts: Counts,
    /// How connections of gateways and clients ended up.
    pub handshakes: Handshakes,
    /// The relays.
    pub relays: Vec<RelayStatus>,
    /// The services.
    pub services: Vec<ServiceStatus>,
}

impl Status {
    /// What there is to know of a coordinator that stands by, which knows nothing of relays and services.
    #[must_use]
    pub fn of_standby(
        name: String,
        leader: Option<String>,
        up: Duration,
        handshakes: &Counters,
        suricata: Option<EveStatus>,
    ) -> Self {
        Self {
            name,
            uptime_s: up.as_secs(),
            leads: false,
            leader,
            gateways: 0,
            clients: 0,
            watchers: 0,
            blocked: Vec::new(),
            not_kept: None,
            suricata,
            counts: Counts::default(),
            handshakes: Handshakes::of(handshakes),
            relays: Vec::new(),
            services: Vec::new(),
        }
    }
}

/// What a coordinator has done since its start.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Counts {
    /// Alerts taken, repeated ones included.
    pub alerts: u64,
    /// Messages of gateways and clients that were not theirs to send.
    pub refused: u64,
    /// News of routes that connected clients were told.
    pub told: u64,
    /// News of routes that connected clients were not told: of groups that are not admitted, or blocked.
    pub not_told: u64,
    /// Relays that were reported, and replaced.
    pub relays_reported: u64,
    /// Updates that a name server did not take.
    pub publish_failures: u64,
}

/// How it goes with the file to which Suricata writes events.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EveStatus {
    /// The file.
    pub file: String,
    /// Why nothing is read from it, if that is so.
    pub error: Option<String>,
    /// Lines that were read.
    pub lines: u64,
    /// Of these, alerts about services.
    pub alerts: u64,
    /// Lines that are no JSON, or too long.
    pub unreadable: u64,
    /// How often another file has had the name.
    pub rotations: u64,
}

/// How connections ended up.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Handshakes {
    /// Those that succeeded.
    pub accepted: u64,
    /// Those of strangers.
    pub unknown_key: u64,
    /// Those that failed otherwise.
    pub failed: u64,
    /// Those that took too long.
    pub timed_out: u64,
    /// Those that came too fast, of which nothing was computed.
    #[serde(default)]
    pub put_off: u64,
    /// Those that had to make room for others.
    pub evicted: u64,
    /// Those that succeeded while too many waited.
    pub overflowed: u64,
}

impl Handshakes {
    pub(crate) fn of(counters: &Counters) -> Self {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Self {
            accepted: count(&counters.accepted),
            unknown_key: count(&counters.refused_unknown_key),
            failed: count(&counters.failed_handshake),
            timed_out: count(&counters.timed_out),
            put_off: count(&counters.put_off),
            evicted: count(&counters.evicted),
            overflowed: count(&counters.overflowed),
        }
    }
}

/// What there is to know of a relay.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct RelayStatus {
    /// Its name.
    pub name: String,
    /// Where it is.
    pub address: SocketAddr,
    /// Whether it answers.
    pub alive: bool,
    /// How long it takes to, in milliseconds.
    pub rtt_ms: Option<f64>,
    /// The service that has it.
    pub serves: Option<String>,
    /// What it may carry.
    pub limit_bits_per_second: Option<u64>,
    /// What was wrong with it last.
    pub error: Option<String>,
}

/// What there is to know of a service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServiceStatus {
    /// Its name.
    pub name: String,
    /// Its mitigation; 0 if there was none yet.
    pub mitigation: u64,
    /// Where that stands.
    pub stage: Stage,
    /// Alerts that were not cleared.
    pub alerts: Vec<OpenAlert>,
    /// The relays that each group has.
    pub relays: BTreeMap<String, Vec<String>>,
    /// Relays at which the gateway is registered.
    pub ready: BTreeSet<String>,
    /// The relays that each group is told of.
    pub routes: BTreeMap<String, Vec<String>>,
    /// The serial number of these routes.
    pub serial: u64,
    /// When they end unless they are renewed.
    pub expires: Moment,
    /// When the first alert came.
    pub requested: Option<Moment>,
    /// When the first name server had routes.
    pub published: Option<Moment>,
    /// How long that was, in milliseconds.
    pub published_after_ms: Option<u64>,
    /// Whether its gateway is connected.
    pub gateway_connected: bool,
    /// Its name servers.
    pub servers: Vec<ServerStatus>,
}

/// What there is to know of a name server, for one service.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ServerStatus {
    /// The server.
    pub server: String,
    /// The serial number of the routes that it was given last.
    pub serial: u64,
    /// Whether these are the routes that count.
    pub current: bool,
    /// How long it took to take them, in milliseconds.
    pub took_ms: Option<f64>,
    /// Why it did not.
    pub error: Option<String>,
}
