//! What a run or a simulation of a scenario has measured: the same in both cases, as JSON, a table and plots show it.

use std::collections::BTreeMap;

use psmc_testbed::stalls::Stalls;
use serde::{Deserialize, Serialize};

/// All results of a scenario. Units are in the names: `_mbps` 10^6 bit/s, `_ms` milliseconds, `_s` seconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Results {
    /// The scenario's name.
    pub scenario: String,
    /// How it was done.
    pub mode: Mode,
    /// The seed of all chance.
    pub seed: u64,
    /// How long it ran.
    pub duration_s: f64,
    /// The streams of traffic, in the order of the file.
    pub traffic: Vec<TrafficResult>,
    /// The links, in the order of the file, both directions of each.
    pub links: Vec<LinkResult>,
    /// The paths of all tunnels, as their first sites see them.
    pub paths: Vec<PathResult>,
    /// The sites of all tunnels that answered at the end of a run in real time.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub sites: Vec<SiteResult>,
    /// The programs.
    pub programs: Vec<ProgramResult>,
    /// What happened when.
    pub events: Vec<EventResult>,
    /// The checks; all of them hold in a successful run.
    pub checks: Vec<CheckResult>,
    /// How much the machine stood still meanwhile; virtual time does not pass then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stalls: Option<StallResult>,
    /// Why the figures should not be trusted: that the machine was too slow, for one.
    pub warnings: Vec<String>,
}

/// Real packets or virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// Real programs in namespaces.
    Real,
    /// The simulator.
    Simulated,
}

/// A value over time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sample {
    /// The end of the interval.
    pub at_s: f64,
    /// The value.
    pub value: f64,
}

/// A stream of traffic.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TrafficResult {
    /// Its name.
    pub name: String,
    /// `tcp`, `quic`, `udp`, `requests` or `ping`.
    pub kind: String,
    /// Payload that arrived.
    pub bytes: u64,
    /// Its mean rate, from the start of the stream to its end.
    pub goodput_mbps: f64,
    /// Its rate in each interval.
    pub goodput_series_mbps: Vec<Sample>,
    /// The longest time between two deliveries.
    pub longest_gap_ms: Option<f64>,
    /// The same in each interval: the longest time without a delivery that ended in it.
    pub gap_series_ms: Vec<Sample>,
    /// Datagrams, requests or pings: how many were sent.
    pub sent: Option<u64>,
    /// How many of them were lost or not answered, in percent.
    pub loss_percent: Option<f64>,
    /// The same of those sent in each interval; intervals in which none was are left out.
    pub loss_series_percent: Vec<Sample>,
    /// How many arrived after a later one, in percent.
    pub reordered_percent: Option<f64>,
    /// Round-trip times of pings, response times of requests, one-way delays of datagrams beyond the smallest.
    pub latency: Option<Distribution>,
    /// Why it ended early, if it did.
    pub error: Option<String>,
}

/// How values are distributed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Distribution {
    /// The smallest.
    pub min_ms: f64,
    /// The median.
    pub p50_ms: f64,
    /// The 90th percentile.
    pub p90_ms: f64,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The largest.
    pub max_ms: f64,
    /// Every value, in the order of time.
    pub samples_ms: Vec<Sample>,
}

/// A direction of a link.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct LinkResult {
    /// The link's name.
    pub name: String,
    /// The host that sends.
    pub from: String,
    /// The host that receives.
    pub to: String,
    /// IP packets that arrived.
    pub packets: u64,
    /// Their mean rate over the whole run, from the IP header on.
    pub rate_mbps: f64,
    /// Their rate in each interval.
    pub rate_series_mbps: Vec<Sample>,
    /// Packets lost by chance, in percent of those that entered.
    pub lost_percent: f64,
    /// Packets dropped by the queue, in percent of those that entered.
    pub dropped_percent: f64,
    /// Packets that did not arrive, for any reason, in percent of those that entered in each interval.
    pub loss_series_percent: Vec<Sample>,
}

/// A path of a tunnel.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PathResult {
    /// The tunnel's name.
    pub tunnel: String,
    /// The path's name.
    pub path: String,
    /// What the first site sent over it in each interval.
    pub sent_series_mbps: Vec<Sample>,
    /// What it received.
    pub received_series_mbps: Vec<Sample>,
    /// Its smoothed round-trip time.
    pub rtt_series_ms: Vec<Sample>,
}

/// A site, by what its daemon has counted since it was started.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SiteResult {
    /// The tunnel's name.
    pub tunnel: String,
    /// The host it ran on.
    pub host: String,
    /// Inner packets that it dropped instead of sending them to the other site, by reason.
    pub drops: BTreeMap<String, u64>,
    /// What became of flows that lost much, as in `psmc status --json`; empty unless they were judged.
    pub unresponsive: BTreeMap<String, u64>,
    /// What may pass of all that were held down, of the first site of a tunnel; without the intervals in which none were.
    pub limit_series_mbps: Vec<Sample>,
}

/// A program.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ProgramResult {
    /// Its name.
    pub name: String,
    /// How it ended; `None` if it was still running at the end.
    pub exit_status: Option<i32>,
    /// Where what it printed is; empty if that was not to be kept.
    pub log: String,
    /// The end of what it printed, if the scenario asks for that.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output: Option<String>,
}

/// An event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct EventResult {
    /// When it should happen.
    pub at_s: f64,
    /// When it did.
    pub happened_s: f64,
    /// What.
    pub what: String,
}

/// A check.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CheckResult {
    /// What was asked for, in words.
    pub what: String,
    /// What was measured; `None` if nothing was.
    pub value: Option<f64>,
    /// Whether it holds.
    pub ok: bool,
}

/// How much a machine stood still during a run, as virtual ones do while their host gives the processors to others.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct StallResult {
    /// The part of the time that a processor stood still, in percent: the mean of all processors.
    pub share_percent: f64,
    /// The longest time that one did.
    pub longest_ms: f64,
}

impl From<Stalls> for StallResult {
    fn from(stalls: Stalls) -> Self {
        Self { share_percent: 100.0 * stalls.share, longest_ms: 1000.0 * stalls.longest.as_secs_f64() }
    }
}
