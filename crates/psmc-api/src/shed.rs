//! What a peer is asked to drop of what goes to this site: docs/PROTOCOL.md, section 18.

use serde::{Deserialize, Serialize};

/// All that a peer is asked to drop, in place of what it was asked before.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedSpec {
    /// The peer's name.
    pub peer: String,
    /// Larger than that of any request before, over restarts too; 0 asks for nothing, and has the peer tell what it drops.
    pub serial: u64,
    /// How long it drops unless it is asked again, in milliseconds.
    pub lifetime_ms: u32,
    /// What it lets pass of what.
    pub rules: Vec<ShedRule>,
}

/// What may pass of some packets.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedRule {
    /// Where they go, a prefix.
    pub destination: String,
    /// Where they come from, a prefix; anywhere if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub source: Option<String>,
    /// Their protocol's number; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub protocol: Option<u8>,
    /// Their first and last destination port; any if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ports: Option<(u16, u16)>,
    /// Bytes of inner packets that may pass per second; all if absent: then they are counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes_per_second: Option<u64>,
}

/// What a peer has answered last.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedAnswer {
    /// The number of the question that it answers: one that was told before has nothing new.
    pub request: u32,
    /// What became of that question.
    pub outcome: ShedOutcome,
    /// The largest serial number whose rules were taken.
    pub serial: u64,
    /// How long what is in force lasts, in milliseconds.
    pub lasts_ms: u32,
    /// Rules that this site may have there.
    pub max_rules: u8,
    /// The peer's clock when it counted, in microseconds.
    pub clock_us: u64,
    /// The rules.
    pub rules: Vec<ShedTold>,
}

/// A rule as it stands at a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ShedTold {
    /// The rule.
    pub rule: ShedRule,
    /// Whether it is in force.
    pub verdict: ShedVerdict,
    /// Bytes that have come since it was first taken.
    pub offered_bytes: u64,
    /// Bytes of those that were dropped.
    pub dropped_bytes: u64,
}

/// What has become of a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShedOutcome {
    /// Its rules are in force, but for those that are refused.
    Taken,
    /// It asked for nothing.
    Told,
    /// Its serial number is no larger than that of one before.
    Replayed,
    /// Its rules had no time to last.
    Expired,
    /// It has too many rules.
    TooMany,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}

/// What has become of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ShedVerdict {
    /// It is in force.
    Taken,
    /// The destination is not this site's.
    Foreign,
    /// Another one is about the same packets.
    Contradictory,
    /// It is none.
    Illegal,
    /// A reason that this version does not know.
    #[serde(other)]
    Other,
}
