//! Loss and delay by segment.

use serde::{Deserialize, Serialize};

/// What is known of the segments of a path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathSegments {
    /// The name of its peer.
    pub peer: String,
    /// The path's name.
    pub path: String,
    /// Its id, by which both sites know it.
    pub id: u32,
    /// From this site to the peer.
    pub to_peer: WayStatus,
    /// From the peer to this site.
    pub from_peer: WayStatus,
}

/// One direction of a path. All lists of witnesses have the same order: the sender, its relays, the receiver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WayStatus {
    /// Who could count what passes.
    pub witnesses: Vec<Witness>,
    /// What was counted in the last blocks, oldest first.
    pub blocks: Vec<SegmentBlock>,
    /// The sum since the same witnesses count.
    pub total: SegmentBlock,
    /// When some of the datagrams passed, oldest first.
    pub passages: Vec<Passage>,
}

/// A site or a relay.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Witness {
    /// Its name here.
    pub name: String,
    /// Whether it counts: an earlier version does not, and one that cannot be asked may as well not.
    pub counts: bool,
}

/// What was counted in half a second of the sender's clock, or in several that are not next to each other.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentBlock {
    /// The number of the last of them.
    pub number: i64,
    /// How many they are.
    pub blocks: i64,
    /// By each witness; `null` of those that do not count.
    pub counts: Vec<Option<WitnessCount>>,
}

/// The datagrams that a witness has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct WitnessCount {
    /// Those that came; absent of the sender.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub received: Option<u64>,
    /// Those that it has sent on; absent of the receiver.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handed_on: Option<u64>,
}

/// A datagram that was seen to pass.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Passage {
    /// The low 32 bits of its packet number.
    pub number: u32,
    /// When it came to each witness, or was sent, in microseconds of that one's own clock; `null` where that is not known. No two
    /// clocks agree: only by how much more one is behind another than with other datagrams means anything.
    pub at_us: Vec<Option<u64>>,
}
