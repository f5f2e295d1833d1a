//! Inner packets that somebody looks at.

use serde::{Deserialize, Serialize};

/// Which packets are wanted. What is empty or absent excludes nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct CaptureSpec {
    /// The name of the peer to which they go or from which they come.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub peer: Option<String>,
    /// The name of the path that they take; with a peer only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What they are: one of these.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub packets: Vec<PacketSpec>,
}

/// What a packet is: all that is said here.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketSpec {
    /// Of one of these protocols, by IANA's numbers.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub protocols: Vec<u8>,
    /// From or to this port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub port: Option<u16>,
    /// From this network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// To this network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
}

/// What has passed since somebody last looked.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Captured {
    /// In the order in which they have passed.
    pub packets: Vec<CapturedPacket>,
    /// How many more have passed, for which there was no room.
    pub dropped: u64,
}

/// A packet that has passed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CapturedPacket {
    /// When, in nanoseconds since 1970.
    pub unix_ns: u64,
    /// The name of its peer.
    pub peer: String,
    /// The name of the path that it takes, or on which it has come.
    pub path: String,
    /// Whether it is sent; else it has come.
    pub sent: bool,
    /// All of it, from its IP header on.
    #[serde(with = "bytes")]
    pub packet: Vec<u8>,
}

/// Bytes as base64.
mod bytes {
    use base64::Engine;
    use base64::engine::general_purpose::STANDARD;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&STANDARD.encode(bytes))
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        STANDARD.decode(text).map_err(D::Error::custom)
    }
}
