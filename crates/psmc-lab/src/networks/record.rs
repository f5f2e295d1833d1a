//! The figures of all networks, as a file keeps them.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::Flow;
use super::case::share_inside;

/// All that was measured. Nothing in it depends on the build but the figures.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// Where the networks come from.
    pub(super) source: String,
    /// `cubic`, `reno`, `bbr` or `flood`.
    pub(super) flow: String,
    /// Whether the sites ended its connection.
    #[serde(default)]
    pub(super) split: bool,
    /// How long the flow lasted.
    pub(super) seconds: u32,
    /// Whether packets were real.
    pub(super) real: bool,
    /// In the order of their seeds; those for which a run failed are not there.
    pub(super) networks: Vec<Entry>,
}

/// The figures of a network. Units are in the names: `_mbps` 10^6 bit/s of payload, `_ms` milliseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Entry {
    /// Of the network; of a recorded one the number of the window.
    pub(super) seed: u32,
    /// The network in a line.
    pub(super) spec: String,
    /// Through the tunnel.
    pub(super) goodput_mbps: f64,
    /// Of the same flow over the best link alone, without a tunnel.
    pub(super) alone_mbps: Option<f64>,
    /// Of the same flow over one link that has the rates of all, without a tunnel.
    pub(super) one_mbps: Option<f64>,
    /// Of a flood through the tunnel, if the sites ended the connection of the flow.
    #[serde(default)]
    pub(super) flood_mbps: Option<f64>,
    /// What all links can carry through the tunnel.
    pub(super) sum_mbps: f64,
    /// The round trip of the nearest link.
    pub(super) nearest_ms: f64,
    /// Round trips of pings beside the flow; of none if none was answered.
    pub(super) ping_p50_ms: Option<f64>,
    pub(super) ping_p99_ms: Option<f64>,
    pub(super) ping_max_ms: Option<f64>,
}

/// Why another record is of no use.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RecordError {
    #[error("cannot read {}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{} is no file that `psmc-lab networks --json` has written", path.display())]
    Form { path: PathBuf, source: serde_json::Error },
    #[error("{} has {theirs}, which cannot be compared with {ours}", path.display())]
    Other { path: PathBuf, theirs: String, ours: String },
}

impl Record {
    /// Of how many networks there are figures.
    pub(crate) fn len(&self) -> usize {
        self.networks.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.networks.is_empty()
    }

    /// Reads a record that is to be compared with such runs as this one has, whose networks may not be there yet.
    pub(crate) fn load_like(&self, path: &Path) -> Result<Self, RecordError> {
        let text = fs::read(path).map_err(|source| RecordError::Read { path: path.to_owned(), source })?;
        let record: Self = serde_json::from_slice(&text)
            .map_err(|source| RecordError::Form { path: path.to_owned(), source })?;
        let (theirs, ours) = (record.kind(), self.kind());
        if theirs == ours {
            Ok(record)
        } else {
            Err(RecordError::Other { path: path.to_owned(), theirs, ours })
        }
    }

    /// Leaves the networks that another record has as well.
    pub(crate) fn keep_common(&mut self, other: &Self) {
        // The same seed has another network if what is drawn has changed.
        let names = other.networks.iter().map(|network| (network.seed, &network.spec));
        let names: BTreeSet<_> = names.collect();
        self.networks.retain(|network| names.contains(&(network.seed, &network.spec)));
    }

    pub(super) fn is_flood(&self) -> bool {
        self.flow == Flow::Flood.name()
    }

    /// What must be equal in records that are compared: whether packets are real, and who ends connections, need not.
    fn kind(&self) -> String {
        format!("{}: {}, {} s", self.source, self.flow, self.seconds)
    }
}

impl Entry {
    /// Of what the same flow has over the best link alone, the tunnel's headers taken off.
    pub(super) fn of_alone(&self) -> Option<f64> {
        Some(ratio(self.goodput_mbps, self.alone_mbps? * share_inside()))
    }

    /// The same as it is.
    pub(super) fn gain(&self) -> Option<f64> {
        Some(ratio(self.goodput_mbps, self.alone_mbps?))
    }

    /// Of what it has over one link with the rates of all.
    pub(super) fn of_one(&self) -> Option<f64> {
        Some(ratio(self.goodput_mbps, self.one_mbps?))
    }

    /// Of what a flood has through the tunnel.
    pub(super) fn of_flood(&self) -> Option<f64> {
        Some(ratio(self.goodput_mbps, self.flood_mbps?))
    }

    /// Of what all links can carry through the tunnel.
    pub(super) fn of_sum(&self) -> f64 {
        ratio(self.goodput_mbps, self.sum_mbps)
    }

    /// What it is judged by first: what the flow has alone, if that was measured.
    pub(super) fn main_ratio(&self) -> f64 {
        self.of_alone().unwrap_or_else(|| self.of_sum())
    }

    /// By how much the slowest pings take longer than the round trip of the nearest link.
    pub(super) fn ping_beyond_ms(&self) -> Option<f64> {
        Some(self.ping_p99_ms? - self.nearest_ms)
    }
}

/// Nothing of nothing is all of it, and something of nothing much.
pub(super) fn ratio(part: f64, whole: f64) -> f64 {
    if part == whole { 1.0 } else { part / whole.max(NEXT_TO_NOTHING_MBPS) }
}

/// A kilobit per second.
const NEXT_TO_NOTHING_MBPS: f64 = 0.001;
