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
    /// The most that was sent to the peer in any five seconds of the last minute that was well.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_to_mbps: Option<f64>,
    /// The most that has come from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub usual_from_mbps: Option<f64>,
    /// What carries most of what crosses the segments at fault, or the whole way if none is named: while the target is broken, from
    /// two seconds after that.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub aggregates: Vec<SlaAggregate>,
    /// How good the clocks are, and what was made of them.
    pub clocks: String,
}

/// A prefix of destinations that carries more than a fifth of what crosses a segment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlaAggregate {
    /// Where the segment begins that it crosses.
    pub from: String,
    /// Where that ends.
    pub to: String,
    /// Its destinations.
    pub prefix: String,
    /// What it carries of all that crosses the segment through this site, in per cent.
    pub share_pct: f64,
    /// What it carries, in Mbit/s.
    pub rate_mbps: f64,
    /// Where it enters, most first: networks that it comes from if this site sends it, else paths of peers.
    pub ingresses: Vec<SlaIngress>,
    /// How many sources it has at least; up to 256 are told apart.
    pub sources: usize,
    /// Those, if they are no more than eight.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub source_addresses: Vec<String>,
    /// Packets that have come back from there for each hundred.
    pub answered_pct: f64,
    /// How many times as much as all together carried before; absent if that is not known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub risen: Option<f64>,
    /// What it looks like.
    pub cause: SlaCause,
}

/// Where a part of an aggregate enters.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SlaIngress {
    /// A network, or a path and its peer.
    pub name: String,
    /// The part, in per cent.
    pub share_pct: f64,
}

/// What an aggregate looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlaCause {
    /// Too little was seen of it, or what was usual is not known.
    CannotBeTold,
    /// It carries no more than was usual, or little more.
    Usual,
    /// It is new, and answered.
    Crowd,
    /// It is new, and hardly answered.
    Attack,
}

impl SlaCause {
    /// In words.
    #[must_use]
    pub fn in_words(self) -> &'static str {
        match self {
            Self::CannotBeTold => "attack or crowd cannot be told",
            Self::Usual => "not much more than usual",
            Self::Crowd => "looks like a crowd",
            Self::Attack => "looks like an attack",
        }
    }
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
