//! What was promised to a site, and how that is kept.

use serde::{Deserialize, Serialize};

/// A promise that is watched, `[[sla.target]]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlaStatus {
    /// Its name.
    pub name: String,
    /// What it is about, in words: a peer or a reflector.
    pub measured: String,
    /// What was promised, in words.
    pub limits: String,
    /// How it stands.
    pub state: SlaState,
    /// For how long.
    pub since_s: f64,
    /// How often it was broken since psmcd started, or the target was changed.
    pub breaches: u64,
    /// Why nothing is known, if that is so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub why: Option<String>,
    /// What is not kept: `delay`, `loss to hq`, `loss from hq`, `throughput`.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub broken: Vec<String>,
    /// The quantile of the delay in the window, which is that of the round trip.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round_trip_ms: Option<f64>,
    /// What was lost in the window on the way there; to a reflector and back.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_to_pct: Option<f64>,
    /// What was lost in the window on the way from the peer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub loss_from_pct: Option<f64>,
    /// What was carried in the window, if as much as was promised was there to be sent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub throughput_mbps: Option<f64>,
    /// The segments at fault, surest first; while the target is broken, and as it was then.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<SlaFault>,
    /// What cannot be told of where the fault is, and why.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub untold: Vec<String>,
    /// How good the clocks are, and what was made of them.
    pub clocks: String,
}

/// How a target stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlaState {
    /// There is too little to go by.
    Unknown,
    /// All that was promised and could be measured is kept.
    Met,
    /// Something is not kept, and not all has been well since for long enough.
    Broken,
}

/// A segment that breaks the promise.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlaFault {
    /// The path's name; absent for a reflector.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// Where it begins.
    pub from: String,
    /// Where it ends: the same for what a relay drops itself.
    pub to: String,
    /// `loss` in per cent, or `delay` in milliseconds above the least.
    pub what: String,
    /// The most likely value.
    pub value: f64,
    /// The lower end of the 95 % interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// The chance that a segment that just keeps the promise does better than this, in per cent.
    pub sure_pct: f64,
    /// Whether a segment that keeps the promise has less than one chance in ten thousand to look like this.
    pub proven: bool,
}
