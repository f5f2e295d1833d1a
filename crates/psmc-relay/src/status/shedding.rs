//! What is dropped for those to whom it goes.

use psmc_core::shed::ShedCounts as Counted;
use psmc_wire::shed::{Packets, Told, What};
use serde::{Deserialize, Serialize};

/// What is dropped for whom, and what has become of those who asked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Shedding {
    /// What has become of questions and rules.
    pub counts: ShedCounts,
    /// Sites that have rules.
    pub sites: Vec<Shed>,
}

/// What has become of questions and rules since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedCounts {
    /// Questions whose rules were taken, all or some.
    pub taken: u64,
    /// Questions that were no newer than one before.
    pub replayed: u64,
    /// Questions whose rules had no time to last.
    pub expired: u64,
    /// Questions with more rules than their site may have.
    pub too_many: u64,
    /// Rules about what goes to others, or is not seen here.
    pub foreign: u64,
    /// Rules about the same as another one.
    pub contradictory: u64,
    /// Rules that are none.
    pub illegal: u64,
}

/// The rules of a site.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Shed {
    /// What the site is called.
    pub site: String,
    /// When they end unless it asks again.
    pub lasts_s: f64,
    /// The rules.
    pub rules: Vec<ShedRule>,
}

/// A rule.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedRule {
    /// What it is about.
    pub what: String,
    /// What may pass, in bytes per second; all if absent.
    pub limit_bytes_per_s: Option<u64>,
    /// What has come.
    pub offered_bytes: u64,
    /// What of it was dropped.
    pub dropped_bytes: u64,
}

impl ShedRule {
    pub(crate) fn new(told: &Told) -> Self {
        Self {
            what: what(&told.rule.what),
            limit_bytes_per_s: told.rule.rate,
            offered_bytes: told.offered,
            dropped_bytes: told.dropped,
        }
    }
}

/// What a rule is about, without the key of a label.
fn what(what: &What) -> String {
    let of = |precedence: &Option<u8>| precedence.map_or_else(String::new, |own| format!(" of DP{own}"));
    match what {
        What::Packets(packets) => packets_text(packets),
        What::Datagrams(precedence) => format!("datagrams{}", of(precedence)),
        What::Label(hop, precedence) => format!("datagrams{} to label {:08x}", of(precedence), hop.label.0),
    }
}

fn packets_text(Packets { destination, source, protocol, ports }: &Packets) -> String {
    let mut text = destination.to_string();
    if let Some(protocol) = protocol {
        text += &format!(" protocol {protocol}");
    }
    if let Some((first, last)) = ports {
        text += &format!(" ports {first}-{last}");
    }
    if let Some(source) = source {
        text += &format!(" from {source}");
    }
    text
}

impl From<Counted> for ShedCounts {
    fn from(counted: Counted) -> Self {
        let Counted { taken, replayed, expired, too_many, foreign, contradictory, illegal } = counted;
        Self { taken, replayed, expired, too_many, foreign, contradictory, illegal }
    }
}
